#!/bin/sh
# Tests vaetool: its output, files, errors and exit codes.
# usage: tool.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

wan=$data/wan21/weights.safetensors
seed=$data/seedvr2/weights.safetensors
latents=$data/wan21/decode_t2_6x10.safetensors
video=$data/wan21/encode_f17_48x80.safetensors
ref="--backend ref"

echo "# usage"
check "no command" 2 "$tool"
check "--help" 0 "$tool" --help
says decode encode compare plan make-weights bench info "Exit codes"
check "--version" 0 "$tool" --version
check "--backends" 0 "$tool" --backends
says "cuda: " "cpu: " "ref: yes"
for command in info decode encode compare plan make-weights bench; do
    check "$command --help" 0 "$tool" $command --help
    says "Usage: vaetool $command"
    "$tool" $command --help >"$out/help"
    check "its options in 79 columns" 1 grep '^ .\{79\}' "$out/help"
done
check "unknown command" 2 "$tool" fly
says '"fly"'
check "unknown option" 2 "$tool" info --wings "$wan"
says "--wings"
check "option of another command" 2 "$tool" info --slice 2 "$wan"
check "missing argument" 2 "$tool" decode --model "$wan" "$latents"
check "argument too many" 2 "$tool" info "$wan" "$seed" "$wan"
check "three files without --model" 2 "$tool" decode "$wan" "$latents" \
    "$out/x"
says "\"$out/x\" is one argument too many; --model FILE is missing"
check "decode without a model" 2 "$tool" decode "$latents" "$out/x"
says "--model"
check "bad backend" 2 "$tool" decode --model "$wan" --backend gpu a b
says "gpu"
for backend in cpu ref; do
    check "a device of $backend" 2 "$tool" decode --model "$wan" \
        --backend $backend --device 7 a b
    says "--device needs --backend cuda, but $backend is given"
done
check "bad size" 2 "$tool" plan --model "$wan" --size 10by10
check "a size past the limit" 2 "$tool" plan --model "$wan" --size 65536x10
says "--size \"65536x10\" is not valid" "at most 65535 each way"
check "a number past the limits" 2 "$tool" plan --model "$wan" --size 64x64 \
    --threads -1
says "--threads \"-1\" is not valid, expected 0 to 4096"
check "a negative number" 2 "$tool" plan --model "$wan" --size 64x64 --slice -1
says "--slice \"-1\" is not valid, expected 0 or more"
check "bad posterior" 2 "$tool" encode --model "$wan" \
    --posterior median "$video" "$out/x"
says "median" "mean (default) or sample"
for number in -1 x 1x 18446744073709551616; do
    check "bad seed $number" 2 "$tool" encode --model "$wan" --seed $number \
        "$video" "$out/x"
done
check "option without its value" 2 "$tool" plan --model "$wan" --size

echo "# info"
check "info of weights" 0 "$tool" info "$wan"
says "model: wan2.1 (official names; recognised by" "latent space wan2.1" \
    "16 channels, 8x8 pixels and 4 frames per latent" \
    "decode: 1 latent to 1 frame, then 1 to 4; 108 tensors" \
    "encode: 1 frame to 1 latent, then 4 to 1; with posterior; 86 tensors" \
    "194 tensors, mostly float32" "n latents are 1 + 4 (n - 1) frames" \
    "looks back 38 latents to decode, 28 to encode" \
    96d488c03333fbed94e4b46f11f1240d85dbfd2e6dd127f16cbc8931d5fdab7e \
    "--tensors lists them" "seed = 2101"
says_not "encoder.conv1.weight"
check "with every tensor" 0 "$tool" info --tensors "$wan"
says "encoder.conv1.weight" "8x3x3x3x3"
check "info of latents" 0 "$tool" info "$latents"
says 'tensor "latent"' "2 latents of 16 channels, 10x6"
check "info of one latent" 0 "$tool" info "$data/wan21/decode_t1_6x10.safetensors"
says "1 latent of 16 channels, 10x6"
check "help of an encoder" 0 "$tool" encode --help
says "--normalization N    scale of the latents: normalized (default) or raw"
check "info in JSON" 0 "$tool" info --json "$seed"
says '"arch": "seedvr2"' '"fingerprint"' '"frames_of_n_latents"' \
    '"tensor_count"' '"decoder_bytes"' '"encoder_tensors"' '"metadata"' \
    '"norm_num_groups": "8"'
says_not '"tensors": ['
check "info in JSON with every tensor" 0 "$tool" info --json --tensors "$seed"
says '"tensors": [' '"shape"'
sed 's/coder\.mid_block/coder.mud_block/g' "$seed" >"$out/near.safetensors"
check "info of almost known weights" 0 "$tool" info "$out/near.safetensors"
says "nearest is seedvr2" "encoder.mud_block"
check "info of a variant" 0 "$tool" info --variant taehv \
    "$data/taehv/taew2_1/weights.safetensors"
says "model: taehv" "latent space hunyuan" "variant stated"
sed 's/"variant":/"rariant":/' "$data/taehv/taew2_1/weights.safetensors" \
    >"$out/tae.safetensors"
check "info without the variant" 0 "$tool" info "$out/tae.safetensors"
says "model: taew2_1" "variant taew2_1 assumed"
check "info of no file" 3 "$tool" info "$out/none"
says "$out/none"
head -c 1000 "$wan" >"$out/cut.safetensors"
check "info of half a header" 3 "$tool" info "$out/cut.safetensors"
says "cut.safetensors"

echo "# decode and encode"
check "decode" 0 "$tool" decode $ref --model "$wan" "$latents" \
    "$out/frames.safetensors"
true_that "no output without a terminal" test ! -s "$out/log"
check "decode --verbose" 0 "$tool" decode $ref --verbose --slice 2 \
    --model "$wan" "$latents" "$out/again.safetensors"
says "model opened in " "opened in " "s: backend " ", prepare " ", other " \
    "decode: ref (" "), fp32, 80x48, slices of 2"
check "plan --verbose" 0 "$tool" plan --backend ref --verbose --model "$wan" \
    --size 64x48
says "decode: ref (" "encode: ref (" "), fp32, 64x48, slices of 4"
check "decoded as by the official network" 0 "$tool" compare \
    --max-abs 1e-4 --min-psnr 100 --min-ssim 0.9999 \
    "$out/frames.safetensors" "$latents"
says "frames 5x48x80x3" "peak 2" "SSIM"
for slice in 1 2 0; do
    check "decode, slice $slice" 0 "$tool" decode $ref --slice $slice \
        --model "$wan" "$latents" "$out/again.safetensors"
    true_that "the same file" cmp "$out/frames.safetensors" \
        "$out/again.safetensors"
done
ltx=$data/ltx2_3
late="decode $ref --model $ltx/weights.safetensors $ltx/decode_t2_1x3.safetensors"
check "decode with a delay" 0 "$tool" $late "$out/late.safetensors"
check "decoded as by the official network" 0 "$tool" compare --max-abs 1e-4 \
    "$out/late.safetensors" "$ltx/decode_t2_1x3.safetensors"
check "decode in segments" 0 \
    "$tool" $late --devices ref,ref "$out/again.safetensors"
true_that "the same file" cmp "$out/late.safetensors" "$out/again.safetensors"
check "decode with less look-ahead" 0 "$tool" $late --look-ahead 0 \
    "$out/again.safetensors"
check "less look-ahead is not exact" 1 "$tool" compare --max-abs 1e-2 \
    "$out/late.safetensors" "$out/again.safetensors"
check "too short for segments" 0 "$tool" decode --devices ref,ref \
    --model "$wan" "$latents" "$out/again.safetensors"
says "2 latents are cut into 1 segment, so that only 1 of the 2 streams works"
check "encode" 0 "$tool" encode $ref --spill host --model "$wan" "$video" \
    "$out/latent.safetensors"
says "vaetool: warning: spill host has no effect with the backend ref"
check "latents state their frames per latent" 0 \
    "$tool" info "$out/latent.safetensors"
says "vae.temporal_factor = 4"
check "encoded as by the official network" 0 "$tool" compare --max-abs 1e-4 \
    "$out/latent.safetensors" "$video"
says "latent 16x5x6x10" "mean 16x5x6x10" "logvar 16x5x6x10"
check "encode SeedVR2" 0 "$tool" encode $ref --model "$seed" \
    "$data/seedvr2/encode_f17_48x80.safetensors" "$out/latent2.safetensors"
check "encoded as by the official network" 0 "$tool" compare --max-abs 2e-4 \
    "$out/latent2.safetensors" "$data/seedvr2/encode_f17_48x80.safetensors"
tae=$data/taehv/taew2_1/weights.safetensors
check "sample" 0 "$tool" encode $ref --posterior sample \
    --seed 18446744073709551615 --model "$wan" "$video" \
    "$out/sample.safetensors"
check "sample again in other slices" 0 "$tool" encode $ref --slice 1 \
    --posterior sample --seed 18446744073709551615 --model "$wan" "$video" \
    "$out/sample2.safetensors"
true_that "the same file" cmp "$out/sample.safetensors" \
    "$out/sample2.safetensors"
check "mean and logvar are the same" 0 "$tool" compare --max-abs 0 \
    --tensor mean "$out/sample.safetensors" "$out/latent.safetensors"
check "the latents differ" 1 "$tool" compare --max-abs 0.1 \
    --tensor latent "$out/sample.safetensors" "$out/latent.safetensors"
check "another seed" 0 "$tool" encode $ref --posterior sample \
    --model "$wan" "$video" "$out/sample2.safetensors"
check "gives other latents" 1 "$tool" compare --max-abs 0.1 \
    --tensor latent "$out/sample.safetensors" "$out/sample2.safetensors"
check "no posterior to sample" 3 "$tool" encode $ref --posterior sample \
    --model "$tae" "$data/taehv/taew2_1/encode_f17_48x80.safetensors" "$out/x"
says "taew2_1 has no posterior"
check "encode raw" 0 "$tool" encode $ref --normalization raw \
    --model "$seed" "$data/seedvr2/encode_f1_48x80.safetensors" \
    "$out/raw.safetensors"
check "decode raw latents of a file that says so" 0 "$tool" decode $ref \
    --model "$seed" "$out/raw.safetensors" "$out/raw-frames.safetensors"
check "encode normalized" 0 "$tool" encode $ref --model "$seed" \
    "$data/seedvr2/encode_f1_48x80.safetensors" "$out/norm.safetensors"
check "decode normalized latents" 0 "$tool" decode $ref --model "$seed" \
    "$out/norm.safetensors" "$out/norm-frames.safetensors"
check "raw and normalized latents give the same picture" 0 \
    "$tool" compare --max-abs 1e-4 \
    "$out/raw-frames.safetensors" "$out/norm-frames.safetensors"
check "decode raw latents as normalized ones" 0 "$tool" decode $ref \
    --normalization normalized --model "$seed" "$out/raw.safetensors" \
    "$out/wrong-frames.safetensors"
check "they give another picture" 1 "$tool" compare --max-abs 1e-4 \
    "$out/wrong-frames.safetensors" "$out/norm-frames.safetensors"

echo "# a tiny network that takes raw latents"
tiny=$data/taehv/taew2_1
check "taew2_1 takes normalized latents" 0 "$tool" decode $ref --model "$tae" \
    --variant taew2_1 "$tiny/decode_t1_6x10.safetensors" "$out/a.safetensors"
check "lighttaew2_1 takes raw latents" 0 "$tool" decode $ref --model "$tae" \
    --variant lighttaew2_1 --normalization raw \
    "$tiny/decode_t1_6x10.safetensors" "$out/b.safetensors"
true_that "the network gets the same numbers" cmp "$out/a.safetensors" \
    "$out/b.safetensors"
check "normalized latents become raw" 0 "$tool" decode $ref --model "$tae" \
    --variant lighttaew2_1 "$tiny/decode_t1_6x10.safetensors" \
    "$out/b.safetensors"
check "so the picture differs" 1 "$tool" compare --max-abs 0.05 \
    "$out/a.safetensors" "$out/b.safetensors"

echo "# latents in chunks of 5"
h3=$data/taehv/taeh3
check "decode taeh3" 0 "$tool" decode $ref --model "$h3/weights.safetensors" \
    "$h3/decode_t7_1x1.safetensors" "$out/h3.safetensors"
check "as the original network" 0 "$tool" compare --max-abs 1e-4 \
    "$out/h3.safetensors" "$h3/decode_t7_1x1.safetensors"
check "encode" 0 "$tool" encode $ref --model "$h3/weights.safetensors" \
    "$h3/encode_f22_16x32.safetensors" "$out/h3.safetensors"
check "as the original network" 0 "$tool" compare --max-abs 1e-4 \
    "$out/h3.safetensors" "$h3/encode_f22_16x32.safetensors"
check "info has the frames of taeh3" 0 "$tool" info "$h3/weights.safetensors"
says "n latents are 1 + 4 (n - 1) - 3 floor((n - 1) / 5) frames"
check "bench with taeh3" 0 "$tool" bench --model "$h3/weights.safetensors" \
    $ref --size 16x16 --frames 35
says "later: 34 frames in"
check "decode taeh3 in segments" 0 "$tool" decode --devices ref,ref \
    --model "$h3/weights.safetensors" "$h3/decode_t7_1x1.safetensors" \
    "$out/h3.safetensors"
check "as the original network" 0 "$tool" compare --max-abs 1e-4 \
    "$out/h3.safetensors" "$h3/decode_t7_1x1.safetensors"
check "decode taeh3 with --resume" 0 "$tool" decode $ref --resume \
    --model "$h3/weights.safetensors" "$h3/decode_t7_1x1.safetensors" \
    "$out/h3.safetensors"

echo "# any number of frames"
sed 's/"frames":{"dtype":"F32","shape":\[5,48,80,3\]/"frames":{"dtype":"F32","shape":[9,48,80,3]/' \
    "$latents" >"$out/bad-size.safetensors"
check "a shape that does not fit its bytes" 3 "$tool" encode $ref \
    --model "$wan" "$out/bad-size.safetensors" "$out/x"
check "encode its own frames" 0 "$tool" encode $ref --tensor frames \
    --model "$wan" "$out/frames.safetensors" "$out/tail.safetensors"
check "5 frames are 2 latents" 0 "$tool" info "$out/tail.safetensors"
says "2 latents of 16 channels, 10x6" "5 frames"
# The bytes of 5 frames of 48x80 are those of 6 of 40x80, or of 4 of 60x80.
reshape() {
    sed "s/\"shape\":\\[5,48,80,3\\]/\"shape\":[$1,80,3]/" \
        "$out/frames.safetensors" >"$out/other.safetensors"
}
for n in 6,40 4,60 3,80; do
    reshape $n
    check "encode $n" 0 "$tool" encode $ref --model "$wan" \
        "$out/other.safetensors" "$out/tail.safetensors"
    check "decode the result" 0 "$tool" decode $ref --model "$wan" \
        "$out/tail.safetensors" "$out/back.safetensors"
    check "the number of frames is the same" 0 "$tool" info \
        "$out/back.safetensors"
    says "video:" "${n%,*} frames of 80x${n#*,}"
    check "encode $n, drop" 0 "$tool" encode $ref --tail drop \
        --model "$wan" "$out/other.safetensors" "$out/tail.safetensors"
    check "whole groups only" 0 "$tool" info "$out/tail.safetensors"
    whole=$((1 + (${n%,*} - 1) / 4 * 4))
    says "  $whole frame$([ $whole = 1 ] || echo s)"
done

# Makes five frames of four, with the last one twice.
frame=$((48 * 80 * 3 * 4))
header=$(($(wc -c <"$out/frames.safetensors") - 5 * frame))
head -c $((header + 4 * frame)) "$out/frames.safetensors" |
    sed "s/\[5,48,80,3\]/[4,48,80,3]/; s/\[0,$((5 * frame))\]/[0,$((4 * frame))]/" \
        >"$out/four.safetensors"
{
    head -c $((header + 4 * frame)) "$out/frames.safetensors"
    head -c $((header + 4 * frame)) "$out/frames.safetensors" | tail -c $frame
} >"$out/five.safetensors"
for n in four five; do
    check "encode $n" 0 "$tool" encode $ref --model "$wan" \
        "$out/$n.safetensors" "$out/$n-latents.safetensors"
done
check "the tail is the last frame" 0 "$tool" compare --max-abs 0 \
    "$out/four-latents.safetensors" "$out/five-latents.safetensors"

echo "# compare"
check "equal files" 0 "$tool" compare --max-abs 0 "$wan" "$wan"
check "a bound is exceeded" 1 "$tool" compare --max-abs 1e-7 \
    "$out/frames.safetensors" "$latents"
says "PAST THE BOUND" "at ["
check "the PSNR is below the bound" 1 "$tool" compare --min-psnr 300 \
    "$out/frames.safetensors" "$latents"
check "the SSIM is below the bound" 1 "$tool" compare --min-ssim 1.1 \
    "$out/frames.safetensors" "$latents"
check "different shapes" 1 "$tool" compare "$out/frames.safetensors" \
    "$data/wan21/decode_t1_6x10.safetensors"
says "DIFFERENT SHAPES" "5x48x80x3" "1x48x80x3"
check "nothing in common" 3 "$tool" compare "$out/frames.safetensors" "$wan"
says "no tensor in common" "frames"
check "one tensor" 0 "$tool" compare --tensor mean \
    "$out/latent.safetensors" "$video"
check "--peak" 0 "$tool" compare --peak 1 "$out/frames.safetensors" "$latents"
says "peak 1"

echo "# plan, bench"
check "plan" 0 "$tool" plan --model "$wan" --size 832x480
says "decode:" "encode:" carries activations total loading peak GFLOP
# The plan has a limit, because the free memory depends on other processes.
check "plan without weights" 0 "$tool" plan --arch seedvr2 --size 832x480 \
    --memory-limit 900G
says "seedvr2 at 832x480" "decode:" "encode:" total \
    "ladder, with an estimate of the cost" " copied; chosen"
check "a plan with a slice size" 0 "$tool" plan --backend ref --arch wan2.1 \
    --size 64x64 --slice 3 --memory-limit 900G
says "  slices of 3: peak " " copied; chosen" \
    "  slices of 3, 1 frame at once, 16 strips: peak "
says_not "  slices of 1" "from the host"
check "a plan that does not fit" 3 "$tool" plan --backend ref --arch taew2_1 \
    --size 64x64 --memory-limit 1M
says "decode: does not fit in memory" "ladder, with an estimate of the cost" \
    "the memory limit is 1.0 MiB"
check "neither weights nor an architecture" 2 "$tool" plan --size 832x480
says "--model" "--arch"
# Plans each network that the README lists. The README writes wan2.1 as "Wan2.1".
for arch in $(awk -F'|' '/^\| network/ { on = 1; next } on && !/^\|/ { exit }
    on && !/---/ { sub(/, also .*/, "", $2); gsub(",", "", $2); print tolower($2) }' \
    "$(dirname "$0")/../../README.md"); do
    check "$arch of the README" 0 "$tool" plan --arch "$arch" --backend ref \
        --size 64x64 --memory-limit 900G
    says "$arch at 64x64"
done
check "no such architecture" 3 "$tool" plan --arch wan9 --size 832x480
says "wan9" "known:" "wan2.1"
check "bench" 0 "$tool" bench $ref --model "$wan" --size 32x32 --frames 5 \
    --profile
says "first step" "frames/s" "; 1 step one by one" "upsamples.0.residual.2" \
    "share%"
check "bench as CSV" 0 "$tool" bench $ref --model "$wan" --size 32x32 \
    --frames 5 --encode --profile --csv
says "arch,direction" "wan2.1,encode,ref,fp32" "program,op,name,impl"
check "bench of a decoder with a delay" 0 "$tool" bench $ref \
    --model "$ltx/weights.safetensors" --size 64x64 --frames 9
says "clip: 9 frames of 2 latents in" "frames/s"
check "its profile has only ops that ran" 0 "$tool" bench $ref --profile \
    --model "$ltx/weights.safetensors" --size 64x64 --frames 9 --csv
says "first,latent-in," "next,conv,decoder.conv_in.conv," \
    "next1,conv,decoder.conv_out.conv,"
says_not "first,conv,"

echo "# weights that do not fit"
sed 's/"decoder\.conv1\.bias"/"decoder.conv1.bixs"/' "$wan" \
    >"$out/missing.safetensors"
check "missing and extra tensor" 3 "$tool" decode $ref \
    --model "$out/missing.safetensors" "$latents" "$out/x"
says "decoder.conv1.bias" "decoder.conv1.bixs" "missing.safetensors"
sed 's/"shape":\[32,16,3,3,3\]/"shape":[16,32,3,3,3]/' "$wan" \
    >"$out/shape.safetensors"
check "wrong shape" 3 "$tool" decode $ref --model "$out/shape.safetensors" \
    "$latents" "$out/x"
says "16x32x3x3x3" "shape.safetensors"
check "latents for weights" 3 "$tool" decode $ref --model "$latents" \
    "$latents" "$out/x"
check "weights for latents" 3 "$tool" decode $ref --model "$wan" "$wan" \
    "$out/x"

echo "# latents that do not fit"
sed 's/"shape":\[16,2,6,10\]/"shape":[32,1,6,10]/' "$latents" \
    >"$out/channels.safetensors"
check "wrong channels" 3 "$tool" decode $ref --model "$wan" \
    "$out/channels.safetensors" "$out/x"
says "32 channels" "16" "channels.safetensors"
# sized WIDTH HEIGHT: writes the latents to a file that states this size.
sized() {
    tail -c $((16 * 2 * 6 * 10 * 4)) "$latents" |
        tensor "$out/sized.safetensors" latent F32 16,2,6,10 \
            "{\"vae.width\":\"$1\",\"vae.height\":\"$2\"}"
}
sized 170 33
check "a stated size that does not fit" 3 "$tool" decode $ref --model "$wan" \
    "$out/sized.safetensors" "$out/x"
says "sized.safetensors: the latents have a grid of 10x6 for 170x33 pixels" \
    "expects 22x5"
sized 1048576 41
check "an absurd size" 3 "$tool" decode $ref --model "$wan" \
    "$out/sized.safetensors" "$out/x"
says "a grid of 10x6 for 1048576x41 pixels"
sized 73 41
check "a size that crops the latents" 0 "$tool" decode $ref --model "$wan" \
    "$out/sized.safetensors" "$out/cropped.safetensors"
check "gives pictures of this size" 0 "$tool" info "$out/cropped.safetensors"
says "5 frames of 73x41"
check "no such tensor" 3 "$tool" decode $ref --model "$wan" --tensor nix \
    "$latents" "$out/x"
says "nix" "latent"
check "a file without video" 3 "$tool" encode $ref --model "$wan" "$wan" "$out/x"
says "video_u8" "frames"
check "no backend has fp16" 3 "$tool" decode --precision fp16 --model "$wan" \
    "$latents" "$out/x"
says "cpu: " "; ref: it computes in fp32 only, not in fp16"
check "ref has no fp16" 3 "$tool" decode --backend ref \
    --precision fp16 --model "$wan" "$latents" "$out/x"
says "fp16"

echo "# batches"
bytes=$((16 * 2 * 6 * 10 * 4))
tail -c $bytes "$latents" | tensor "$out/one.safetensors" latent F32 16,2,6,10
{
    head -c $bytes /dev/zero
    tail -c $bytes "$latents"
} | tensor "$out/batch.safetensors" latent F32 2,16,2,6,10
check "decode of a batch" 3 "$tool" decode $ref --model "$wan" \
    "$out/batch.safetensors" "$out/x"
says "batch of 2 clips" "batch-index"
check "decode the second clip of a batch" 0 \
    "$tool" decode $ref --model "$wan" --batch-index 1 \
    "$out/batch.safetensors" "$out/second.safetensors"
check "decode a file of one clip" 0 \
    "$tool" decode $ref --model "$wan" --batch-index 0 \
    "$out/one.safetensors" "$out/only.safetensors"
true_that "both clips are the same" cmp "$out/second.safetensors" "$out/only.safetensors"
check "info of a batch" 0 "$tool" info "$out/batch.safetensors"
says "2 latents of 16 channels, 10x6" "a batch of 2 clips"

echo "# writing fails"
true_that "no output of a failed run" test ! -e "$out/x"
check "no such folder" 3 "$tool" decode $ref --model "$wan" "$latents" \
    "$out/none/x"
says "$out/none/x"
check "decode tests the output before it opens the model" 3 "$tool" decode \
    --model "$out/none/model" "$latents" "$out/none/x"
says "vaetool: $out/none/x: cannot create: No such file or directory"
check "encode tests the output before it opens the model" 3 "$tool" encode \
    --model "$out/none/model" "$video" "$wan/x"
says "vaetool: $wan/x: cannot create: Not a directory"
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$out/closed" && chmod a-w "$out/closed"
    check "a folder without write permission" 3 "$tool" decode \
        --model "$out/none/model" "$latents" "$out/closed/x"
    says "closed/x: cannot create: Permission denied"
fi
mkdir "$out/linked" && ln -s "$out/linked/file" "$out/link"
check "a link to a new file" 0 "$tool" decode $ref --model "$wan" "$latents" \
    "$out/link"
rm -r "$out/link" "$out/linked"
check "a folder for a file" 3 "$tool" decode $ref --model "$wan" "$latents" \
    "$out"
says "$out: is a directory"
cp "$latents" "$out/old.safetensors"
check "a limit on file sizes" 3 sh -c 'ulimit -f 20; exec "$@"' - "$tool" \
    decode $ref --model "$wan" "$latents" "$out/old.safetensors"
says "old.safetensors"
true_that "the old file is unchanged" cmp "$latents" "$out/old.safetensors"
if [ -c /dev/full ]; then
    check "disk full, decode" 3 "$tool" decode $ref --model "$wan" \
        "$latents" /dev/full
    says "/dev/full"
    check "disk full, encode" 3 "$tool" encode $ref --model "$wan" \
        "$video" /dev/full
    check "disk full, report" 3 sh -c '"$@" >/dev/full' - "$tool" info "$wan"
    true_that "/dev/full is a device" test -c /dev/full
fi
true_that "no incomplete files" no_rest

echo "# make-weights"
check "unknown architecture" 3 "$tool" make-weights wan9 "$out/x"
says "wan9" "wan2.1"
check "full-size weights" 0 "$tool" make-weights wan2.1 \
    "$out/full.safetensors" --dtype bf16
check "full-size weights are recognised" 0 "$tool" info "$out/full.safetensors"
says "model: wan2.1" "bfloat16" "194 tensors"
"$tool" plan $ref --arch wan2.1 --size 64x64 >"$out/outline"
check "plan with full-size weights" 0 \
    "$tool" plan $ref --model "$out/full.safetensors" \
    --size 64x64
true_that "the plan is the same as without weights" cmp "$out/outline" "$out/log"

echo "# interrupt"
# A network of full width takes long even for small latents.
signals='INT TERM HUP'
# A shell cannot handle HUP if its parent, such as nohup, ignored it.
case $(sed -n 's/^SigIgn.*\(.\)$/\1/p' /proc/self/status) in
*[13579bdf]) signals='INT TERM' ;;
esac
for signal in $signals; do
    "$tool" decode $ref --model "$out/full.safetensors" "$latents" \
        "$out/x" >"$out/log" 2>&1 &
    child=$!
    while no_rest && kill -0 $child; do # until it writes
        sleep 0.1
    done
    kill -$signal $child
    wait $child
    code=$?
    true_that "$signal ends it with $code" test $code -eq 3
    says "cancelled"
    true_that "it leaves no output" test ! -e "$out/x"
    true_that "no incomplete files" no_rest
done

finish

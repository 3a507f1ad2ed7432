#!/bin/sh
# Tests vaetool: its output, files, errors and exit codes.
# usage: tool.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

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
for command in info models decode encode compare plan make-weights bench; do
    check "$command --help" 0 "$tool" $command --help
    says "Usage: vaetool $command"
    "$tool" $command --help >help
    check "its options in 79 columns" 1 grep '^ .\{79\}' help
done
check "unknown command" 2 "$tool" fly
says '"fly"'
check "unknown option" 2 info --wings "$wan"
says "--wings"
check "option of another command" 2 info --slice 2 "$wan"
check "missing argument" 2 "$tool" decode --model "$wan" "$latents"
check "argument too many" 2 info "$wan" "$seed" "$wan"
check "three files without --model" 2 "$tool" decode "$wan" "$latents" \
    "$out/x"
says "\"$out/x\" is one argument too many; --model FILE is missing"
check "decode without a model" 2 "$tool" decode "$latents" x
says "--model"
check "bad backend" 2 "$tool" decode --model "$wan" --backend gpu a b
says "gpu"
for backend in cpu ref; do
    check "a device of $backend" 2 "$tool" decode --model "$wan" \
        --backend $backend --device 7 a b
    says "--device needs --backend cuda, but $backend is given"
done
check "bad size" 2 plan --model "$wan" --size 10by10
check "a size past the limit" 2 plan --model "$wan" --size 65536x10
says "--size \"65536x10\" is not valid" "at most 65535 each way"
check "a number past the limits" 2 plan --model "$wan" --size 64x64 --threads -1
says "--threads \"-1\" is not valid, expected 0 to 1024"
check "a negative number" 2 plan --model "$wan" --size 64x64 --slice -1
says "--slice \"-1\" is not valid, expected 0 to 4096"
check "frames below 0" 2 plan --model "$wan" --size 64x64 --frames-at-once -1
says "--frames-at-once \"-1\" is not valid, expected 0 or more"
check "bad posterior" 2 "$tool" encode --model "$wan" --posterior median \
    "$video" x
says "median" "expected mean or sample"
for number in -1 x 1x 18446744073709551616; do
    check "bad seed $number" 2 "$tool" encode --model "$wan" --seed $number \
        "$video" x
done
check "option without its value" 2 plan --model "$wan" --size

echo "# info"
check "info of weights" 0 info "$wan"
says "model: wan2.1 (official names; recognised by" "latent space wan2.1" \
    "16 channels, 8x8 pixels and 4 frames per latent" \
    "decode: 1 latent to 1 frame, then 1 to 4; 108 tensors" \
    "encode: 1 frame to 1 latent, then 4 to 1; with posterior; 86 tensors" \
    "194 tensors, mostly float32" "n latents are 1 + 4 (n - 1) frames" \
    "looks back 38 latents to decode, 28 to encode" \
    96d488c03333fbed94e4b46f11f1240d85dbfd2e6dd127f16cbc8931d5fdab7e \
    "--tensors lists them" "seed = 2101"
says_not "encoder.conv1.weight"
check "with every tensor" 0 info --tensors "$wan"
says "encoder.conv1.weight" "8x3x3x3x3"
check "info of latents" 0 info "$latents"
says 'tensor "latent"' "2 latents of 16 channels, 10x6"
check "info of one latent" 0 info "$data/wan21/decode_t1_6x10.safetensors"
says "1 latent of 16 channels, 10x6"
check "help of an encoder" 0 "$tool" encode --help
says "--normalization WORD " "auto (default): As the input states" \
    " normalized: As the diffusion model"
check "info in JSON" 0 info --json "$seed"
says '"arch": "seedvr2"' '"fingerprint"' '"frames_of_n_latents"' \
    '"tensor_count"' '"decoder_bytes"' '"encoder_tensors"' '"metadata"' \
    '"norm_num_groups": "8"'
says_not '"tensors": ['
check "info in JSON with every tensor" 0 info --json --tensors "$seed"
says '"tensors": [' '"shape"'
sed 's/coder\.mid_block/coder.mud_block/g' "$seed" >near.safetensors
check "info of almost known weights" 3 info near.safetensors
says "nearest is seedvr2" "encoder.mud_block"
says_not "()"
check "info of a variant" 0 info --variant taehv \
    "$data/taehv/taew2_1/weights.safetensors"
says "model: taehv" "latent space hunyuan" "variant stated"
check "info of another variant" 3 info --variant taehv "$wan"
says "vaetool: $wan: the variant is set to taehv, but the weights are those of"
says_not "known model" "that are known"
sed 's/"variant":/"rariant":/' "$data/taehv/taew2_1/weights.safetensors" \
    >tae.safetensors
check "info without the variant" 0 info tae.safetensors
says "model: taew2_1" "variant taew2_1 assumed"
cp tae.safetensors wan2.1.safetensors
check "info of a file with the name of a latent space" 0 info wan2.1.safetensors
says "model: taew2_1" "name of the file, the same as those of lighttaew2_1: variant"
mv wan2.1.safetensors hunyuan.safetensors
check "info of a file with the name of another one" 0 info hunyuan.safetensors
says "model: taehv" "by names and shapes of its tensors, and the name of the file"
rm hunyuan.safetensors
check "decode without the variant" 0 by tae.safetensors decode "$latents" \
    any.safetensors
says "warning: tae.safetensors: could be several networks; taew2_1 is taken" \
    "variant taew2_1 assumed; set variant to the one that it is"
check "latents of another variant" 3 by tae.safetensors decode \
    --latent-space hunyuan "$latents" any.safetensors
says "the latent space is hunyuan, the model tae.safetensors, taken for taew2_1," \
    "expects wan2.1; its tensors also fit taehv: set variant to taehv"
check "with that variant" 0 by tae.safetensors decode --variant taehv \
    --latent-space hunyuan "$latents" any.safetensors
check "decode with the variant" 0 by tae.safetensors decode --variant taew2_1 \
    "$latents" any.safetensors
says_not "several networks"
XDG_DATA_HOME=$out/own XDG_DATA_DIRS=$out/no:$out/all
export XDG_DATA_HOME XDG_DATA_DIRS
check "no installed models" 0 "$tool" models
says "No model is installed." "$out/no/gst-vae/models" "the demo model"
mkdir -p own/gst-vae/models all/gst-vae/models
cp "$wan" own/gst-vae/models/wan2.1.safetensors
cp "$wan" all/gst-vae/models/wan2.1.safetensors
cp "$seed" all/gst-vae/models/ltx2.safetensors
echo x >all/gst-vae/models/sd.safetensors
ln -s none/x all/gst-vae/models/flux1.safetensors
check "installed models" 0 "$tool" models
says "flux1.safetensors: not usable: " \
    "all/gst-vae/models/flux1.safetensors: is a symbolic link to none/x, which does not exist"
says "$out/own/gst-vae/models/wan2.1.safetensors: wan2.1, latent space wan2.1" \
    "all/gst-vae/models/wan2.1.safetensors: wan2.1, latent space wan2.1; hidden" \
    "seedvr2, latent space seedvr2; its name says ltx2" \
    "sd.safetensors: not usable: "
unset XDG_DATA_HOME XDG_DATA_DIRS
check "info of no file" 3 info "$out/none"
says "$out/none"
head -c 1000 "$wan" >cut.safetensors
check "info of half a header" 3 info cut.safetensors
says "cut.safetensors"

echo "# decode and encode"
check "decode" 0 decode "$latents" frames.safetensors
says "$latents states no normalization"
true_that "and no more without a terminal" test "$(wc -l <log)" -eq 1
check "decode of normalized latents" 0 decode --normalization normalized "$latents" \
    frames.safetensors
true_that "no output without a terminal" test ! -s log
check "decode --verbose" 0 decode --verbose --slice 2 "$latents" \
    again.safetensors
says "model opened in " "opened in " "s: backend " ", prepare " ", other " \
    "decode: ref with 1 thread (" "), fp32, 80x48, slices of 2"
check "plan --verbose" 0 plan --backend ref --verbose --model "$wan" --size \
    64x48
says "decode: ref with 1 thread (" "encode: ref with 1 thread (" "), fp32, 64x48, slices of 4"
check "decoded as by the official network" 0 compare --max-abs 1e-4 --min-psnr \
    100 --min-ssim 0.9999 frames.safetensors "$latents"
says "frames 5x48x80x3" "peak 2" "SSIM"
check "no more steps than latents" 0 decode --verbose --slice 4096 "$latents" \
    again.safetensors
says "slices of 2"
for slice in 1 2 0; do
    check "decode, slice $slice" 0 decode --slice $slice "$latents" \
        again.safetensors
    true_that "the same file" cmp frames.safetensors again.safetensors
done
ltx=$data/ltx2_3
late="decode $ref --model $ltx/weights.safetensors $ltx/decode_t2_1x3.safetensors"
check "decode with a delay" 0 "$tool" $late late.safetensors
check "decoded as by the official network" 0 compare --max-abs 1e-4 \
    late.safetensors "$ltx/decode_t2_1x3.safetensors"
check "decode in segments" 0 "$tool" $late --devices ref,ref again.safetensors
true_that "the same file" cmp late.safetensors again.safetensors
check "decode with less look-ahead" 0 "$tool" $late --look-ahead 0 \
    again.safetensors
check "less look-ahead is not exact" 1 compare --max-abs 1e-2 late.safetensors \
    again.safetensors
check "too short for segments" 0 "$tool" decode --devices ref,ref --model \
    "$wan" "$latents" again.safetensors
says "2 latents are cut into 1 segment, so that only 1 of the 2 streams works"
check "encode" 0 encode --spill host "$video" latent.safetensors
says "vaetool: warning: spill host has no effect with the backend ref"
check "latents state their frames per latent" 0 info latent.safetensors
says "vae.temporal_factor = 4"
check "encoded as by the official network" 0 compare --max-abs 1e-4 \
    latent.safetensors "$video"
says "latent 16x5x6x10" "mean 16x5x6x10" "logvar 16x5x6x10"
check "encode SeedVR2" 0 by "$seed" encode \
    "$data/seedvr2/encode_f17_48x80.safetensors" latent2.safetensors
check "encoded as by the official network" 0 compare --max-abs 2e-4 \
    latent2.safetensors "$data/seedvr2/encode_f17_48x80.safetensors"
tae=$data/taehv/taew2_1/weights.safetensors
check "sample" 0 encode --posterior sample --seed 18446744073709551615 \
    "$video" sample.safetensors
check "sample again in other slices" 0 encode --slice 1 --posterior sample \
    --seed 18446744073709551615 "$video" sample2.safetensors
true_that "the same file" cmp sample.safetensors sample2.safetensors
check "mean and logvar are the same" 0 compare --max-abs 0 --tensor mean \
    sample.safetensors latent.safetensors
check "the latents differ" 1 compare --max-abs 0.1 --tensor latent \
    sample.safetensors latent.safetensors
check "another seed" 0 encode --posterior sample "$video" sample2.safetensors
check "gives other latents" 1 compare --max-abs 0.1 --tensor latent \
    sample.safetensors sample2.safetensors
check "no posterior to sample" 3 by "$tae" encode --posterior sample \
    "$data/taehv/taew2_1/encode_f17_48x80.safetensors" x
says "taew2_1 has no posterior"
check "encode raw" 0 by "$seed" encode --normalization raw \
    "$data/seedvr2/encode_f1_48x80.safetensors" raw.safetensors
check "decode raw latents of a file that says so" 0 by "$seed" decode \
    raw.safetensors raw-frames.safetensors
check "auto leaves it to the file" 0 by "$seed" decode --normalization auto \
    raw.safetensors auto-frames.safetensors
says_not "overrides"
true_that "the frames are the same" cmp raw-frames.safetensors auto-frames.safetensors
check "encode normalized" 0 by "$seed" encode \
    "$data/seedvr2/encode_f1_48x80.safetensors" norm.safetensors
check "decode normalized latents" 0 by "$seed" decode norm.safetensors \
    norm-frames.safetensors
check "raw and normalized latents give the same picture" 0 compare --max-abs \
    1e-4 raw-frames.safetensors norm-frames.safetensors
check "decode raw latents as normalized ones" 0 by "$seed" decode \
    --normalization normalized raw.safetensors wrong-frames.safetensors
says "warning: raw.safetensors states normalization raw; " \
    "; normalization normalized overrides it"
check "they give another picture" 1 compare --max-abs 1e-4 \
    wrong-frames.safetensors norm-frames.safetensors

echo "# a tiny network that takes raw latents"
tiny=$data/taehv/taew2_1
check "taew2_1 takes normalized latents" 0 by "$tae" decode --variant taew2_1 \
    "$tiny/decode_t1_6x10.safetensors" a.safetensors
check "lighttaew2_1 takes raw latents" 0 by "$tae" decode --variant \
    lighttaew2_1 --normalization raw "$tiny/decode_t1_6x10.safetensors" \
    b.safetensors
true_that "the network gets the same numbers" cmp a.safetensors b.safetensors
check "normalized latents become raw" 0 by "$tae" decode --variant \
    lighttaew2_1 "$tiny/decode_t1_6x10.safetensors" b.safetensors
check "so the picture differs" 1 compare --max-abs 0.05 a.safetensors \
    b.safetensors

echo "# a network whose scale is not known"
cvx=$data/taehv/taecvx
check "decode" 0 by "$cvx/weights.safetensors" decode \
    "$cvx/decode_t3_2x2.safetensors" a.safetensors
says "it is not known if taecvx works on normalized" "set normalization to normalized, and"
check "decode by a setting" 0 by "$cvx/weights.safetensors" decode \
    --normalization normalized "$cvx/decode_t3_2x2.safetensors" a.safetensors
says_not "not known"
check "encode" 0 by "$cvx/weights.safetensors" encode \
    "$cvx/encode_f9_16x16.safetensors" a.safetensors
says "it is not known if taecvx works on normalized"
check "encode by a setting" 0 by "$cvx/weights.safetensors" encode \
    --normalization raw "$cvx/encode_f9_16x16.safetensors" a.safetensors
says_not "not known"

echo "# latents in chunks of 5"
h3=$data/taehv/taeh3
check "decode taeh3" 0 by "$h3/weights.safetensors" decode \
    "$h3/decode_t7_1x1.safetensors" h3.safetensors
check "as the original network" 0 compare --max-abs 1e-4 h3.safetensors \
    "$h3/decode_t7_1x1.safetensors"
check "encode" 0 by "$h3/weights.safetensors" encode \
    "$h3/encode_f22_16x32.safetensors" h3.safetensors
check "as the original network" 0 compare --max-abs 1e-4 h3.safetensors \
    "$h3/encode_f22_16x32.safetensors"
check "info has the frames of taeh3" 0 info "$h3/weights.safetensors"
says "n latents are 1 + 4 (n - 1) - 3 floor((n - 1) / 5) frames"
check "bench with taeh3" 0 by "$h3/weights.safetensors" bench --size 16x16 \
    --frames 35
says "later: 34 frames in"
check "decode taeh3 in segments" 0 "$tool" decode --devices ref,ref --model \
    "$h3/weights.safetensors" "$h3/decode_t7_1x1.safetensors" h3.safetensors
check "as the original network" 0 compare --max-abs 1e-4 h3.safetensors \
    "$h3/decode_t7_1x1.safetensors"
check "decode taeh3 with --resume" 0 by "$h3/weights.safetensors" decode \
    --resume "$h3/decode_t7_1x1.safetensors" h3.safetensors

echo "# any number of frames"
sed 's/"frames":{"dtype":"F32","shape":\[5,48,80,3\]/"frames":{"dtype":"F32","shape":[9,48,80,3]/' \
    "$latents" >"$out/bad-size.safetensors"
check "a shape that does not fit its bytes" 3 encode bad-size.safetensors x
check "encode its own frames" 0 encode --tensor frames frames.safetensors \
    tail.safetensors
check "5 frames are 2 latents" 0 info tail.safetensors
says "2 latents of 16 channels, 10x6" "5 frames"
# The bytes of 5 frames of 48x80 are those of 6 of 40x80, or of 4 of 60x80.
reshape() {
    sed "s/\"shape\":\\[5,48,80,3\\]/\"shape\":[$1,80,3]/" frames.safetensors \
        >other.safetensors
}
for n in 6,40 4,60 3,80; do
    reshape $n
    check "encode $n" 0 encode other.safetensors tail.safetensors
    check "decode the result" 0 decode tail.safetensors back.safetensors
    check "the number of frames is the same" 0 info back.safetensors
    says "video:" "${n%,*} frames of 80x${n#*,}"
    check "encode $n, drop" 0 encode --tail drop other.safetensors \
        tail.safetensors
    check "whole groups only" 0 info tail.safetensors
    whole=$((1 + (${n%,*} - 1) / 4 * 4))
    says "  $whole frame$([ $whole = 1 ] || echo s)"
done

# Makes five frames of four, with the last one twice.
frame=$((48 * 80 * 3 * 4))
header=$(($(wc -c <frames.safetensors) - 5 * frame))
head -c $((header + 4 * frame)) frames.safetensors |
    sed "s/\[5,48,80,3\]/[4,48,80,3]/; s/\[0,$((5 * frame))\]/[0,$((4 * frame))]/" \
        >"$out/four.safetensors"
{
    head -c $((header + 4 * frame)) frames.safetensors
    head -c $((header + 4 * frame)) frames.safetensors | tail -c $frame
} >five.safetensors
for n in four five; do
    check "encode $n" 0 encode "$n.safetensors" "$n-latents.safetensors"
done
check "the tail is the last frame" 0 compare --max-abs 0 \
    four-latents.safetensors five-latents.safetensors

echo "# compare"
check "equal files" 0 compare --max-abs 0 "$wan" "$wan"
check "a bound is exceeded" 1 compare --max-abs 1e-7 frames.safetensors \
    "$latents"
says "PAST THE BOUND" "at ["
check "the PSNR is below the bound" 1 compare --min-psnr 300 \
    frames.safetensors "$latents"
check "the SSIM is below the bound" 1 compare --min-ssim 1.1 \
    frames.safetensors "$latents"
check "different shapes" 1 compare frames.safetensors \
    "$data/wan21/decode_t1_6x10.safetensors"
says "DIFFERENT SHAPES" "5x48x80x3" "1x48x80x3"
check "nothing in common" 3 compare frames.safetensors "$wan"
says "no tensor in common" "frames"
check "one tensor" 0 compare --tensor mean latent.safetensors "$video"
check "--peak" 0 compare --peak 1 frames.safetensors "$latents"
says "peak 1"

echo "# plan, bench"
check "plan" 0 plan --model "$wan" --size 832x480
says "decode:" "encode:" carries activations total loading peak GFLOP
# The plan has a limit, because the free memory depends on other processes.
check "plan without weights" 0 plan --arch seedvr2 --size 832x480 \
    --memory-limit 900G
says "seedvr2 at 832x480" "decode:" "encode:" total \
    "ladder, with an estimate of the cost" " copied; chosen"
check "a plan with a slice size" 0 plan --backend ref --arch wan2.1 --size \
    64x64 --slice 3 --memory-limit 900G
says "  slices of 3: peak " " copied; chosen" \
    "  slices of 3, 1 frame at once, 16 strips: peak "
says_not "  slices of 1" "from the host"
check "a plan that does not fit" 3 plan --backend ref --arch taew2_1 --size \
    64x64 --memory-limit 1M
says "decode: does not fit in memory" "ladder, with an estimate of the cost" \
    "the memory limit is 1.0 MiB"
check "neither weights nor an architecture" 2 plan --size 832x480
says "--model" "--arch"
# Plans each network that the README lists. The README writes wan2.1 as "Wan2.1".
for arch in $(awk -F'|' '/^\| network/ { on = 1; next } on && !/^\|/ { exit }
    on && !/---/ { sub(/, also .*/, "", $2); gsub(",", "", $2); print tolower($2) }' \
    "$here/../../README.md"); do
    check "$arch of the README" 0 plan --arch "$arch" --backend ref --size \
        224x224 --memory-limit 900G
    says "$arch at 224x224"
done
check "no such architecture" 3 plan --arch wan9 --size 832x480
says "wan9" "the nearest is wan2.1"
check "bench" 0 by "$wan" bench --size 32x32 --frames 5 --profile
says "first step" "frames/s" "; 1 step one by one" "upsamples.0.residual.2" \
    "share%"
check "bench as CSV" 0 by "$wan" bench --size 32x32 --frames 5 --encode \
    --profile --csv
says "arch,direction" "wan2.1,encode,ref,fp32" "program,op,name,impl"
check "bench of a decoder with a delay" 0 by "$ltx/weights.safetensors" bench \
    --size 64x64 --frames 9
says "clip: 9 frames of 2 latents in" "frames/s"
check "bench of an encoder with a delay" 0 by "$data/hunyuan10/weights.safetensors" bench \
    --size 32x32 --frames 5 --encode
says "encode: " "later: 4 frames"
check "its profile has only ops that ran" 0 by "$ltx/weights.safetensors" \
    bench --profile --size 64x64 --frames 9 --csv
says "first,latent-in," "next,conv,decoder.conv_in.conv," \
    "next1,conv,decoder.conv_out.conv,"
says_not "first,conv,"

echo "# weights that do not fit"
sed 's/"decoder\.conv1\.bias"/"decoder.conv1.bixs"/' "$wan" >missing.safetensors
check "missing and extra tensor" 3 by missing.safetensors decode "$latents" x
says "decoder.conv1.bias" "decoder.conv1.bixs" "missing.safetensors"
sed 's/"shape":\[32,16,3,3,3\]/"shape":[16,32,3,3,3]/' "$wan" >shape.safetensors
check "wrong shape" 3 by shape.safetensors decode "$latents" x
says "16x32x3x3x3" "shape.safetensors"
check "latents for weights" 3 by "$latents" decode "$latents" x
check "weights for latents" 3 decode "$wan" x

echo "# latents that do not fit"
sed 's/"shape":\[16,2,6,10\]/"shape":[32,1,6,10]/' "$latents" \
    >channels.safetensors
check "wrong channels" 3 decode channels.safetensors x
says "32 channels" "16" "channels.safetensors"
sed 's/"shape":\[16,2,6,10\]/"shape":[1,32,6,10]/' "$latents" >one.safetensors
check "one channel" 3 decode --layout cthw one.safetensors x
says "has 1 channel, the model"
{
    printf '\000\000\300\177'
    head -c $((16 * 2 * 6 * 10 * 4 - 4)) /dev/zero
} | tensor nan.safetensors latent F32 16,2,6,10
check "one value that is not finite" 0 decode nan.safetensors nan.npy
says 'warning: nan.safetensors: tensor "latent": 1 value of the latents is not finite'
check "spaces of images" 0 info --spaces
says "sd: 4 channels, 8x8 pixels and 1 frame per latent" "and 4 frames per latent"
check "a space of the user" 3 decode --latent-space wan2.2 "$latents" x
says ": the latent space is wan2.2, the model " " expects wan2.1"
says_not "states latent" "not known"
check "an unknown space of the user" 3 decode --latent-space wan9 "$latents" x
says ": the latent space is wan9, which is not known, the model "
# sized WIDTH HEIGHT: writes the latents to a file that states this size.
sized() {
    tail -c $((16 * 2 * 6 * 10 * 4)) "$latents" |
        tensor sized.safetensors latent F32 16,2,6,10 \
            "{\"vae.width\":\"$1\",\"vae.height\":\"$2\"}"
}
sized 170 33
check "a stated size that does not fit" 3 decode sized.safetensors x
says "sized.safetensors: the latents have a grid of 10x6, expected 22x5 " \
    "for pictures of 170x33 by the model "
sized 1048576 41
check "an absurd size" 3 decode sized.safetensors x
says "a grid of 10x6, expected 131072x6 for pictures of 1048576x41"
sized 73 41
check "a size that crops the latents" 0 decode sized.safetensors \
    cropped.safetensors
check "gives pictures of this size" 0 info cropped.safetensors
says "5 frames of 73x41"
check "no such tensor" 3 decode --tensor nix "$latents" x
says "nix" "latent"
check "a file without video" 3 encode "$wan" x
says "video_u8" "frames"
check "no backend has fp16" 3 "$tool" decode --precision fp16 --model "$wan" \
    "$latents" x
says "cpu: " "; ref: it computes in fp32 only, not in fp16"
check "ref has no fp16" 3 "$tool" decode --backend ref --precision fp16 \
    --model "$wan" "$latents" x
says "fp16"

echo "# batches"
bytes=$((16 * 2 * 6 * 10 * 4))
tail -c $bytes "$latents" | tensor one.safetensors latent F32 16,2,6,10
{
    head -c $bytes /dev/zero
    tail -c $bytes "$latents"
} | tensor batch.safetensors latent F32 2,16,2,6,10
check "decode of a batch" 3 decode batch.safetensors x
says "batch of 2 clips" "expected 1: select one with batch-index"
check "decode the second clip of a batch" 0 decode --batch-index 1 \
    batch.safetensors second.safetensors
check "decode a file of one clip" 0 decode --batch-index 0 one.safetensors \
    only.safetensors
true_that "both clips are the same" cmp second.safetensors only.safetensors
check "info of a batch" 0 info batch.safetensors
says "2 latents of 16 channels, 10x6" "a batch of 2 clips"

echo "# writing fails"
true_that "no output of a failed run" test ! -e x
check "no such folder" 3 decode "$latents" "$out/none/x"
says "$out/none/x"
check "decode tests the output before it opens the model" 3 "$tool" decode \
    --model "$out/none/model" "$latents" "$out/none/x"
says "vaetool: $out/none/x: cannot create: No such file or directory"
check "encode tests the output before it opens the model" 3 "$tool" encode \
    --model "$out/none/model" "$video" "$wan/x"
says "vaetool: $wan/x: cannot create: Not a directory"
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed && chmod a-w closed
    check "a folder without write permission" 3 "$tool" decode \
        --model "$out/none/model" "$latents" "$out/closed/x"
    says "closed/x: cannot create: Permission denied"
fi
mkdir linked && ln -s "$out/linked/file" link
check "a link to a new file" 0 decode "$latents" link
rm -r link linked
check "a folder for a file" 3 decode "$latents" "$out"
says "$out: is a directory"
mkfifo pipe
for verb in "decode --resume $latents" "encode $video"; do
    check "$verb into a pipe" 3 $verb pipe
    says "pipe: is a pipe, expected a file"
done
cp "$latents" old.safetensors
check "a limit on file sizes" 3 sh -c 'ulimit -f 20; exec "$@"' - "$tool" \
    decode $ref --model "$wan" "$latents" "$out/old.safetensors"
says "old.safetensors"
true_that "the old file is unchanged" cmp "$latents" old.safetensors
if [ -c /dev/full ]; then
    check "disk full, decode" 3 decode "$latents" /dev/full
    says "/dev/full"
    check "disk full, encode" 3 encode "$video" /dev/full
    check "disk full, report" 3 sh -c '"$@" >/dev/full' - "$tool" info "$wan"
    true_that "/dev/full is a device" test -c /dev/full
fi
true_that "no incomplete files" no_rest

echo "# make-weights"
check "unknown architecture" 3 "$tool" make-weights wan9 x
says "wan9" "wan2.1"
check "full-size weights" 0 "$tool" make-weights wan2.1 full.safetensors \
    --dtype bf16
check "full-size weights are recognised" 0 info full.safetensors
says "model: wan2.1" "bfloat16" "194 tensors"
"$tool" plan $ref --arch wan2.1 --size 64x64 >outline
check "plan with full-size weights" 0 plan $ref --model full.safetensors \
    --size 64x64
true_that "the plan is the same as without weights" cmp outline log

echo "# interrupt"
# A network of full width takes long even for small latents.
signals='INT TERM HUP'
# A shell cannot handle HUP if its parent, such as nohup, ignored it.
case $(sed -n 's/^SigIgn.*\(.\)$/\1/p' /proc/self/status) in
*[13579bdf]) signals='INT TERM' ;;
esac
for signal in $signals; do
    "$tool" decode $ref --model full.safetensors "$latents" x >log 2>&1 &
    child=$!
    while no_rest && kill -0 $child; do # until it writes
        sleep 0.1
    done
    kill -$signal $child
    wait $child
    code=$?
    true_that "$signal ends it with $code" \
        test "$code" -gt 128 -a "$(kill -l "$code")" = $signal
    says "the computation was cancelled"
    true_that "it leaves no output" test ! -e x
    true_that "no incomplete files" no_rest
done

finish

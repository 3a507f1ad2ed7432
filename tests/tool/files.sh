#!/bin/sh
# Tests vaetool on files of other formats and of other ranges.
# usage: files.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

latents=$data/wan21/decode_t2_6x10.safetensors
ref="--backend ref"

echo "# output names of other file types"
for file in clip.mp4 sheet.png clip.webm frames.latent; do
    check "decode to $file" 3 decode "$latents" "$file"
    says "$file" ".safetensors"
    [ $file = frames.latent ] || says "pipelines/latents-to-video.sh" "vaedecode"
    true_that "nothing is written" test ! -e "$file"
done
for file in frames.pt frames.npz frames.h5 frames.gguf; do
    check "decode to $file" 3 decode "$latents" "$file"
    says_not video
    check "make-weights to $file" 3 "$tool" make-weights taesd "$file"
    check "encode to $file" 3 encode "$latents" "$file"
    says "$file" "latents as .safetensors"
    case $file in
    *.pt) says 'torch.save(safetensors.torch.load_file(' ;;
    *.npz) says 'numpy.savez("OUT.npz", **safetensors.numpy.load_file(' ;;
    *.h5) says "gives the arrays to store" ;;
    esac
done
check "make-weights of an unknown name" 3 "$tool" make-weights taeltx weights.safetensors
says 'no architecture "taeltx"; the nearest is taeltx_2 (vaetool make-weights' \
    "--help lists all)"
check "make-weights to .npy" 3 "$tool" make-weights taesd weights.npy
says "weights.npy: vaetool writes weights as .safetensors, not as .npy"
check "make-weights to standard output" 3 "$tool" make-weights taesd -
says "-: name a file for the weights"
true_that "nothing is written" test ! -e weights.npy -a ! -e -
check "decode to a picture" 3 decode "$latents" frames.png
says "| ffmpeg -i - OUT.png"
check "encode to .y4m" 3 encode "$latents" latents.y4m
says "not as .y4m"
check "encode to standard output" 3 encode "$latents" -
says "-: name a file for the latents"
check "a name in capitals" 0 decode "$latents" FRAMES.SAFETENSORS
check "a dot in the folder only" 3 decode "$latents" "$out/no.folder/frames"
says "cannot create"
printf '\0\0\0\040ftypisom\0\0\2\0isomiso2avc1mp41' >in.mp4
check "encode a video file" 3 encode in.mp4 latents.safetensors
says "in.mp4: is a video file (MP4 or MOV)" "pipelines/video-to-latents.sh" \
    "vaeencode"
check "decode a video file" 3 decode in.mp4 x.safetensors
says "in.mp4: is a video file (MP4 or MOV); expected a safetensors, npy or"
true_that "the error is one line" test "$(wc -l <log)" -eq 1
printf 'GGUF%60s' x >in.gguf
printf '\211HDF\r\n%60s' x >in.h5
printf 'PK\3\4%60s' x >in.npz
printf '\200\4\225\1%60s' x >in.pkl
for end in gguf h5 npz pkl; do
    check "encode a file .$end" 3 encode in.$end x.npy
    says_not "for a video"
    case $end in
    gguf) says "is a GGUF file; expected a " "; use the file that it was made of" ;;
    h5) says "is an HDF5 file" "; save its array by numpy.save()" ;;
    pkl) says "a Python pickle" "; save its array by numpy.save() or torch.save()" ;;
    esac
done
cp in.mp4 in.safetensors
check "encode a video file named .safetensors" 3 encode in.safetensors \
    latents.safetensors
says "in.safetensors"
says_not "video-to-latents.sh"

for option in tensor variant latent-space; do
    check "an empty --$option" 2 info --$option= "$latents"
    says "--$option is empty, expected "
done
mkdir empty
check "a folder for latents" 3 decode empty x.safetensors
says "empty: is a directory, expected a file of latents"
check "a folder for frames" 3 encode empty x.safetensors
says "empty: is a directory, expected a file of frames"
check "an empty name" 2 decode "$latents" ""
says "argument 2" "is empty"

echo "# a file whose only tensor is a video"
head -c $((2 * 16 * 16 * 3)) "$wan" | tensor any.safetensors pictures U8 \
    2,16,16,3
check "info" 0 info any.safetensors
says 'video: tensor "pictures", uint8, 2 frames of 16x16'
check "encode" 0 encode any.safetensors latents.safetensors
check "info in JSON" 0 info --json any.safetensors
says '"video"' '"frames": 2'
says_not '"no_model"'
check "help tells the formats of latents" 0 "$tool" decode --help
says .latent npy .pt safetensors
check "help tells the formats of frames" 0 "$tool" encode --help
says npy .pt safetensors
check "help tells the formats of weights" 0 info --help
says npy .pth safetensors folder
echo 'no tensors' >text
check "the error for another file lists the formats" 3 info text
says safetensors npy PyTorch

echo "# alpha"
# Of 4 bytes, opaque is 255. Of floats, it is 1.
filled 377 opaque8.safetensors frames U8 1,16,16,4
filled 0 clear8.safetensors frames U8 1,16,16,4
filled 0 clear4.safetensors frames F32 1,16,16,4
many $((16 * 16 * 4)) one | tensor opaque4.safetensors frames F32 1,16,16,4
for n in 4 8; do
    check "opaque video, $n" 0 encode opaque$n.safetensors white$n.safetensors
    says_not alpha
    check "transparent video, $n" 0 encode clear$n.safetensors x.safetensors
    says "warning: clear$n.safetensors: tensor \"frames\": the frames have transparent pixels" \
        ", and the network reads no alpha"
    true_that "it is one line" test "$(grep -c alpha log)" -eq 1
done
check "both are the same" 0 compare --max-abs 1e-5 white4.safetensors \
    white8.safetensors
alpha=$data/qwenimage21
check "weights with alpha to y4m" 0 by "$alpha/weights.safetensors" decode \
    "$alpha/decode_t3_2x3.safetensors" alpha.y4m
says 'tensor "latent": the network makes alpha, which is lost here' \
    ".safetensors and .npy have one"
true_that "  it is one line" test "$(grep -c alpha, log)" -eq 1
check "  to npy" 0 by "$alpha/weights.safetensors" decode \
    "$alpha/decode_t3_2x3.safetensors" alpha.npy
says_not "is lost"
check "  whose frames are encoded" 0 by "$alpha/weights.safetensors" encode alpha.npy \
    x.safetensors
says_not "reads no alpha"
rm x.safetensors
check "info of weights with alpha" 0 info "$alpha/weights.safetensors"
says "pictures have alpha: 4 channels to decode, 4 channels to encode"
# Tensors of ema. are no part of a network.
sed 's/"encoder[.]/"ema.enc./g; s/"quant_conv[.]/"ema.q_conv./g' \
    "$alpha/weights.safetensors" >decoder.safetensors
check "  without an encoder" 0 info decoder.safetensors
says "no encoder" "pictures have alpha: 4 channels to decode"
says_not "to encode"

echo "# metadata"
numbers one | tensor meta.safetensors x F32 1 \
    "{\"a\":\"line\\nbreak\",\"b\":\"$(printf '%0300d' 0)\"}"
check "info with metadata, of a file that is nothing else" 3 info meta.safetensors
says "a = line break" "... (300 bytes)"
check "in JSON" 3 info --json meta.safetensors
says '"a": "line\nbreak"' "$(printf '%0300d' 0)"

echo "# control characters in names and metadata"
escape=$(printf '\033')
c1=$(printf '\302\233')
numbers one | tensor esc.safetensors '\u001b[31m\u009b1m' F32 1 \
    '{"\u001bkey":"\u001b]0;title\u0007\u007f\u009b2J, \u00e4\u00f6\u00fc"}'
check "info" 3 info --tensors esc.safetensors
says "  ?[31m??1m " "?key = ?]0;title????2J, $(printf '\303\244')"
says_not "$escape" "$c1"
cp esc.safetensors "$escape$c1.safetensors"
check "info of a file with such a name" 3 info "$escape$c1.safetensors"
says "???.safetensors"
says_not "$escape" "$c1"
check "info in JSON" 3 info --json --tensors esc.safetensors
says '\u001B' '\u009B'
says_not "$escape" "$c1"
check "compare" 0 compare esc.safetensors esc.safetensors
says "?[31m??1m 1 max 0"
says_not "$escape" "$c1"
check "compare without a common tensor" 3 compare esc.safetensors "$wan"
says "?[31m??1m"
says_not "$escape" "$c1"
head -c $((16 * 2 * 6 * 10 * 4)) "$wan" |
    tensor esc.safetensors '\u001bc' F32 16,2,6,10 \
        '{"vae.latent_space":"\u001bc","vae.frames":"9223372036854775807",'\
'"vae.width":"1048576","vae.height":"16"}'
check "info of latents" 0 info esc.safetensors
says 'tensor "?c"' "latent space ?c" \
    "video 1048576x16 as stated, more than such latents can be" \
    'vae.frames is "9223372036854775807", expected 2 to 65 for 2 latents of any network'
says_not "$escape"
# More frames than the latents have are told, and do not count.
head -c $((16 * 2 * 6 * 10 * 4)) "$wan" | tensor many.safetensors latent F32 16,2,6,10 \
    '{"vae.latent_space":"wan2.1","vae.frames":"6"}'
check "info of too many frames" 0 info many.safetensors
says 'vae.frames is "6", expected 2 to 5 for 2 latents of wan2.1; it is ignored'
says_not "6 frames"
head -c $((16 * 2 * 6 * 10 * 4)) "$wan" | tensor many.safetensors latent F32 16,2,6,10 \
    '{"vae.latent_space":"wan2.1","vae.temporal_factor":"5","vae.frames":"6"}'
check "info of as many frames as there are" 0 info many.safetensors
says_not ignored
# The model tells it, too.
head -c $((16 * 2 * 6 * 10 * 4)) "$wan" | tensor many.safetensors latent F32 16,2,6,10 \
    '{"vae.frames":"6"}'
check "info of frames that no known network can tell" 0 info many.safetensors
says "  6 frames"
check "decode fewer frames than stated" 0 decode many.safetensors few.npy
says 'vae.frames is "6", expected 2 to 5 for 2 latents of the model; it is ignored'
check "decode names the space" 3 decode esc.safetensors x
says "esc.safetensors: the latent space is ?c, which is not known, the model "
filled 0 esc.safetensors '\u001bc' U8 1,16,16,3
check "info of video" 0 info esc.safetensors
says 'video: tensor "?c"'
says_not "$escape"

echo "# an output that is a part of the input or the model"
# same FILE WHAT MODEL LATENTS: decode must refuse to write FILE.
same() {
    cp "$1" before
    for resume in "" --resume; do
        check "OUT is $1 $resume" 3 by "$3" decode $resume "$4" "$1"
        says "$1: is the $2; write to another file"
    done
    true_that "the file is unchanged" cmp before "$1"
}
# index FILE: prints an index of one shard.
index() {
    python3 -c 'import json, sys
with open(sys.argv[1], "rb") as f:
    head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
head.pop("__metadata__", None)
print(json.dumps({"weight_map": dict.fromkeys(head, sys.argv[1])}))' "$1"
}
cp "$wan" shard.safetensors
index shard.safetensors >wan.safetensors.index.json
mkdir folder
cp "$wan" folder/diffusion_pytorch_model.safetensors
cp "$latents" lshard.safetensors
index lshard.safetensors >latents.json
same shard.safetensors model wan.safetensors.index.json "$latents"
same folder/diffusion_pytorch_model.safetensors model folder "$latents"
same lshard.safetensors input "$wan" latents.json
check "encode to a shard" 3 by wan.safetensors.index.json encode "$latents" \
    shard.safetensors
says "shard.safetensors: is the model; write to another file"

echo "# frame rate"
tail -c $((16 * 2 * 6 * 10 * 4)) "$latents" |
    tensor ntsc.safetensors latent F32 16,2,6,10 \
        '{"vae.framerate":"30000/1001"}'
check "decode" 0 decode ntsc.safetensors ntsc-frames.safetensors
check "frames state the rate of their latents" 0 info ntsc-frames.safetensors
says "vae.framerate = 30000/1001" "  30000/1001 frames per second"
check "in JSON" 0 info --json ntsc-frames.safetensors
says '"framerate": ['
check "encode" 0 encode ntsc-frames.safetensors ntsc2.safetensors
check "latents state the rate of their frames" 0 info ntsc2.safetensors
says "vae.framerate = 30000/1001" "  30000/1001 frames per second"
for rate in 24/1 60000/2002; do
    filled 0 other.safetensors video_u8 U8 1,48,80,3 \
        "{\"vae.framerate\":\"$rate\"}"
    check "compare with $rate" 1 compare ntsc-frames.safetensors \
        other.safetensors
    if [ $rate = 24/1 ]; then
        says "different frame rates: 30000/1001 in ntsc-frames.safetensors," \
            ", 24/1 in other.safetensors"
    else
        says_not "different frame rates"
    fi
done
filled 0 other.safetensors video_u8 U8 1,48,80,3 '{"vae.framerate":"fast"}'
check "encode frames with a wrong rate" 3 encode other.safetensors \
    latents.safetensors
says 'other.safetensors: metadata vae.framerate is "fast", expected a fraction' \
    "to override it, set framerate"
check "  with a rate given" 0 encode --framerate 24 other.safetensors x.safetensors
says 'warning: other.safetensors: metadata vae.framerate is "fast"' "is ignored"
rm x.safetensors
broken='"vae.latent_space":"foo","vae.normalization":"foo","vae.layout":"xyz"'
tail -c $((16 * 2 * 6 * 10 * 4)) "$latents" |
    tensor broken.safetensors latent F32 16,2,6,10 \
        "{$broken,\"vae.framerate\":\"abc\",\"vae.recording\":\"maybe\"}"
given=
for option in layout=cthw normalization=raw framerate=24 latent-space=wan2.1; do
    # shellcheck disable=SC2086 # several options
    check "decode without --${option%=*}" 3 decode $given broken.safetensors \
        broken.npy
    says "to override it, set ${option%=*}"
    given="$given --$option"
done
# shellcheck disable=SC2086 # several options
check "with all" 0 decode $given broken.safetensors broken.npy
says 'warning: broken.safetensors: metadata vae.layout is "xyz"' \
    'vae.normalization is "foo"' 'vae.framerate is "abc"' "latent-space foo" \
    'vae.recording is "maybe", expected open; it is ignored'
# shellcheck disable=SC2086 # several options
check "info with all" 0 info $given broken.safetensors
says 'vae.recording is "maybe", expected open; it is ignored'

echo "# other formats of outputs"
# y4m FILE TENSORS: compares the luma of a Y4M file with frames of -1..1.
cat >y4m.py <<'P'
import array, sys
head, rest = open(sys.argv[1], "rb").read().split(b"\n", 1)
w, h, rate = (head.split()[i][1:].decode() for i in (1, 2, 3))
w, h, data = int(w), int(h), open(sys.argv[2], "rb").read()
v = array.array("f", data[8 + int.from_bytes(data[:8], "little"):])
size = 6 + w * h + 2 * ((w + 1) // 2) * ((h + 1) // 2)
n = len(v) // (3 * w * h)
assert len(rest) == n * size and rate == "16:1", (len(rest), n, size, rate)
for i in range(n):
    frame = rest[i * size:(i + 1) * size]
    assert frame[:6] == b"FRAME\n"
    for k in range(w * h):
        rgb = [min(1, max(0, (x + 1) / 2))
               for x in v[3 * (i * w * h + k):3 * (i * w * h + k) + 3]]
        y = 16 + 219 * (.299 * rgb[0] + .587 * rgb[1] + .114 * rgb[2])
        assert abs(y - frame[6 + k]) < 1.1, (i, k, y, frame[6 + k])
P
check "decode to safetensors" 0 decode "$latents" o.safetensors
check "decode to npy" 0 decode "$latents" o.npy
check "  has the same frames" 0 compare --max-abs 0 o.npy o.safetensors
check "decode to y4m" 0 decode "$latents" o.y4m
check "  has the luma of the frames" 0 python3 y4m.py o.y4m o.safetensors
many 64 one | tensor turned.safetensors latent F32 \
    16,1,2,2 '{"vae.pixel_aspect_ratio":"4/3","vae.tag.image-orientation":"rotate-90",
        "vae.title":"a title"}'
check "the shape of pixels" 0 decode turned.safetensors turned.y4m
says "turned.safetensors states an orientation" "latents-to-video.sh turns"
true_that "  is in the header" grep -q "^YUV4MPEG2 .* A4:3 " turned.y4m
check "the orientation, in npy" 0 decode turned.safetensors turned.npy
says "turned.safetensors states an orientation" "latents-to-video.sh turns"
check "what pictures have" 0 decode turned.safetensors pictures.safetensors
says_not "orientation"
check "  back to latents" 0 encode pictures.safetensors turned.safetensors
for file in pictures turned; do
    check "  is in $file" 0 "$tool" info "$file.safetensors"
    says "vae.pixel_aspect_ratio = 4/3" "vae.title = a title" \
        "vae.tag.image-orientation = rotate-90"
done
check "decode to standard output" 0 sh -c '"$@" | cmp - o.y4m' - \
    "$tool" decode --backend ref --model "$wan" "$latents" -
check "  also to a file" 0 sh -c '"$@" >p.y4m && cmp p.y4m o.y4m' - \
    "$tool" decode --backend ref --model "$wan" "$latents" -
mkfifo opipe
check "decode to a pipe" 0 sh -c 'cat opipe >p.st & "$@" && wait &&
    cmp p.st o.safetensors' - \
    "$tool" decode --backend ref --model "$wan" "$latents" opipe
check "a reader that ends" 0 sh -c '{ "$@"; echo "code $?" >&2; } | head -c 9' \
    - "$tool" decode --backend ref --model "$wan" "$latents" -
says "-: cannot write: Broken pipe" "code 3"
check "encode to npy" 0 encode o.safetensors z.npy
check "encode to safetensors" 0 encode o.safetensors z.safetensors
check "  has the same latents" 0 sh -c '"$1" compare --max-abs 0 z.npy \
    z.safetensors' - "$tool"
check "encode for the types" 0 encode o.safetensors zero.latent
for type in f16 bf16; do
    for end in safetensors latent npy; do
        [ $type.$end != bf16.npy ] || continue
        check "encode to $type, .$end" 0 encode --dtype $type o.safetensors h.$end
        check "  is of this type" 0 "$tool" info h.$end
        says "float16, "
        check "  differs by the rounding only" 0 "$tool" compare --min-psnr 40 \
            h.$end "$([ $end = latent ] && echo zero.latent || echo z.$end)"
    done
done
check "no bf16 in .npy" 3 encode --dtype bf16 o.safetensors h.npy
says "h.npy: .npy has no bfloat16 for --dtype bf16"
check "encode to a file of ComfyUI" 0 encode o.safetensors z.latent
check "  is one" 0 "$tool" info --tensors z.latent
says "latents: tensor \"latent_tensor\"" "latent space wan2.1, raw" \
    "latent_format_version_0 "
check "  has the same latents" 0 sh -c '"$1" decode $4 --model "$2" z.latent \
    a.safetensors && "$1" decode $4 --model "$2" z.safetensors b.safetensors &&
    "$1" compare --min-psnr 100 a.safetensors b.safetensors' - "$tool" "$wan" x \
    "$ref"
check "  not with another scale" 3 encode --normalization normalized \
    o.safetensors z.latent
says "ComfyUI's latents of this space are raw"

echo "# networks with different pixel ranges"
tae=$data/taehv/taew2_1/weights.safetensors
for net in wan tae; do
    weights=$wan
    [ $net = tae ] && weights=$tae
    check "decode by $net" 0 by "$weights" decode "$latents" \
        "$net-frames.safetensors"
done
check "info states the range of frames" 0 info wan-frames.safetensors
says "vae.pixel_range = -1 1" "pixels -1..1"
check "info of frames in 0..1" 0 info tae-frames.safetensors
says "vae.pixel_range = 0 1" "pixels 0..1"
check "in JSON" 0 info --json tae-frames.safetensors
says '"pixel_range": ['
check "compare frames in 0..1" 0 compare --min-ssim 1 tae-frames.safetensors \
    tae-frames.safetensors
says "(peak 1, clamped to 0..1)" "SSIM 1.0"
check "compare frames in -1..1" 0 compare wan-frames.safetensors \
    wan-frames.safetensors
says "(peak 2, clamped to -1..1)"
check "only one file states the range" 0 compare "$latents" \
    wan-frames.safetensors
says "frames 5x48x80x3" "(peak 2, clamped to -1..1)"
filled 0 dark.safetensors video_u8 U8 5,48,80,3
for pair in "dark tae-frames" "tae-frames dark"; do
    check "bytes, $pair" 0 compare "${pair% *}.safetensors" \
        "${pair#* }.safetensors"
    says "(peak 1, clamped to 0..1)"
done
check "the ranges differ" 1 compare wan-frames.safetensors \
    tae-frames.safetensors
says "frames DIFFERENT RANGES: black and white are -1 and 1 in" \
    "wan-frames.safetensors, 0 and 1 in" "--peak 2 compares the numbers" \
    "scale the frames of one file, and its vae.pixel_range"
for command in decode encode; do
    check "weights for the input of $command" 3 "$tool" $command $ref --model \
        "$wan" "$wan" x.safetensors
    says "looks like model weights"
done
check "frames for latents" 3 decode wan-frames.safetensors x.safetensors
says "no latent tensor (looks like frames); found \"frames\" 5x48x80x3"
check "frames for a model" 3 by wan-frames.safetensors decode "$latents" \
    x.safetensors
says "wan-frames.safetensors: weights of no known VAE (looks like frames)"
filled 0 only-latents.safetensors latent F32 16,1,6,10
check "latents for frames" 3 encode only-latents.safetensors x.safetensors
says "no tensor \"video_u8\" or \"frames\" (looks like latents)"
head -c 3072 /dev/zero | npy flat.npy "3, 16, 16"
check "encode of another shape" 3 encode flat.npy x.safetensors
says "flat.npy: tensor \"npy\" is 3x16x16, video is [T,H,W,3]"
head -c 12288 /dev/zero | npy one.npy "32, 32, 3"
check "encode of one frame" 0 encode one.npy one.safetensors
head -c 12288 /dev/zero | npy same.npy "1, 32, 32, 3"
check "  with a dimension more" 0 encode same.npy same.safetensors
true_that "  is the same" cmp one.safetensors same.safetensors
: | npy none.npy "0, 32, 32, 3"
head -c 1536 /dev/zero | npy batch.npy "2, 1, 8, 8, 3"
check "encode of a batch" 3 encode batch.npy x.safetensors
says "is 2x1x8x8x3" "it has a batch in front: encode its clips one after another"
check "encode of no frames" 3 encode none.npy x.safetensors
says "is 0x32x32x3" "it has no frames"
filled 0 order.safetensors latent U8 9,3,16,16
check "encode of bytes with the name of latents" 3 encode order.safetensors x.safetensors
says "is 9x3x16x16" "by moveaxis(x, 1, -1)"
filled 0 ints.safetensors x I32 1,16,16,3
check "encode of another type" 3 encode ints.safetensors x.safetensors
says "ints.safetensors: tensor \"x\" (1x16x16x3) has elements of type int32, expected" \
    "uint8, float32, float16, bfloat16 or float64: convert values of 0 to 255 by" \
    'those of n bits to floats by x / (2**n - 1), with --pixel-range "0 1"'
check "--peak overrides different ranges" 0 compare --peak 2 \
    wan-frames.safetensors tae-frames.safetensors
says "(peak 2, clamped to -1..1)"
check "--peak overrides equal ranges" 0 compare --peak 2 \
    tae-frames.safetensors tae-frames.safetensors
says "(peak 2, clamped to -1..1)"
for range in 'nan nan' '1 0' '0 1 ' hello '0 1e-45' '-3e38 3e38' ''; do
    filled 0 said.safetensors frames F32 1,48,80,3 \
        "{\"vae.pixel_range\":\"$range\"}"
    check "compare, the stated range is '$range'" 3 compare \
        wan-frames.safetensors said.safetensors
    says "said.safetensors: vae.pixel_range is \"$range\", expected the values"
    for json in "" --json; do
        # shellcheck disable=SC2086 # no word or one
        check "info $json, the stated range is '$range'" 0 info $json \
            said.safetensors
        says "said.safetensors: vae.pixel_range is " "expected the values of"
    done
    check "encode, the stated range is '$range'" 3 encode said.safetensors \
        said-latents.safetensors
    says "said.safetensors: vae.pixel_range is \"$range\", expected the values" \
        "to override it, use --pixel-range"
done
check "encode with another range" 0 encode --pixel-range "0 1" said.safetensors \
    said-latents.safetensors
says "warning: said.safetensors: vae.pixel_range is " "it is ignored"
check "compare with a range" 0 compare --peak 1 said.safetensors said.safetensors
says "warning: said.safetensors: vae.pixel_range is " "it is ignored"
# 0 in the range 0..1 is -1 in the range -1..1.
filled 0 black0.safetensors frames F32 1,48,80,3 '{"vae.pixel_range":"0 1"}'
filled 0 black8.safetensors video_u8 U8 1,48,80,3
for file in black0 black8; do
    check "encode $file" 0 encode "$file.safetensors" \
        "$file-latents.safetensors"
done
check "frames are converted to the range of the network" 0 compare --max-abs \
    1e-5 --tensor latent black0-latents.safetensors black8-latents.safetensors

finish

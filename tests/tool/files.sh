#!/bin/sh
# Tests vaetool on files of other formats, layouts and numbers.
# usage: files.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

wan=$data/wan21/weights.safetensors
latents=$data/wan21/decode_t2_6x10.safetensors
ref="--backend ref"

# bytes FILE FROM COUNT: prints bytes of a file.
bytes() {
    tail -c "+$(($2 + 1))" "$1" | head -c "$3"
}

# numbers WORD...: prints numbers as F32. A word is nan, one or two.
numbers() {
    for word; do
        case $word in
        nan) printf '\0\0\300\177' ;;
        one) printf '\0\0\200\77' ;;
        two) printf '\0\0\0\100' ;;
        esac
    done
}

echo "# output names of other file types"
for file in clip.mp4 sheet.png clip.webm frames.npy; do
    check "decode to $file" 3 "$tool" decode $ref --model "$wan" "$latents" \
        "$out/$file"
    says "$file" ".safetensors" "pipelines/latents-to-video.sh" "vaedecode"
    true_that "nothing is written" test ! -e "$out/$file"
done
check "encode to .pt" 3 "$tool" encode $ref --model "$wan" "$latents" \
    "$out/latents.pt"
says "latents.pt" "latents as .safetensors"
check "a name in capitals" 0 "$tool" decode $ref --model "$wan" "$latents" \
    "$out/FRAMES.SAFETENSORS"
check "a dot in the folder only" 3 "$tool" decode $ref --model "$wan" \
    "$latents" "$out/no.folder/frames"
says "cannot create"
printf '\0\0\0\040ftypisom\0\0\2\0isomiso2avc1mp41' >"$out/in.mp4"
check "encode a video file" 3 "$tool" encode $ref --model "$wan" \
    "$out/in.mp4" "$out/latents.safetensors"
says "in.mp4: is a video file (MP4 or MOV)" "pipelines/video-to-latents.sh" \
    "vaeencode"
check "decode a video file" 3 "$tool" decode $ref --model "$wan" \
    "$out/in.mp4" "$out/x.safetensors"
says "in.mp4: is a video file (MP4 or MOV); expected a safetensors, npy or"
true_that "the error is one line" test "$(wc -l <"$out/log")" -eq 1
cp "$out/in.mp4" "$out/in.safetensors"
check "encode a video file named .safetensors" 3 "$tool" encode $ref \
    --model "$wan" "$out/in.safetensors" "$out/latents.safetensors"
says "in.safetensors"
says_not "video-to-latents.sh"

check "an empty name" 2 "$tool" decode $ref --model "$wan" "$latents" ""
says "argument 2" "is empty"

echo "# a file whose only tensor is a video"
head -c $((2 * 16 * 16 * 3)) "$wan" | tensor "$out/any.safetensors" \
    pictures U8 2,16,16,3
check "info" 0 "$tool" info "$out/any.safetensors"
says 'video: tensor "pictures", uint8, 2 frames of 16x16'
check "encode" 0 "$tool" encode $ref --model "$wan" "$out/any.safetensors" \
    "$out/latents.safetensors"
check "info in JSON" 0 "$tool" info --json "$out/any.safetensors"
says '"video"' '"frames": 2'
says_not '"no_model"'
check "help tells the formats of latents" 0 "$tool" decode --help
says .latent npy .pt safetensors
check "help tells the formats of frames" 0 "$tool" encode --help
says npy .pt safetensors
check "help tells the formats of weights" 0 "$tool" info --help
says npy .pth safetensors folder
echo 'no tensors' >"$out/text"
check "the error for another file lists the formats" 3 "$tool" info "$out/text"
says safetensors npy PyTorch

echo "# metadata"
numbers one | tensor "$out/meta.safetensors" x F32 1 \
    "{\"a\":\"line\\nbreak\",\"b\":\"$(printf '%0300d' 0)\"}"
check "info with metadata" 0 "$tool" info "$out/meta.safetensors"
says "a = line break" "... (300 bytes)"
check "in JSON" 0 "$tool" info --json "$out/meta.safetensors"
says '"a": "line\nbreak"' "$(printf '%0300d' 0)"

echo "# control characters in names and metadata"
escape=$(printf '\033')
c1=$(printf '\302\233')
numbers one | tensor "$out/esc.safetensors" '\u001b[31m\u009b1m' F32 1 \
    '{"\u001bkey":"\u001b]0;title\u0007\u007f\u009b2J, \u00e4\u00f6\u00fc"}'
check "info" 0 "$tool" info --tensors "$out/esc.safetensors"
says "  ?[31m??1m " "?key = ?]0;title????2J, $(printf '\303\244')"
says_not "$escape" "$c1"
check "info in JSON" 0 "$tool" info --json --tensors "$out/esc.safetensors"
says '\u001B' '\u009B'
says_not "$escape" "$c1"
check "compare" 0 "$tool" compare "$out/esc.safetensors" "$out/esc.safetensors"
says "?[31m??1m 1 max 0"
says_not "$escape" "$c1"
check "compare without a common tensor" 3 \
    "$tool" compare "$out/esc.safetensors" "$wan"
says "?[31m??1m"
says_not "$escape" "$c1"
head -c $((16 * 2 * 6 * 10 * 4)) "$wan" |
    tensor "$out/esc.safetensors" '\u001bc' F32 16,2,6,10 \
        '{"vae.latent_space":"\u001bc","vae.frames":"9223372036854775807",'\
'"vae.width":"1048576","vae.height":"16"}'
check "info of latents" 0 "$tool" info "$out/esc.safetensors"
says 'tensor "?c"' "latent space ?c" \
    "video 1048576x16 as stated, more than such latents can be" \
    "9223372036854775807 frames as stated, more than so many latents can be"
says_not "$escape"
check "decode names the space" 3 "$tool" decode $ref --model "$wan" \
    "$out/esc.safetensors" "$out/x"
says "states the latent space ?c"
head -c $((16 * 16 * 3)) /dev/zero |
    tensor "$out/esc.safetensors" '\u001bc' U8 1,16,16,3
check "info of video" 0 "$tool" info "$out/esc.safetensors"
says 'video: tensor "?c"'
says_not "$escape"

echo "# frame rate"
tail -c $((16 * 2 * 6 * 10 * 4)) "$latents" |
    tensor "$out/ntsc.safetensors" latent F32 16,2,6,10 \
        '{"vae.framerate":"30000/1001"}'
check "decode" 0 "$tool" decode $ref --model "$wan" "$out/ntsc.safetensors" \
    "$out/ntsc-frames.safetensors"
check "frames state the rate of their latents" 0 "$tool" info \
    "$out/ntsc-frames.safetensors"
says "vae.framerate = 30000/1001" "  30000/1001 frames per second"
check "in JSON" 0 "$tool" info --json "$out/ntsc-frames.safetensors"
says '"framerate": ['
check "encode" 0 "$tool" encode $ref --model "$wan" \
    "$out/ntsc-frames.safetensors" "$out/ntsc2.safetensors"
check "latents state the rate of their frames" 0 "$tool" info \
    "$out/ntsc2.safetensors"
says "vae.framerate = 30000/1001" "  30000/1001 frames per second"
for rate in 24/1 60000/2002; do
    head -c $((48 * 80 * 3)) /dev/zero | tensor "$out/other.safetensors" \
        video_u8 U8 1,48,80,3 "{\"vae.framerate\":\"$rate\"}"
    check "compare with $rate" 1 "$tool" compare \
        "$out/ntsc-frames.safetensors" "$out/other.safetensors"
    if [ $rate = 24/1 ]; then
        says "different frame rates: 30000/1001 in $out/ntsc-frames.safetensors," \
            ", 24/1 in $out/other.safetensors"
    else
        says_not "different frame rates"
    fi
done
head -c $((48 * 80 * 3)) /dev/zero | tensor "$out/other.safetensors" \
    video_u8 U8 1,48,80,3 '{"vae.framerate":"fast"}'
check "encode frames with a wrong rate" 3 "$tool" encode $ref --model "$wan" \
    "$out/other.safetensors" "$out/latents.safetensors"
says 'other.safetensors: metadata vae.framerate is "fast", expected a fraction'

echo "# layouts"
# Makes 2 latents of 16 channels, once as [C,T,h,w] and once as [T,C,h,w].
check "encode the latents of the layouts" 0 "$tool" encode $ref --tensor frames \
    --model "$wan" "$latents" "$out/cthw.safetensors"
plane=$((6 * 10 * 4))
begin=$(($(wc -c <"$out/cthw.safetensors") - 3 * 32 * plane))
for t in 0 1; do
    for c in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        bytes "$out/cthw.safetensors" $((begin + (c * 2 + t) * plane)) $plane
    done
done >"$out/tchw"
tensor "$out/tchw.safetensors" latent F32 2,16,6,10 '{"vae.layout":"tchw"}' \
    <"$out/tchw"
tensor "$out/plain.safetensors" latent F32 2,16,6,10 <"$out/tchw"
check "the same latents in two layouts" 0 "$tool" compare --max-abs 0 \
    "$out/cthw.safetensors" "$out/tchw.safetensors"
says "latent 16x2x6x10 max 0"
check "the two layouts in the other order" 0 "$tool" compare --max-abs 0 \
    "$out/tchw.safetensors" "$out/cthw.safetensors"
check "no layout is stated" 0 "$tool" compare --max-abs 0 \
    "$out/plain.safetensors" "$out/tchw.safetensors"
head -c $((16 * 16 * 2 * 3 * 4)) "$out/tchw" >"$out/square"
tensor "$out/square.safetensors" latent F32 16,16,2,3 \
    '{"vae.layout":"tchw"}' <"$out/square"
tensor "$out/square2.safetensors" latent F32 16,16,2,3 \
    '{"vae.layout":"cthw"}' <"$out/square"
check "info of latents whose layout is stated" 0 "$tool" info \
    "$out/square2.safetensors"
says "16 channels" "3x2"
says_not "video: tensor"
check "equal bytes in other layouts" 1 "$tool" compare --max-abs 0 \
    "$out/square.safetensors" "$out/square2.safetensors"
check "equal bytes and layouts" 0 "$tool" compare --max-abs 0 \
    "$out/square.safetensors" "$out/square.safetensors"

echo "# NaN"
numbers nan nan nan nan | tensor "$out/nan.safetensors" x F32 4
numbers one nan two one | tensor "$out/some.safetensors" x F32 4
numbers one two two one | tensor "$out/none.safetensors" x F32 4
numbers nan one two one | tensor "$out/other.safetensors" x F32 4
check "only NaN in both" 0 "$tool" compare \
    "$out/nan.safetensors" "$out/nan.safetensors"
says "PSNR none" "4 in A, 4 in B, 4 in both"
says_not "PSNR inf"
check "only NaN does not reach a PSNR" 1 "$tool" compare --min-psnr 1 \
    "$out/nan.safetensors" "$out/nan.safetensors"
check "NaN in A" 1 "$tool" compare \
    "$out/some.safetensors" "$out/none.safetensors"
says "max inf at [1]" "1 in A, 0 in B" "NaN IN ONE FILE ONLY"
says_not "PSNR inf"
check "NaN in B" 1 "$tool" compare \
    "$out/none.safetensors" "$out/nan.safetensors"
says "0 in A, 4 in B"
says_not "PSNR inf"
check "NaN in both, at other places" 1 "$tool" compare \
    "$out/some.safetensors" "$out/other.safetensors"
says "1 in A, 1 in B, 0 in both"
check "no NaN" 0 "$tool" compare --min-psnr 300 \
    "$out/none.safetensors" "$out/none.safetensors"
says "PSNR inf dB"
words=
i=0
while [ $i -lt 48 ]; do
    words="$words nan"
    i=$((i + 1))
done
# shellcheck disable=SC2086 # 48 words
numbers $words | tensor "$out/video.safetensors" frames F32 1,4,4,3
check "only NaN does not reach an SSIM" 1 "$tool" compare --min-ssim 0.1 \
    "$out/video.safetensors" "$out/video.safetensors"
says "PAST THE BOUND"

echo "# frames in bytes and in floats"
words=
i=0
while [ $i -lt 48 ]; do
    words="$words one"
    i=$((i + 1))
done
# shellcheck disable=SC2086 # 48 words
numbers $words | tensor "$out/ones.safetensors" frames F32 1,4,4,3
head -c 48 /dev/zero | tr '\0' '\377' |
    tensor "$out/white.safetensors" video_u8 U8 1,4,4,3
head -c 48 /dev/zero | tensor "$out/black.safetensors" video_u8 U8 1,4,4,3
for peak in 2 1; do
    check "white is 1, peak $peak" 0 "$tool" compare --peak $peak --max-abs 0 \
        --min-ssim 1 "$out/ones.safetensors" "$out/white.safetensors"
    says "frames and video_u8 1x4x4x3 max 0 " "PSNR inf" "SSIM 1.0"
    check "black is $((1 - peak))" 0 "$tool" compare --peak $peak \
        "$out/black.safetensors" "$out/ones.safetensors"
    says "video_u8 and frames 1x4x4x3 max $peak " "PSNR 0.00 dB (peak $peak"
done
check "the peak without --peak" 0 "$tool" compare \
    "$out/black.safetensors" "$out/ones.safetensors"
says "max 2 " "PSNR 0.00 dB (peak 2, clamped to -1..1"
check "a bound is exceeded" 1 "$tool" compare --max-abs 1.9 \
    "$out/black.safetensors" "$out/ones.safetensors"
check "bytes with bytes" 0 "$tool" compare \
    "$out/black.safetensors" "$out/white.safetensors"
says "video_u8 1x4x4x3 max 255 " "peak 255"

# --peak 1 and --peak 2 name a range. Every other value is only a peak.
check "bytes, peak 1" 0 "$tool" compare --peak 1 \
    "$out/black.safetensors" "$out/white.safetensors"
says "max 1 " "PSNR 0.00 dB (peak 1, clamped to 0..1)"
check "bytes, peak 255" 0 "$tool" compare --peak 255 \
    "$out/black.safetensors" "$out/white.safetensors"
says "max 255 " "PSNR 0.00 dB (peak 255 as given)"
for range in '0 1' '-1 1' '0 4'; do
    # shellcheck disable=SC2086 # 48 words
    numbers $words | tensor "$out/said.safetensors" frames F32 1,4,4,3 \
        "{\"vae.pixel_range\":\"$range\"}"
    # The range of the floats decides, not the one that the file of bytes states.
    head -c 48 /dev/zero | tensor "$out/black8.safetensors" video_u8 U8 \
        1,4,4,3 '{"vae.pixel_range":"-4 4"}'
    for pair in "said black8" "black8 said"; do
        black=${range% *}
        white=${range#* }
        check "$pair, $range" 0 "$tool" compare \
            "$out/${pair% *}.safetensors" "$out/${pair#* }.safetensors"
        says "max $((1 - black)) " \
            "(peak $((white - black)), clamped to $black..$white)"
        check "$pair, $range, peak 8" 0 "$tool" compare --peak 8 \
            "$out/${pair% *}.safetensors" "$out/${pair#* }.safetensors"
        says "max $((1 - black)) " "(peak 8 as given)"
    done
done
for file in black white; do
    value=0
    [ $file = black ] || value=377
    head -c 48 /dev/zero | tr '\0' "\\$value" |
        tensor "$out/frames-$file.safetensors" frames U8 1,4,4,3 \
            "{\"vae.pixel_range\":\"0 1$value\"}"
done
check "frames in bytes ignore a stated range" 0 "$tool" compare \
    "$out/frames-black.safetensors" "$out/frames-white.safetensors"
says "max 255 " "PSNR 0.00 dB (peak 255)"

echo "# npy files, whose tensor has no name"
# npy FILE SHAPE: writes the float32 numbers of standard input.
npy() {
    header="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
    { printf '\223NUMPY\1\0\166\0%-117s\n' "$header" && cat; } >"$1"
}
numbers one two one one | npy "$out/bare.npy" "1, 2, 1, 2"
numbers one one two one | tensor "$out/named.safetensors" latents F32 \
    2,1,1,2 '{"vae.layout":"tchw"}'
numbers one two two one | npy "$out/other.npy" "1, 2, 1, 2"
check "npy and a named tensor" 0 "$tool" compare \
    "$out/bare.npy" "$out/named.safetensors"
says "npy and latents 1x2x1x2 max 1 at [0,0,0,1]"
check "the two files in the other order" 0 "$tool" compare \
    "$out/named.safetensors" "$out/bare.npy"
says "latents and npy 1x2x1x2 max 1 at [0,0,0,1]"
# shellcheck disable=SC2046 # words
numbers $(yes 'one two' | head -16) | npy "$out/batch.npy" "1, 16, 1, 1, 2"
# shellcheck disable=SC2046 # words
numbers $(yes 'one one' | head -16) |
    tensor "$out/clip.safetensors" latents F32 16,1,1,2
check "a batch of one, and no batch" 0 "$tool" compare \
    "$out/batch.npy" "$out/clip.safetensors"
says "npy and latents 16x1x1x2 max 1 at [0,0,0,1]"
check "two npy files" 0 "$tool" compare --max-abs 1 \
    "$out/bare.npy" "$out/other.npy"
says "npy 1x2x1x2 max 1 at [0,1,0,0]"

echo "# streams of pictures"
# ppm FRAMES VALUE: writes FRAMES pictures of 5x3 with all bytes equal to VALUE.
ppm() {
    i=0
    while [ $i -lt "$1" ]; do
        printf 'P6\n# a comment\n5 3\n255\n'
        head -c 45 /dev/zero | tr '\0' "\\$2"
        i=$((i + 1))
    done
}
# A stream gives the same numbers as a tensor, and a line for each frame.
{ ppm 2 100; ppm 1 0; } >"$out/a.ppm"
{ ppm 1 104; ppm 2 0; } >"$out/b.ppm"
{ head -c 90 /dev/zero | tr '\0' '\100'; head -c 45 /dev/zero; } |
    tensor "$out/a.safetensors" video_u8 U8 3,3,5,3
{ head -c 45 /dev/zero | tr '\0' '\104'; head -c 90 /dev/zero; } |
    tensor "$out/b.safetensors" video_u8 U8 3,3,5,3
check "the pictures as a tensor" 0 "$tool" compare --min-ssim 0 \
    "$out/a.safetensors" "$out/b.safetensors"
psnr=$(sed -n 's/.* PSNR \([0-9.]*\) dB.*/\1/p' "$out/log")
ssim=$(sed -n 's/.* SSIM \([0-9.]*\).*/\1/p' "$out/log")
check "the pictures as a stream" 0 \
    "$tool" compare --stream "$out/a.ppm" "$out/b.ppm"
says "frame 0 PSNR 36.09 dB" "frame 2 PSNR inf dB SSIM 1.000000" \
    "3 frames: PSNR $psnr dB, 12.01 dB at least; SSIM $ssim on average"
mkfifo "$out/a.fifo" "$out/b.fifo"
cat "$out/a.ppm" >"$out/a.fifo" &
cat "$out/b.ppm" >"$out/b.fifo" &
check "the pictures from named pipes" 0 \
    "$tool" compare --stream "$out/a.fifo" "$out/b.fifo"
says "3 frames: PSNR $psnr dB"
wait
check "a bound is exceeded" 1 "$tool" compare --stream --min-psnr 40 \
    "$out/a.ppm" "$out/b.ppm"
says "PAST THE BOUND"
check "a bound is met" 0 "$tool" compare --stream --min-ssim 0.9 \
    "$out/a.ppm" "$out/a.ppm"
says "3 frames: PSNR inf dB"
ppm 2 1 >"$out/short.ppm"
check "one stream is shorter" 3 \
    "$tool" compare --stream "$out/a.ppm" "$out/short.ppm"
says "short.ppm ends after 2 pictures" "a.ppm goes on"
head -c 100 "$out/a.ppm" >"$out/cut.ppm"
check "a picture is incomplete" 3 \
    "$tool" compare --stream "$out/a.ppm" "$out/cut.ppm"
says "cut.ppm: picture 1 is cut short"
printf 'P6 3 5 255\n%45s' x >"$out/turned.ppm"
check "pictures of another size" 3 \
    "$tool" compare --stream "$out/a.ppm" "$out/turned.ppm"
says "picture 0 is 5x3 in" "3x5 in"
for header in 'P5 5 3 255' 'P6 5 3 65535' 'P6 0 3 255' 'P6 5 70000 255' \
    'P6 5 -3 255' 'P6 5'; do
    printf '%s\n%90s' "$header" x >"$out/other.ppm"
    check "$header" 3 "$tool" compare --stream "$out/a.ppm" "$out/other.ppm"
    says "other.ppm: picture 0 " "expected a binary PPM (P6) of 8 bits"
done
: >"$out/empty.ppm"
check "empty streams" 3 "$tool" compare --stream "$out/empty.ppm" "$out/empty.ppm"
says "hold no pictures"
check "no such stream" 3 "$tool" compare --stream "$out/none" "$out/a.ppm"
says "none: cannot open"
check "an option for tensors" 2 "$tool" compare --stream --max-abs 1 \
    "$out/a.ppm" "$out/a.ppm"
says "--min-psnr and --min-ssim only"

echo "# networks with different pixel ranges"
tae=$data/taehv/taew2_1/weights.safetensors
for net in wan tae; do
    weights=$wan
    [ $net = tae ] && weights=$tae
    check "decode by $net" 0 "$tool" decode $ref --model "$weights" \
        "$latents" "$out/$net-frames.safetensors"
done
check "info states the range of frames" 0 \
    "$tool" info "$out/wan-frames.safetensors"
says "vae.pixel_range = -1 1" "pixels -1..1"
check "info of frames in 0..1" 0 "$tool" info "$out/tae-frames.safetensors"
says "vae.pixel_range = 0 1" "pixels 0..1"
check "in JSON" 0 "$tool" info --json "$out/tae-frames.safetensors"
says '"pixel_range": ['
check "compare frames in 0..1" 0 "$tool" compare --min-ssim 1 \
    "$out/tae-frames.safetensors" "$out/tae-frames.safetensors"
says "(peak 1, clamped to 0..1)" "SSIM 1.0"
check "compare frames in -1..1" 0 "$tool" compare "$out/wan-frames.safetensors" \
    "$out/wan-frames.safetensors"
says "(peak 2, clamped to -1..1)"
check "only one file states the range" 0 "$tool" compare "$latents" \
    "$out/wan-frames.safetensors"
says "frames 5x48x80x3" "(peak 2, clamped to -1..1)"
head -c $((5 * 48 * 80 * 3)) /dev/zero |
    tensor "$out/dark.safetensors" video_u8 U8 5,48,80,3
for pair in "dark tae-frames" "tae-frames dark"; do
    check "bytes, $pair" 0 "$tool" compare \
        "$out/${pair% *}.safetensors" "$out/${pair#* }.safetensors"
    says "(peak 1, clamped to 0..1)"
done
check "the ranges differ" 1 "$tool" compare "$out/wan-frames.safetensors" \
    "$out/tae-frames.safetensors"
says "frames DIFFERENT RANGES: black and white are -1 and 1 in" \
    "wan-frames.safetensors, 0 and 1 in" "--peak 2 compares the numbers" \
    "scale the frames of one file, and its vae.pixel_range"
for command in decode encode; do
    check "weights for the input of $command" 3 "$tool" $command $ref \
        --model "$wan" "$wan" "$out/x.safetensors"
    says "looks like model weights"
done
check "frames for latents" 3 "$tool" decode $ref --model "$wan" \
    "$out/wan-frames.safetensors" "$out/x.safetensors"
says "no latent tensor (looks like frames); found \"frames\" 5x48x80x3"
check "frames for a model" 3 "$tool" decode $ref \
    --model "$out/wan-frames.safetensors" "$latents" "$out/x.safetensors"
says "wan-frames.safetensors: weights of no known VAE (looks like frames)"
head -c $((16 * 6 * 10 * 4)) /dev/zero |
    tensor "$out/only-latents.safetensors" latent F32 16,1,6,10
check "latents for frames" 3 "$tool" encode $ref --model "$wan" \
    "$out/only-latents.safetensors" "$out/x.safetensors"
says "no tensor \"video_u8\" or \"frames\" (looks like latents)"
check "--peak overrides different ranges" 0 \
    "$tool" compare --peak 2 "$out/wan-frames.safetensors" \
    "$out/tae-frames.safetensors"
says "(peak 2, clamped to -1..1)"
check "--peak overrides equal ranges" 0 "$tool" compare --peak 2 \
    "$out/tae-frames.safetensors" "$out/tae-frames.safetensors"
says "(peak 2, clamped to -1..1)"
for range in 'nan nan' '1 0' '0 1 ' hello '0 1e-45' '-3e38 3e38' ''; do
    head -c $((48 * 80 * 3 * 4)) /dev/zero |
        tensor "$out/said.safetensors" frames F32 1,48,80,3 \
            "{\"vae.pixel_range\":\"$range\"}"
    check "compare, the stated range is '$range'" 3 "$tool" compare \
        "$out/wan-frames.safetensors" "$out/said.safetensors"
    says "said.safetensors: vae.pixel_range is \"$range\", expected the values"
    check "encode, the stated range is '$range'" 3 \
        "$tool" encode $ref --model "$wan" \
        "$out/said.safetensors" "$out/said-latents.safetensors"
    says "said.safetensors: vae.pixel_range is \"$range\", expected the values"
done
# 0 in the range 0..1 is -1 in the range -1..1.
head -c $((48 * 80 * 3 * 4)) /dev/zero |
    tensor "$out/black0.safetensors" frames F32 1,48,80,3 \
        '{"vae.pixel_range":"0 1"}'
head -c $((48 * 80 * 3)) /dev/zero |
    tensor "$out/black8.safetensors" video_u8 U8 1,48,80,3
for file in black0 black8; do
    check "encode $file" 0 "$tool" encode $ref --model "$wan" \
        "$out/$file.safetensors" "$out/$file-latents.safetensors"
done
check "frames are converted to the range of the network" 0 "$tool" \
    compare --max-abs 1e-5 --tensor latent \
    "$out/black0-latents.safetensors" "$out/black8-latents.safetensors"

finish

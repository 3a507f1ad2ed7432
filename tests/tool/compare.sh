#!/bin/sh
# Tests vaetool compare, and layouts of latents.
# usage: compare.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

latents=$data/wan21/decode_t2_6x10.safetensors

# bytes FILE FROM COUNT: prints bytes of a file.
bytes() {
    tail -c "+$(($2 + 1))" "$1" | head -c "$3"
}

echo "# layouts"
# Makes 2 latents of 16 channels, once as [C,T,h,w] and once as [T,C,h,w].
check "encode the latents of the layouts" 0 encode --tensor frames "$latents" \
    cthw.safetensors
plane=$((6 * 10 * 4))
begin=$(($(wc -c <cthw.safetensors) - 3 * 32 * plane))
for t in 0 1; do
    for c in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        bytes cthw.safetensors $((begin + (c * 2 + t) * plane)) $plane
    done
done >tchw
tensor tchw.safetensors latent F32 2,16,6,10 '{"vae.layout":"tchw"}' <tchw
tensor plain.safetensors latent F32 2,16,6,10 <tchw
check "the same latents in two layouts" 0 compare --max-abs 0 cthw.safetensors \
    tchw.safetensors
says "latent 16x2x6x10 max 0"
check "the two layouts in the other order" 0 compare --max-abs 0 \
    tchw.safetensors cthw.safetensors
check "no layout is stated" 0 compare --max-abs 0 plain.safetensors \
    tchw.safetensors
head -c $((16 * 16 * 2 * 3 * 4)) tchw >square
tensor square.safetensors latent F32 16,16,2,3 '{"vae.layout":"tchw"}' <square
tensor square2.safetensors latent F32 16,16,2,3 '{"vae.layout":"cthw"}' <square
check "info of latents whose layout is stated" 0 info square2.safetensors
says "16 channels" "3x2"
says_not "video: tensor"
check "equal bytes in other layouts" 1 compare --max-abs 0 square.safetensors \
    square2.safetensors
check "equal bytes and layouts" 0 compare --max-abs 0 square.safetensors \
    square.safetensors
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    printf '\0\0\200\77\0\0\0\100' >&3
    printf '\0\0\0\0\0\0\360\77\0\0\0\0\0\0\0\100' >&4
done 3>floats 4>doubles
tensor single.safetensors latent F32 16,1,1,2 '{"vae.layout":"cthw"}' <floats
tensor double.safetensors latent F64 1,16,1,2 '{"vae.layout":"tchw"}' <doubles
check "float64 whose layout is stated" 0 compare --max-abs 0 single.safetensors \
    double.safetensors
says "float64 is compared as float32"
check "the type of the file" 0 info double.safetensors
says "float64, 1 latent of 16 channels"
{
    head -c 120 doubles
    printf '\0\0\0\0\0\0\360\176'
    head -c 128 doubles
} | tensor large.safetensors latent F64 1,16,1,2 '{"vae.layout":"tchw"}'
check "float64 that is too large" 0 decode large.safetensors large.npy
says 'warning: large.safetensors: tensor "latent": 1 value of the latents is' \
    "not finite, or too large for float32"
tensor image.safetensors latent F32 1,4,2,4 <floats
check "an image of 4 channels" 0 info image.safetensors
says "1 latent of 4 channels, 4x2"
says_not "1 channel,"
says "layout tchw (not stated; cthw would be 4 latents of 1 channel)"
check "a layout that is stated" 0 info square2.safetensors
says "layout cthw"
says_not "layout cthw (not stated"
check "in JSON" 0 info --json square2.safetensors
says '"layout": "cthw"' '"layout_stated": true'
check "a square without a layout" 0 info --json --layout auto plain.safetensors
says '"layout": "tchw"' '"layout_stated": false'
head -c $((16 * 4 * 8)) square >four
tensor four.safetensors latent F32 16,4,2,1 <four
check "the channels of the latent space tell it" 0 info --latent-space sd four.safetensors
says "16 latents of 4 channels" "layout tchw"
head -c $((16 * 16 * 4)) square | tensor square3.safetensors latent F32 16,16,1,1
check "a guess" 0 decode square3.safetensors guessed.npy
says "square3.safetensors" "cthw, 16 latents of 16 channels, is a guess: set layout to"
check "no guess" 0 decode --layout cthw square3.safetensors guessed.npy
says_not "guess"
head -c $((16 * 3 * 8)) square | tensor batch3.safetensors latent F32 1,3,16,2,1
check "all letters of a layout" 0 info --layout btchw batch3.safetensors
says "3 latents of 16 channels"
check "an option states it" 0 info --json --layout cthw plain.safetensors
says '"layout": "cthw"' '"layout_stated": true' '"channels": 2'
for shape in 2,3,16,40 1,2,16,40,3 2,16,40,3,1; do
    head -c 15360 "$wan" | tensor odd.safetensors frames F32 $shape
    check "frames in the wrong shape $shape" 3 info odd.safetensors
    says "no latent tensor (looks like frames)"
done
check "what is not stated" 0 info --json image.safetensors
says_not framerate video_width video_height frames

echo "# other names of latents"
tensor comfyui.latent latent_tensor F32 1,2,16,6,10 <tchw
tensor marked.latent latent_tensor F32 1,2,16,6,10 \
    '{"latent_format_version_0":""}' <tchw
check "info of a .latent file" 0 info marked.latent
usual="not stated, but usual in files of ComfyUI"
says "latent space not stated, comfyui ($usual)"
check "info with its space" 0 info --latent-space wan2.1 marked.latent
says "latent space wan2.1, raw ($usual)"
check "info with an unknown space" 0 info --latent-space foo marked.latent
says "latent space foo, which is not known (vaetool info --spaces lists all), "
check "no layout for a .latent file" 1 compare --max-abs 0 cthw.safetensors \
    comfyui.latent
says "latent and latent_tensor DIFFERENT SHAPES"
check "a layout for the file that states none" 0 compare --max-abs 0 \
    --layout tchw comfyui.latent cthw.safetensors
says "latent_tensor and latent 16x2x6x10 max 0"
check "latents for ComfyUI" 0 encode --tensor frames "$latents" cthw.latent
check "another scale" 0 compare --max-abs 1e-5 cthw.safetensors cthw.latent
says "latent and latent_tensor 16x2x6x10" \
    "normalized in cthw.safetensors and raw in cthw.latent, and are compared as"
check "in the other order" 0 compare --max-abs 1e-5 cthw.latent cthw.safetensors
check "the same as npy" 0 encode --tensor frames "$latents" cthw.npy
check "  is normalized" 0 compare --max-abs 1e-5 cthw.latent cthw.npy
says "raw in cthw.latent and normalized in cthw.npy (not stated), and are compared as norm"
for space in wan2.1 ltx2; do
    tensor "$space.latent" latent_tensor F32 1,16,2,6,10 \
        "{\"latent_format_version_0\":\"\",\"vae.latent_space\":\"$space\"}" <tchw
done
for pair in "wan2.1 raw" "ltx2 normalized"; do
    tensor other.safetensors latent F32 16,2,6,10 \
        "{\"vae.normalization\":\"${pair#* }\"}" <tchw
    check "what ComfyUI means by $pair" 0 compare --max-abs 0 \
        "${pair% *}.latent" other.safetensors
    says_not "SCALES" "compared as"
done
tensor other.safetensors latent F32 16,2,6,10 '{"vae.normalization":"raw"}' <tchw
check "scales of a space whose weights have the statistics" 1 compare \
    ltx2.latent other.safetensors
says "DIFFERENT SCALES: the latents are normalized in ltx2.latent ($usual) and raw in" \
    "decode both to compare them"

tensor named.safetensors samples F32 16,2,6,10 '{"vae.normalization":"raw"}' <tchw
check "latents of two other names" 0 compare --max-abs 0 named.safetensors \
    other.safetensors
says "samples and latent 16x2x6x10 max 0"

tensor unstated.safetensors latent F32 16,2,6,10 {} <tchw
check "without a statement, and statistics" 0 compare --max-abs 0 \
    unstated.safetensors other.safetensors
says "normalized in unstated.safetensors (not stated) and raw in other.safetensors, and" \
    "are compared as they are"
check "no statement in either, one of ComfyUI" 0 compare wan2.1.latent \
    unstated.safetensors
says "raw in wan2.1.latent ($usual) and normalized in unstated.safetensors (not stated), and"
check "two files of ComfyUI" 0 compare --max-abs 0 cthw.latent cthw.latent
says "latent_tensor 16x2x6x10 max 0 at [0,0,0,0]" \
    "latent_format_version_0 0 without elements in both files"

echo "# compare has the options of reading"
{
    head -c $((32 * plane)) /dev/zero
    cat tchw
} | tensor clips.safetensors latent F32 2,2,16,6,10
for pair in "clips tchw" "tchw clips" "clips clips"; do
    check "one clip, $pair" 0 compare --layout tchw --batch-index 1 --max-abs 0 \
        "${pair% *}.safetensors" "${pair#* }.safetensors"
    says "latent 16x2x6x10 max 0"
done
check "a clip that no batch has" 3 compare --batch-index 2 clips.safetensors tchw.safetensors
says "holds a batch of 2, but the batch index is 2, expected 0 to 1"
check "a clip without a batch" 3 compare --batch-index 1 tchw.safetensors tchw.safetensors
says "has 4 dimensions, which are the latents of one clip or of several pictures"
tensor scaled.safetensors latent F32 16,2,6,10 '{"vae.normalization":"normalized"}' <tchw
check "a space and a normalization" 1 compare --latent-space wan2.1 --normalization raw \
    --max-abs 0 unstated.safetensors scaled.safetensors
says "raw in unstated.safetensors and normalized in scaled.safetensors, and are compared as norm"
check "both are raw" 0 compare --normalization raw --max-abs 0 unstated.safetensors \
    other.safetensors
says_not "compared as"
tensor ntsc.safetensors latent F32 2,16,6,10 '{"vae.framerate":"30000/1001"}' <tchw
check "a frame rate" 0 compare --framerate 24 tchw.safetensors \
    ntsc.safetensors
says "different frame rates: 24/1 in tchw.safetensors, 30000/1001 in ntsc.safetensors"

echo "# NaN"
numbers nan nan nan nan | tensor nan.safetensors x F32 4
numbers one nan two one | tensor some.safetensors x F32 4
numbers one two two one | tensor none.safetensors x F32 4
numbers nan one two one | tensor other.safetensors x F32 4
check "only NaN in both" 0 compare nan.safetensors nan.safetensors
says "PSNR none" "4 in A, 4 in B, 4 in both"
says_not "PSNR inf"
check "only NaN does not reach a PSNR" 1 compare --min-psnr 1 nan.safetensors \
    nan.safetensors
check "NaN in A" 1 compare some.safetensors none.safetensors
says "max inf at [1]" "1 in A, 0 in B" "NaN IN ONE FILE ONLY"
says_not "PSNR inf"
check "NaN in B" 1 compare none.safetensors nan.safetensors
says "0 in A, 4 in B"
says_not "PSNR inf"
check "NaN in both, at other places" 1 compare some.safetensors \
    other.safetensors
says "1 in A, 1 in B, 0 in both"
check "no NaN" 0 compare --min-psnr 300 none.safetensors none.safetensors
says "PSNR inf dB"
many 48 nan | tensor video.safetensors frames F32 1,4,4,3
check "only NaN does not reach an SSIM" 1 compare --min-ssim 0.1 \
    video.safetensors video.safetensors
says "PAST THE BOUND"

echo "# frames in bytes and in floats"
many 48 one | tensor ones.safetensors frames F32 1,4,4,3
filled 377 white.safetensors video_u8 U8 1,4,4,3
filled 0 black.safetensors video_u8 U8 1,4,4,3
for peak in 2 1; do
    check "white is 1, peak $peak" 0 compare --peak $peak --max-abs 0 \
        --min-ssim 1 ones.safetensors white.safetensors
    says "frames and video_u8 1x4x4x3 max 0 " "PSNR inf" "SSIM 1.0"
    check "black is $((1 - peak))" 0 compare --peak $peak black.safetensors \
        ones.safetensors
    says "video_u8 and frames 1x4x4x3 max $peak " "PSNR 0.00 dB (peak $peak"
done
check "the peak without --peak" 0 compare black.safetensors ones.safetensors
says "max 2 " "PSNR 0.00 dB (peak 2, clamped to -1..1"
check "a bound is exceeded" 1 compare --max-abs 1.9 black.safetensors \
    ones.safetensors
check "bytes with bytes" 0 compare black.safetensors white.safetensors
says "video_u8 1x4x4x3 max 255 " "peak 255"

# --peak 1 and --peak 2 name a range. Every other value is only a peak.
check "bytes, peak 1" 0 compare --peak 1 black.safetensors white.safetensors
says "max 1 " "PSNR 0.00 dB (peak 1, clamped to 0..1)"
check "bytes, peak 255" 0 compare --peak 255 black.safetensors white.safetensors
says "max 255 " "PSNR 0.00 dB (peak 255 as given)"
for range in '0 1' '-1 1' '0 4'; do
    many 48 one | tensor said.safetensors frames F32 1,4,4,3 \
        "{\"vae.pixel_range\":\"$range\"}"
    # The range of the floats decides, not the one that the file of bytes states.
    filled 0 black8.safetensors video_u8 U8 1,4,4,3 '{"vae.pixel_range":"-4 4"}'
    for pair in "said black8" "black8 said"; do
        black=${range% *}
        white=${range#* }
        check "$pair, $range" 0 compare "${pair% *}.safetensors" \
            "${pair#* }.safetensors"
        says "max $((1 - black)) " \
            "(peak $((white - black)), clamped to $black..$white)"
        check "$pair, $range, peak 8" 0 compare --peak 8 \
            "${pair% *}.safetensors" "${pair#* }.safetensors"
        says "max $((1 - black)) " "(peak 8 as given)"
    done
done
for file in black white; do
    value=0
    [ $file = black ] || value=377
    filled $value "frames-$file.safetensors" frames U8 1,4,4,3 \
        "{\"vae.pixel_range\":\"0 1$value\"}"
done
check "frames in bytes ignore a stated range" 0 compare \
    frames-black.safetensors frames-white.safetensors
says "max 255 " "PSNR 0.00 dB (peak 255)"

echo "# npy files, whose tensor has no name"
numbers one two one one | npy bare.npy "1, 2, 1, 2"
numbers one one two one | tensor named.safetensors latents F32 2,1,1,2 \
    '{"vae.layout":"tchw"}'
numbers one two two one | npy other.npy "1, 2, 1, 2"
check "npy and a named tensor" 0 compare bare.npy named.safetensors
says "npy and latents 1x2x1x2 max 1 at [0,0,0,1]"
check "the two files in the other order" 0 compare named.safetensors bare.npy
says "latents and npy 1x2x1x2 max 1 at [0,0,0,1]"
many 16 one two | npy batch.npy "1, 16, 1, 1, 2"
many 32 one | tensor clip.safetensors latents F32 16,1,1,2
check "a batch of one, and no batch" 0 compare batch.npy clip.safetensors
says "npy and latents 16x1x1x2 max 1 at [0,0,0,1]"
check "two npy files" 0 compare --max-abs 1 bare.npy other.npy
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
{ ppm 2 100; ppm 1 0; } >a.ppm
{ ppm 1 104; ppm 2 0; } >b.ppm
{ head -c 90 /dev/zero | tr '\0' '\100'; head -c 45 /dev/zero; } |
    tensor a.safetensors video_u8 U8 3,3,5,3
{ head -c 45 /dev/zero | tr '\0' '\104'; head -c 90 /dev/zero; } |
    tensor b.safetensors video_u8 U8 3,3,5,3
check "the pictures as a tensor" 0 compare --min-ssim 0 a.safetensors \
    b.safetensors
psnr=$(sed -n 's/.* PSNR \([0-9.]*\) dB.*/\1/p' log)
ssim=$(sed -n 's/.* SSIM \([0-9.]*\).*/\1/p' log)
check "the pictures as a stream" 0 compare --stream a.ppm b.ppm
says "frame 0 PSNR 36.09 dB" "frame 2 PSNR inf dB SSIM 1.000000" \
    "3 frames: PSNR $psnr dB, 12.01 dB at least; SSIM $ssim on average"
mkfifo a.fifo b.fifo
cat a.ppm >a.fifo &
cat b.ppm >b.fifo &
check "the pictures from named pipes" 0 compare --stream a.fifo b.fifo
says "3 frames: PSNR $psnr dB"
wait
mkfifo twice
check "a pipe is named twice" 3 compare --stream twice ./twice
says "twice is named twice, and is no regular file"
rm twice
check "no bound below 0" 2 compare --max-abs=-1 a.ppm b.ppm
says "--max-abs"
check "a bound is exceeded" 1 compare --stream --min-psnr 40 a.ppm b.ppm
says "PAST THE BOUND"
check "a bound is met" 0 compare --stream --min-ssim 0.9 a.ppm a.ppm
says "3 frames: PSNR inf dB"
ppm 2 1 >short.ppm
check "one stream is shorter" 3 compare --stream a.ppm short.ppm
says "short.ppm ends after 2 pictures" "a.ppm goes on"
head -c 100 a.ppm >cut.ppm
check "a picture is incomplete" 3 compare --stream a.ppm cut.ppm
says "cut.ppm: picture 1 is cut short"
printf 'P6 3 5 255\n%45s' x >turned.ppm
check "pictures of another size" 3 compare --stream a.ppm turned.ppm
says "picture 0 is 5x3 in" "3x5 in"
for header in 'P5 5 3 255' 'P6 5 3 65535' 'P6 0 3 255' 'P6 5 70000 255' \
    'P6 5 -3 255' 'P6 5'; do
    printf '%s\n%90s' "$header" x >other.ppm
    check "$header" 3 compare --stream a.ppm other.ppm
    says "other.ppm: picture 0 " "expected a binary PPM (P6) of 8 bits"
done
: >empty.ppm
check "empty streams" 3 compare --stream empty.ppm empty.ppm
says "hold no pictures"
check "no such stream" 3 compare --stream none a.ppm
says "none: cannot open"
check "an option for tensors" 2 compare --stream --max-abs 1 a.ppm a.ppm
says "--min-psnr and --min-ssim only"

finish

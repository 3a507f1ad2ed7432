#!/bin/sh
# Measures the quality of the demo model: encodes each clip to a file of fp16
# latents, decodes this file to 8-bit frames with the model and with its tiny
# decoder, and compares them with the scaled original. Prints a line per clip,
# size and decoder.
#
#   sh pipelines/demo/quality.sh CLIP...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
pipelines=$(dirname "$here")
. "$pipelines/env.sh"

case ${1:-} in
'' | -*)
    echo "usage: ${0##*/} CLIP..." >&2
    exit 2
    ;;
esac
need_elements vaeencode vaedecode latentmux latentdemux
tmp=$(mktemp -d)

# measure CLIP WIDTH HEIGHT FRAMES
measure() {
    gst-launch-1.0 -q filesrc "$(location "$1")" ! decodebin ! videoconvert ! \
        videoscale method=lanczos add-borders=false ! \
        "video/x-raw,format=RGB,width=$2,height=$3" ! \
        filesink "$(location "$tmp/all.rgb")"
    head -c $(($2 * $3 * 3 * $4)) "$tmp/all.rgb" >"$tmp/in.rgb"
    gst-launch-1.0 -q filesrc "$(location "$tmp/in.rgb")" ! \
        rawvideoparse format=rgb width="$2" height="$3" framerate=16/1 ! \
        vaeencode ! "$demo_caps,type=float16" ! latentmux ! \
        filesink "$(location "$tmp/latents.safetensors")"
    rgb_to_safetensors "$tmp/in.rgb" "$2" "$3" "$tmp/in.safetensors"
    printf '%s, first %d frames at %dx%d:\n' "$(basename "$1")" "$4" "$2" "$3"
    for model in demo demo-tiny; do
        gst-launch-1.0 -q filesrc "$(location "$tmp/latents.safetensors")" ! \
            latentdemux ! vaedecode precision=fp32 \
            "model=$(quoted "$pipelines/demo/$model.safetensors")" ! \
            video/x-raw,format=RGB ! filesink "$(location "$tmp/out.rgb")"
        rgb_to_safetensors "$tmp/out.rgb" "$2" "$3" "$tmp/out.safetensors"
        printf '  %-10s' $model
        vaetool compare "$tmp/in.safetensors" "$tmp/out.safetensors"
    done
}

for clip; do
    need_file "$clip"
    measure "$clip" 320 192 17
    measure "$clip" 416 240 33
    measure "$clip" 832 480 33
done

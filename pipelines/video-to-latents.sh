#!/bin/sh
# Encodes a video file to a file of latents.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"

usage() {
    cat <<'EOF'
usage: video-to-latents.sh [--model WEIGHTS] [--size WxH] VIDEO OUT

VIDEO  any video that GStreamer can decode
OUT    the latents, a .safetensors file

  --model WEIGHTS   the VAE to encode with, a .safetensors file; without it
                    the bundled demo model
  --size WxH        scales the video first
EOF
}

model=
size=
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --model)
        has_value "$@"
        need_file "$2"
        model=$2
        shift 2
        ;;
    --size)
        has_value "$@"
        size=$2
        shift 2
        ;;
    -*) die "unknown option $1; see --help" ;;
    *) break ;;
    esac
done
if [ $# != 2 ]; then
    usage >&2
    exit 2
fi
video=$1
out=$2
need_file "$video"

caps=video/x-raw
if [ -n "$size" ]; then
    case $size in
    *[!0-9x]* | x* | *x | *x*x*) die "--size $size: wanted is WxH, as 832x480" ;;
    *x*) caps="video/x-raw,width=${size%x*},height=${size#*x}" ;;
    *) die "--size $size: wanted is WxH, as 832x480" ;;
    esac
fi
need_elements vaeencode latentmux decodebin

gst-launch-1.0 -q filesrc "$(location "$video")" ! \
    decodebin caps=video/x-raw expose-all-streams=false ! videoconvert ! \
    videoscale ! "$caps" ! \
    vaeencode ${model:+"model=$(quoted "$model")"} ! latentmux ! \
    filesink "$(location "$out")"

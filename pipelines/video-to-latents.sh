#!/bin/sh
# Encodes a video file to a file of latents.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034 # read by env.sh
options='model latent-space variant framerate' network=vaeencode

usage() {
    cat <<'EOF'
usage: video-to-latents.sh [OPTION...] VIDEO OUT

VIDEO  any video that GStreamer can decode; each two fields of interlaced video
       become one frame
OUT    the latents, a .safetensors file

  --model WEIGHTS      the VAE to encode with: a file of weights or a diffusers
                       folder
  --latent-space NAME  instead of --model: uses the installed model of this
                       space, such as wan2.1; default: the bundled demo model, if
                       no other is installed
  --variant NAME       network of the WEIGHTS, if their shapes fit several
  --size WxH           scales the video first; each side is 1 to 65535
  --framerate RATE     repeats or drops frames first, so that the video has this
                       constant frame rate, such as 24 or 30000/1001
  --normalization N    of the latents: normalized (default), raw or comfyui
  --dtype TYPE         of the latents: f32 (default), f16 or bf16
EOF
    settings_usage
    cat <<'EOF'

Prints the model, the latents and the size of OUT on stderr.
EOF
}

model=
space=
rate=
latents=video/x-vae-latent
caps=video/x-raw
while [ $# -gt 0 ]; do
    case $1 in
    --framerate)
        [ $# = 1 ] || need_rate "$2"
        has_value "$@"
        rate=$2
        ;;
    --normalization)
        need_word normalized raw comfyui "$@"
        latents=$latents,normalization=$2
        ;;
    --dtype)
        need_word f32 f16 bf16 "$@"
        latents=$latents,type=${2%f*}float${2#*f}
        ;;
    --size)
        take_size "$@"
        caps=video/x-raw,width=$width,height=$height
        ;;
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"
if [ $# != 2 ]; then
    usage >&2
    exit 2
fi
video=$1
out=$2
need_file "$video"
case $out in
*.safetensors) ;;
*) die "$out: the name must end in .safetensors" ;;
esac

one_model
need_elements vaeencode latentmux decodebin deinterlace

# decodebin would decode a file of latents, and the result would be a copy with
# losses.
case $(gst-typefind-1.0 "$video" 2>/dev/null || true) in
*application/x-safetensors* | *application/x-npy*)
    die "$video: holds tensors, not a video; latents-to-video.sh decodes" \
        'latents'
    ;;
*image/gif*)
    die "$video: is a GIF, which GStreamer decodes without an end: convert it" \
        'first, such as by ffmpeg -i in.gif out.mp4'
    ;;
esac

latents=$latents${space:+,latent-space=$(quoted "$space")}
write_to "$out" "$video"
decoded_of "$video"
# shellcheck disable=SC2086 # words, or nothing
play filesrc "$(location "$video")" ! $decoded ! videoscale ! "$caps" ! \
    ${rate:+videorate ! "video/x-raw,framerate=(fraction)$rate" !} \
    vaeencode $settings $variant ${model:+"model=$(quoted "$model")"} ! "$latents" ! \
    latentmux ! filesink "$(location "$part")"
wrote "$out"
if command -v vaetool >/dev/null; then
    vaetool info "$out" | sed -n 's/^  latent space \([^,]*\).*/\1/p' |
        while read -r space; do
            echo "${0##*/}: latents of the space $space, for models of that" \
                'space only' >&2
        done
fi

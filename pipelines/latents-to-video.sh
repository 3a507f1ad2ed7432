#!/bin/sh
# Decodes a file of latents to a video file.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034,SC2154 # read by env.sh, set by it
options="model $reading"

usage() {
    cat <<'EOF'
usage: latents-to-video.sh [OPTION...] [LATENTS] OUT

LATENTS  a file of latents: .safetensors, .latent of ComfyUI, .npy, or a tensor
         saved by PyTorch (.pt); default: the bundled demo latents
OUT      .webm (VP8), .mp4 (H.264) or .y4m (not compressed; the width must be
         a multiple of 8)

  --model WEIGHTS      the VAE to decode with: a file of weights or a diffusers
                       folder; default: the installed model of the latent space
EOF
    reading_usage
    cat <<'EOF'

The script turns the pictures if the latents state an orientation. It prints the
model and the size of OUT on stderr.
EOF
}

model=
space=
while [ $# -gt 0 ]; do
    case $1 in
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"
take_clip "$@"

# even_size: prints an element that crops an odd size. H.264 has one colour for
# 2x2 pixels, and x264enc takes no odd sizes, so the last column or row is left
# out. See play() for why it may have to be ended.
even_size() {
    # shellcheck disable=SC2086 # properties
    timeout 10 gst-launch-1.0 -v filesrc "$(location "$latents")" ! \
        latentdemux $demux ! fakesink num-buffers=1 2>&1 | sed -n \
        's/.*, width=(int)\([0-9]*\), height=(int)\([0-9]*\).*/\1 \2/p' |
        head -n 1 | {
        read -r width height || exit 0
        [ $((width % 2 + height % 2)) != 0 ] || exit 0
        echo "${0##*/}: ${width}x$height is odd, which .mp4 cannot be:" \
            "$((width - width % 2))x$((height - height % 2))" >&2
        echo "videocrop right=$((width % 2)) bottom=$((height % 2)) !"
    }
}

case $out in
*.webm) set -- vp8enc deadline=1 cpu-used=4 target-bitrate=4000000 ! webmmux ;;
*.mp4) set -- x264enc ! h264parse ! mp4mux ;;
*.y4m) set -- y4menc ;;
*.safetensors | *.npy)
    die "$out: the name must end in .webm, .mp4 or .y4m; vaetool decode writes" \
        arrays
    ;;
*) die "$out: the name must end in .webm, .mp4 or .y4m" ;;
esac
need_elements latentdemux vaedecode videoflip "$1"
crop=
case $out in
*.mp4) crop=$(even_size) ;;
*.y4m) set -- videorate ! "$@" ;; # a .y4m has no times
esac

write_to "$out" "$latents"
# shellcheck disable=SC2086 # an element and its properties, or nothing
play filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} $demux ! \
    vaedecode ${model:+"model=$(quoted "$model")"} $settings $variant ! \
    video/x-raw,format=I420 ! $crop $upright ! "$@" ! \
    filesink "$(location "$part")"
case $out in
*.y4m) check_y4m "$part" ;;
esac
wrote "$out"

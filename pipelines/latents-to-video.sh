#!/bin/sh
# Decodes a file of latents to a video file.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"

usage() {
    cat <<'EOF'
usage: latents-to-video.sh [OPTION...] [LATENTS] OUT

LATENTS  a file of latents: .safetensors, .latent of ComfyUI, .npy, or a tensor
         saved by PyTorch (.pt); without it the bundled demo latents
OUT      .webm (VP8), .mp4 (H.264) or .y4m (not compressed)

  --model WEIGHTS      the VAE to decode with: a file of weights or a diffusers
                       folder; without it the installed model of the latent
                       space
  --latent-space NAME  of latents that do not state it, such as wan2.1

The model and the size of OUT are told on stderr.
EOF
}

model=
space=
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --model)
        has_value "$@"
        need_model "$2"
        model=$2
        shift 2
        ;;
    --latent-space)
        has_value "$@"
        space=$2
        shift 2
        ;;
    -*) die "unknown option $1; see --help" ;;
    *) break ;;
    esac
done
case $# in
1) latents=$demo_latents out=$1 ;;
2) latents=$1 out=$2 ;;
*)
    usage >&2
    exit 2
    ;;
esac
need_file "$latents"

case $out in
*.webm) set -- vp8enc deadline=1 cpu-used=4 target-bitrate=4000000 ! webmmux ;;
*.mp4) set -- x264enc ! h264parse ! mp4mux ;;
*.y4m) set -- y4menc ;;
*) die "$out: the name must end in .webm, .mp4 or .y4m" ;;
esac
need_elements latentdemux vaedecode "$1"

write_to "$out"
play filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} ! \
    vaedecode ${model:+"model=$(quoted "$model")"} ! videoconvert ! "$@" ! \
    filesink "$(location "$part")"
case $out in
*.y4m) check_y4m "$part" ;;
esac
wrote "$out"

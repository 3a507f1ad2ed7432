#!/bin/sh
# One stream of latents, decoded twice: tells while it runs how alike the two
# pictures are, frame by frame.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034 # read by play
options='model other latent-space'

usage() {
    cat <<'EOF'
usage: compare-live.sh [OPTION...] [LATENTS]

LATENTS  a file of latents; without it the bundled demo latents

  --model WEIGHTS    the VAE; without it the installed model of the latent space
  --other WEIGHTS    the one beside it, of the same latent space; without it the
                     same, or for the demo latents the demo model's tiny
                     companion
  --precision P      of the VAE: fp32, bf16, ...; without it, as vaedecode does
  --other-precision P
  --latent-space S   of the latents, where their file does not say it

Prints a line for each frame as it comes, with PSNR (inf for the same picture)
and SSIM (1 for the same), and at the end those of all frames, and the least.
EOF
}

model=
other=
precision=auto
other_precision=auto
space=
while [ $# -gt 0 ]; do
    case $1 in
    --other)
        has_value "$@"
        need_model "$2"
        other=$2
        ;;
    --precision | --other-precision)
        has_value "$@"
        if [ "$1" = --precision ]; then
            precision=$2
        else
            other_precision=$2
        fi
        ;;
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"
case $# in
0)
    latents=$demo_latents
    if [ -z "$model$other" ] && [ "$precision" = "$other_precision" ]; then
        other=$pipelines/demo/demo-tiny.safetensors
    fi
    ;;
1) latents=$1 ;;
*)
    usage >&2
    exit 2
    ;;
esac
[ -n "$other" ] || other=$model
need_file "$latents"
need_elements latentdemux vaedecode
gst-inspect-1.0 --exists --atleast-version=0.0 pnmenc ||
    die 'pnmenc is missing: install gstreamer1.0-plugins-bad'
need_vaetool

# Both sides open the pipes in one order. The queues in front of the decoders
# hold all latents that wait, so that neither decoder waits for the other.
tmp=$(mktemp -d)
mkfifo "$tmp/model" "$tmp/other"
wait='max-size-buffers=0 max-size-bytes=0 max-size-time=0'
vaetool compare --stream "$tmp/model" "$tmp/other" 2>"$tmp/errors" &
compare=$!
# shellcheck disable=SC2086 # elements and their properties
play filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} ! \
    tee name=latents \
    latents. ! queue $wait ! vaedecode precision="$precision" \
    ${model:+"model=$(quoted "$model")"} ! video/x-raw,format=RGB ! \
    pnmenc ! fdsink fd=3 \
    latents. ! queue $wait ! vaedecode precision="$other_precision" \
    ${other:+"model=$(quoted "$other")"} ! video/x-raw,format=RGB ! \
    pnmenc ! fdsink fd=4 3>"$tmp/model" 4>"$tmp/other" || {
    kill "$compare"
    exit 1
}
wait "$compare" || {
    cat "$tmp/errors" >&2
    exit 1
}

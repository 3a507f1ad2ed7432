#!/bin/sh
# One stream of latents, decoded twice: tells while it runs how alike the two
# pictures are, frame by frame.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"

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

Prints a line for each frame with its SSIM, 1 for the same picture, and at the
end the mean and the least. PSNR and the largest difference: vaetool compare.
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
gst-inspect-1.0 --exists --atleast-version=0.0 compare ||
    die 'compare is missing: install gstreamer1.0-plugins-bad'

tmp=$(mktemp -d)
mkfifo "$tmp/said"
wait='max-size-buffers=0 max-size-bytes=0 max-size-time=0'
# A frame whose SSIM is less than the threshold is told, so all of them.
# shellcheck disable=SC2086 # elements and their properties
gst-launch-1.0 -m filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} ! \
    tee name=latents \
    latents. ! queue $wait ! vaedecode precision="$precision" \
    ${model:+"model=$(quoted "$model")"} ! video/x-raw,format=I420 ! ssim.sink \
    latents. ! queue $wait ! vaedecode precision="$other_precision" \
    ${other:+"model=$(quoted "$other")"} ! video/x-raw,format=I420 ! \
    ssim.check \
    compare name=ssim method=ssim meta=none threshold=2 upper=false ! \
    fakesink >"$tmp/said" 2>"$tmp/errors" &
launch=$!
awk '
    /\(element\): delta, content=\(double\)/ {
        sub(/.*content=\(double\)/, "")
        value = $0 + 0
        printf "frame %d SSIM %.4f\n", frames, value
        fflush()
        sum += value
        if (!frames++ || value < least)
            least = value
    }
    END {
        if (frames)
            printf "%d frames: SSIM %.4f on average, %.4f at least\n",
                frames, sum / frames, least
    }' <"$tmp/said"
wait "$launch" || {
    launch=
    grep '^ERROR' "$tmp/errors" >&2 || cat "$tmp/errors" >&2
    die 'the pipeline failed'
}
launch=

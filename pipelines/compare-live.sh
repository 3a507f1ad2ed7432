#!/bin/sh
# Decodes one stream of latents twice, and prints for each frame how similar the
# two pictures are, while it runs.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034,SC2154 # read by env.sh, set by it
options="model $reading other"

usage() {
    cat <<'EOF'
usage: compare-live.sh [OPTION...] [LATENTS]

LATENTS  a file of latents; default: the bundled demo latents

  --model WEIGHTS      the first VAE; default: the installed model of the latent
                       space
  --other WEIGHTS      the second VAE, of the same latent space; default: the
                       first one, or for the demo latents the demo model's tiny
                       decoder
  --precision P        precision of the first VAE: fp32, bf16, ...; default: auto
  --other-precision P  precision of the second VAE; default: auto
EOF
    reading_usage
    cat <<'EOF'

Prints a line for each frame as it arrives, with PSNR (inf for equal pictures)
and SSIM (1 for equal pictures). The last line has PSNR and SSIM of all frames
together, and the lowest of a frame.
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
if [ "$precision" = "$other_precision" ] &&
    same_model "${other:-/dev/null}" "${model:-/dev/null}"; then
    echo "${0##*/}: both sides have the same model and precision: set --other" \
        'WEIGHTS or --other-precision P to compare two' >&2
fi
need_file "$latents"
need_elements latentdemux vaedecode
# An error of gst-launch-1.0 would not say which of both options is meant.
precisions=$(gst-inspect-1.0 vaedecode |
    sed -n '/^  precision /,/^  [a-z]/s/^ *([0-9]*): \([^ ]*\) .*/\1/p' | tr '\n' ' ')
while read -r option value; do
    case " $precisions" in
    *" $value "*) ;;
    *) die "$option $value: expected one of: ${precisions% }" ;;
    esac
done <<END
--precision $precision
--other-precision $other_precision
END
gst-inspect-1.0 --exists --atleast-version=0.0 pnmenc ||
    die 'pnmenc is missing: install gstreamer1.0-plugins-bad'
need_vaetool

# tell_compare: prints the errors of vaetool. It names pictures by their pipes.
tell_compare() {
    sed "s/^vaetool: picture .* is \([0-9x]*\) in .*, \([0-9x]*\) in .*/${0##*/}:\
 pictures of \1 by --model and \2 by --other cannot be compared/" \
        "$tmp/errors" >&2
}

# Both sides open the pipes in the same order. The queues in front of the
# decoders hold all waiting latents, so that neither decoder waits for the
# other.
tmp=$(new_folder)
mkfifo "$tmp/model" "$tmp/other"
wait='max-size-buffers=0 max-size-bytes=0 max-size-time=0'
vaetool compare --stream "$tmp/model" "$tmp/other" 2>"$tmp/errors" &
compare=$!
# shellcheck disable=SC2086 # elements and their properties
play filesrc "$(location "$latents")" ! \
    latentdemux ${space:+"latent-space=$(quoted "$space")"} $demux ! \
    tee name=latents \
    latents. ! queue $wait ! vaedecode precision="$precision" \
    $settings $variant ${model:+"model=$(quoted "$model")"} ! video/x-raw,format=RGB ! \
    pnmenc ! fdsink fd=3 \
    latents. ! queue $wait ! vaedecode precision="$other_precision" \
    $settings ${other:+"model=$(quoted "$other")"} ! video/x-raw,format=RGB ! \
    pnmenc ! fdsink fd=4 3>"$tmp/model" 4>"$tmp/other" || {
    # Without an error of its own, the pipeline ended because vaetool did.
    # shellcheck disable=SC2154 # play sets it
    [ -z "$doomed" ] || kill "$compare" 2>/dev/null || true
    wait "$compare" 2>/dev/null || [ -n "$doomed" ] || tell_compare
    exit 1
}
wait "$compare" || {
    tell_compare
    exit 1
}

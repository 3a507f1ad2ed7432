#!/bin/sh
# Compares released weights with the code that they were published with, on the
# user's machine. No test run needs it, and it downloads nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)

usage() {
    cat <<'EOF'
usage: WEIGHTS=FOLDER [NAME=VALUE...] tests/official/run.sh

Encodes and decodes the same clip and latents with the official code and with
this project, at every precision of this machine, for every file of weights in
the folder WEIGHTS that vaetool recognises. Prints a line for each run; writes
report.json and a picture for each file, and nothing else. Exit status: 0 if all
agree, 1 if a run exceeds its bound, 2 for wrong usage, 77 if nothing was checked
because Python 3, numpy, files or official code are missing.

  WEIGHTS   folder of released files (.ckpt, .pth, .pt, .safetensors), searched
            with its subfolders
  OFFICIAL  folder with checkouts of Wan-Video/Wan2.1, Wan-Video/Wan2.2,
            ByteDance-Seed/SeedVR, Lightricks/LTX-2 (also for single files),
            SandAI-org/MAGI-2-preview (with its JSON file beside the weights),
            madebyollin/taehv and madebyollin/taesd (tiny networks of images),
            or of some of them; needs PyTorch, for Wan einops, for SeedVR
            diffusers, for MAGI-2 both, for LTX-2 the packages that the code
            imports. For weights with the config.json
            of diffusers' class beside them (LTX-2, HunyuanVideo, Wan, FLUX.2
            and others), PyTorch and diffusers are enough. A line for each file
            says what is missing
  GOLDEN    folder of stored results of official code; used for weights of the
            same fingerprint if the code itself cannot run
  OUT       folder for the results; default: official-report
  CLIP      a video that GStreamer can decode; default: a moving test picture
  SIZE      multiples of 32; default: 416x256
  FRAMES    default: 17; cut to a length that fits all networks
  THREADS   default: all processors
  DEVICE    cpu, or cuda for the official code as well
  PYTHON    the Python with numpy and PyTorch; default: python3
  VAETOOL   default: that of build/, else that of PATH
EOF
}

die() {
    echo "${0##*/}: $*" >&2
    exit 2
}

case ${1:-} in
--help | -h)
    usage
    exit 0
    ;;
?*) die "unknown argument $1; see --help" ;;
esac
[ -n "${WEIGHTS:-}" ] || die 'WEIGHTS=FOLDER is missing; see --help'
[ -d "$WEIGHTS" ] || die "WEIGHTS=$WEIGHTS: no such folder"
[ -z "${OFFICIAL:-}" ] || [ -d "$OFFICIAL" ] ||
    die "OFFICIAL=$OFFICIAL: no such folder"

PYTHON=${PYTHON:-python3}
if ! "$PYTHON" -c 'import numpy' 2>/dev/null; then
    echo "skipped: $PYTHON has no numpy (Debian: python3-numpy)"
    exit 77
fi
if [ -z "${VAETOOL:-}" ]; then
    VAETOOL=$top/build/engine/vaetool
    [ -x "$VAETOOL" ] || VAETOOL=$(command -v vaetool) ||
        die 'vaetool is missing: "meson setup build && meson compile -C build"'
fi

OUT=${OUT:-official-report}
mkdir -p "$OUT"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

size=${SIZE:-416x256}
frames=${FRAMES:-17}
width=${size%%x*}
height=${size#"$width"}
for number in "$width" "${height#x}" "$frames"; do
    case $number in
    '' | 0* | *[!0-9]*)
        die "SIZE=$size, FRAMES=$frames: expected WxH and a number"
        ;;
    esac
done
height=${height#x}
[ $((width % 32)) = 0 ] && [ $((height % 32)) = 0 ] ||
    die "SIZE=$size: expected multiples of 32"

# Packed RGB, so that the Python code needs no video decoder.
if [ -n "${CLIP:-}" ]; then
    [ -f "$CLIP" ] || die "CLIP=$CLIP: no such file"
    pipelines=$top/pipelines
    . "$pipelines/env.sh"
    # shellcheck disable=SC2086,SC2154 # words of env.sh
    play filesrc "$(location "$CLIP")" ! $decoded ! videoscale ! \
        "video/x-raw,format=RGB,width=$width,height=$height" ! \
        identity eos-after="$((frames + 1))" ! filesink "$(location "$tmp/clip.rgb")"
fi

code=0
"$PYTHON" "$here/official.py" --vaetool "$VAETOOL" --weights "$WEIGHTS" \
    --official "${OFFICIAL:-}" --golden "${GOLDEN:-}" --out "$OUT" \
    --work "$tmp" --size "$size" --frames "$frames" \
    --threads "${THREADS:-$(nproc)}" --device "${DEVICE:-cpu}" || code=$?
exit $code

#!/bin/sh
# Builds gst-vae on a machine with an NVIDIA GPU, tests and measures it there,
# and writes what it found; `sh tests/gpu/run.sh --help` tells the options.
#
# Exit status: 0 nothing failed, 1 something did, 2 wrong usage, 77 there is no
# GPU here; 130 or 143 where it was interrupted or told to end.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "gpu: $python is not there; it is needed, as Meson needs it" >&2
    exit 2
}
exec "$python" -B "$here/gpu.py" "$@"

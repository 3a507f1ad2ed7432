#!/bin/sh
# Builds the plugin with GstTensorMeta in build-tensors, and runs the tests of
# latents in buffers and files. Installs the missing packages. Exit status 77:
# GStreamer is older than 1.26.
#
# usage: tensors.sh
set -eu
cd "$(dirname "$0")/.."
sh tests/deps.sh page
pkg-config --exists 'gstreamer-1.0 >= 1.26' || {
    echo 'tensors: skipped: GStreamer is older than 1.26'
    exit 77
}
headers=$(sh tests/gst_cuda.sh build-gst-cuda)
export PKG_CONFIG_PATH="${headers:+$headers:}${PKG_CONFIG_PATH:-}"
[ -f build-tensors/build.ninja ] ||
    meson setup build-tensors --buildtype=debugoptimized -Dwerror=true \
        -Dcuda=disabled -Dgst-cuda=disabled -Dgst-analytics=enabled
meson test -C build-tensors --print-errorlogs circles gst-inspect gst-metas \
    gst-tensormeta gst-tensors gst-latentdemux gst-latentmux gst-latentseek

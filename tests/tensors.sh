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
# The tests of two folders of tests/gst, and the order of the files.
names='circles gst-tensormeta gst-metas gst-tensors'
for test in tests/gst/latent/test_*.c; do
    names="$names gst-$(basename "${test#*test_}" .c)"
done
# shellcheck disable=SC2086 # a list of words
meson test -C build-tensors --print-errorlogs $names

#!/bin/sh
# Builds gst-validate from SOURCE, the sources of gst-devtools or a checkout of
# all of GStreamer, into FOLDER, and prints the folder for PATH. Debian has no
# package of it. Tried with 1.19.0.1 on GStreamer 1.22. Needs
# libjson-glib-dev. The script does nothing if gst-validate-1.0 is in PATH.
#
# usage: gst_validate.sh SOURCE FOLDER
set -eu
. "$(dirname "$0")/package/usage.sh"
command -v gst-validate-1.0 >/dev/null && exit 0
source=$1
if [ -d "$source/subprojects/gst-devtools" ]; then
    source=$source/subprojects/gst-devtools
fi
mkdir -p "$2"
folder=$(cd "$2" && pwd)
# Only part of it is exported by the sources of some releases.
CFLAGS=-fvisibility=default meson setup "$folder/build" "$source" \
    --prefix "$folder" --libdir lib \
    -Dc_link_args="-Wl,-rpath,$folder/lib" -Dvalidate=enabled \
    -Dintrospection=disabled -Dtests=disabled -Ddoc=disabled -Dnls=disabled \
    -Ddebug_viewer=disabled >&2
ninja -C "$folder/build" install >&2
echo "$folder/bin"

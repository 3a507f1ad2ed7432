#!/bin/sh
# Makes the Debian packages from a copy of the source, unpacks them and uses
# them.
#
#   sh debian.sh SOURCE
#
# Exit status 77: debhelper, help2man or lintian is missing.
set -eu
source=$1
for program in dpkg-buildpackage dh help2man lintian; do
    command -v $program >/dev/null || {
        echo "skipped: no $program"
        exit 77
    }
done
. "$(dirname "$0")/scratch.sh"

mkdir "$tmp/gst-vae"
(cd "$source" && tar -c --exclude='./build*' --exclude=./.git .) |
    tar -x -C "$tmp/gst-vae"
cd "$tmp/gst-vae"
# Other tests cover the tests of the tree.
DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc >"$tmp/log" 2>&1 || {
    tail -n 40 "$tmp/log"
    fail 'dpkg-buildpackage'
}
lintian --allow-root --fail-on error,warning "$tmp"/*.changes ||
    fail 'lintian has findings'

for package in libvae0 gstreamer1.0-vae gst-vae-models vaetool python3-gst-vae; do
    dpkg-deb -x "$tmp/$package"_*.deb "$tmp/root" || fail "$package"
done
lib=$(dirname "$(find "$tmp/root" -name libvae.so.0)")
unset GST_PLUGIN_PATH GST_PLUGIN_PATH_1_0
export LD_LIBRARY_PATH="$lib" GST_PLUGIN_PATH="$lib/gstreamer-1.0"
export GST_REGISTRY="$tmp/registry.bin" GST_REGISTRY_1_0="$tmp/registry.bin"
export XDG_DATA_DIRS="$tmp/root/usr/share:/usr/share" XDG_CACHE_HOME="$tmp"
"$tmp/root/usr/bin/vaetool" --version || fail vaetool
scripts=$tmp/root/usr/share/doc/gstreamer1.0-vae/pipelines
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$tmp/root/usr/lib/python3/dist-packages"
python3 -c 'import gst_vae; print(gst_vae.open(gst_vae.demo()))' || fail 'gst_vae'
for script in latents-to-video.sh vaesend.py live/live.py cluster/segments.py; do
    "$scripts/$script" --help || fail "$script"
done
[ -z "$(find "$scripts" -xtype l -o -name '*.gz')" ] ||
    fail "$(find "$scripts" -xtype l -o -name '*.gz')"
gst-launch-1.0 -q videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48 ! \
    vaeencode backend=cpu ! vaedecode ! fakesink || fail 'the elements'
echo ok

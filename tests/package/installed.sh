#!/bin/sh
# Installs a build to a folder and uses it from there, as a packager's user
# would: headers, pkg-config, vaetool, the plugin, the demo model, the pages.
#
#   sh installed.sh BUILD SOURCE
set -eu
build=$1
source=$2
. "$(dirname "$0")/scratch.sh"

meson install -C "$build" --no-rebuild --quiet --destdir "$tmp/root" ||
    fail 'meson install'
pc=$(find "$tmp/root" -name libvae.pc)
lib=$(dirname "$(dirname "$pc")")
prefix=$(dirname "$(find "$tmp/root" -type d -name bin)")

# Every header stands alone, in C and in C++, and there are no private ones.
languages='c:c99'
if command -v c++ >/dev/null; then
    languages='c:c99 c++:c++11'
else
    echo 'no c++: the headers are not tried in C++'
fi
for header in "$prefix"/include/vae/*.h; do
    for language in $languages; do
        echo "#include <vae/$(basename "$header")>" |
            cc -x "${language%:*}" "-std=${language#*:}" -Wall -Wextra \
                -Wpedantic -Werror -fsyntax-only -I"$prefix/include" - ||
            fail "$header in $language"
    done
done
if [ "$languages" != c:c99 ]; then
    echo '#include <vae/vae.h>
        VaePlan plan = VAE_INIT(VaePlan);
        int main() { return plan.struct_size != sizeof(VaePlan); }' |
        c++ -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror \
            -I"$prefix/include" -o "$tmp/init" - && "$tmp/init" ||
        fail 'VAE_INIT() in C++'
fi
[ -z "$(find "$tmp/root" -name 'vae-private*')" ] || fail 'private headers'

# The environment of this machine's build does not count.
unset GST_PLUGIN_PATH GST_PLUGIN_PATH_1_0 LD_LIBRARY_PATH
export GST_PLUGIN_PATH="$lib/gstreamer-1.0"
export GST_REGISTRY_1_0="$tmp/registry.bin" GST_REGISTRY="$tmp/registry.bin"
export HOME="$tmp" XDG_DATA_HOME="$tmp" XDG_CACHE_HOME="$tmp"

"$prefix/bin/vaetool" --version || fail 'vaetool'
if [ -f "$lib/gstreamer-1.0/libgstvae.so" ]; then
    gst-inspect-1.0 vae >"$tmp/inspect" || fail 'gst-inspect-1.0 vae'
    grep -q "^ *Filename  *$lib/" "$tmp/inspect" ||
        fail "another plugin was found: $(cat "$tmp/inspect")"
    # The page about an element is not that of the source.
    gst-inspect-1.0 vaedecode |
        grep -q 'Doc-uri *file:///.*/share/doc/.*/docs/streaming.md' ||
        fail "$(gst-inspect-1.0 vaedecode | grep Doc-uri)"
    # The model is found from the plugin's own place.
    gst-launch-1.0 -q videotestsrc num-buffers=5 ! \
        video/x-raw,width=64,height=48,framerate=16/1 ! \
        vaeencode backend=ref ! latentmux ! \
        filesink location="$tmp/latents.safetensors" || fail 'encoding'
else
    "$prefix/bin/vaetool" encode --help >/dev/null
    echo 'no plugin in this build'
fi

models=$(find "$prefix" -type d -name models)
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$tmp/root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
# shellcheck disable=SC2046 # flags
cc -Wall -Wextra -Werror -o "$tmp/embed" "$source/tests/package/embed.c" \
    $(pkg-config --cflags --libs libvae) -Wl,-rpath,"$lib" ||
    fail 'a program with pkg-config'
if [ -f "$tmp/latents.safetensors" ]; then
    said=$("$tmp/embed" "$models/demo.safetensors" \
        "$tmp/latents.safetensors") || fail 'the program'
    [ "$said" = '5 frames' ] || fail "5 frames, the program says: $said"
fi
if "$tmp/embed" "$tmp/none" "$tmp/none" 2>"$tmp/said"; then
    fail 'a model that is not there was opened'
fi
grep -q "$tmp/none" "$tmp/said" || fail "no name in: $(cat "$tmp/said")"

# Links between the pages lead somewhere, and so do the scripts they tell of.
pages=$prefix/share/doc/gst-vae
if [ -d "$pages" ]; then
    find "$pages" -name '*.md' | while read -r page; do
        sed -n 's/.*](\([^)#]*\)[^)]*).*/\1/p' "$page" |
            grep -v -e '^$' -e '://' | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] ||
                fail "$page: no $link"
        done
    done
    [ -z "$(find "$pages" -name '*.pyc' -o -xtype l)" ] ||
        fail "$(find "$pages" -name '*.pyc' -o -xtype l)"
    for script in "$pages"/pipelines/*-*.sh "$pages/pipelines/vaesend.py" \
        "$pages/pipelines/live/live.py"; do
        PYTHONDONTWRITEBYTECODE=1 "$script" --help >"$tmp/said" ||
            fail "$script --help"
    done
    if [ -f "$tmp/latents.safetensors" ] &&
        gst-inspect-1.0 --exists --atleast-version=0.0 webmmux; then
        sh "$pages/pipelines/latents-to-video.sh" "$tmp/latents.safetensors" \
            "$tmp/video.webm" 2>"$tmp/said" || fail "$(cat "$tmp/said")"
        [ -s "$tmp/video.webm" ] || fail 'no video by an installed script'
    fi
fi
echo ok

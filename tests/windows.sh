#!/bin/sh
# Cross-builds vaetool for 64-bit Windows, without oneDNN, and runs it under Wine.
# The last line is "N passed, N failed, N skipped". The exit status is 0 if none
# failed.
#
#   sh tests/windows.sh [BUILD FOLDER]    default: build-windows
#
# A test decodes a vector as a Windows program and as a program of this system:
# both files must be equal. If a package is not available, the whole script is
# one skip.
set -u
cd "$(dirname "$0")/.." || exit 1
case $#,${1:-} in
0, | 1,[!-]*) ;;
*)
    echo 'usage: sh tests/windows.sh [BUILD FOLDER]' >&2
    exit 2
    ;;
esac
build=${1:-build-windows}
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH

skip() { # WHY
    echo "SKIPPED: windows: $*"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

sh tests/deps.sh windows || skip 'mingw-w64 and Wine are not to be had'
wine=/usr/lib/wine/wine64
for tool in x86_64-w64-mingw32-gcc-posix "$wine" cmake apt-get; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
mkdir -p "$build-root/apt/lists/partial" "$build-root/sources" \
    "$build-root/work" && root=$(cd "$build-root" && pwd) || exit

# Runs apt with the sources of this system's packages.
apt() {
    apt-get -q -o Dir::State="$root/apt" -o Dir::Cache="$root/apt" \
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$root/sources" \
        -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}

# Debian has no jansson for Windows, so this builds it.
jansson() {
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ ! -f "$list" ] ||
            sed 's/^Types: deb$/Types: deb-src/;s/^deb /deb-src /' "$list" \
                >"$root/sources/${list##*/}" || return
    done
    rm -rf "$root/jansson" && mkdir "$root/jansson" || return
    apt update && (cd "$root" && apt source --download-only jansson) &&
        tar -xf "$root"/jansson_*.orig.tar.* -C "$root/jansson" \
            --strip-components=1 &&
        cmake -S "$root/jansson" -B "$root/jansson/build" \
            -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix \
            -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON \
            -DJANSSON_EXAMPLES=OFF -DCMAKE_INSTALL_PREFIX="$root/usr" &&
        cmake --build "$root/jansson/build" &&
        cmake --install "$root/jansson/build" && : >"$root/complete"
}
[ -f "$root/complete" ] || jansson >"$build-root.log" 2>&1 || {
    tail -n 20 "$build-root.log"
    skip 'the source of jansson is not to be had'
}

compile() { # FOLDER OPTION...
    folder=$1
    shift
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" "$@" ||
            meson setup --wipe "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi && meson compile -C "$folder"
}
# Both without oneDNN, so that both compute with the same code.
both='--buildtype=release -Donednn=disabled -Dcuda=disabled -Dgst=disabled
    -Dpython=disabled -Dtests=disabled -Ddocs=disabled'
# shellcheck disable=SC2086 # lists of words
if ! PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig compile "$build" \
    --cross-file tests/windows/mingw.ini $both >"$build.log" 2>&1 ||
    ! compile "$build-native" $both >>"$build.log" 2>&1; then
    tail -n 60 "$build.log"
    echo 'FAILED: build'
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi

export WINEPREFIX="$root/wine" WINEDEBUG=-all WINEARCH=win64
export WINEDLLOVERRIDES='mscoree,mshtml=' LC_ALL=C.UTF-8
export WINELOADER="$wine" WINESERVER=/usr/lib/wine/wineserver64
[ -d "$WINEPREFIX" ] || "$wine" wineboot -i >/dev/null 2>&1

data=$PWD/tests/golden/data/taehv/taew2_1
build=$(cd "$build" && pwd)
tool=$build/engine/vaetool.exe
native=$build-native/engine/vaetool
decode="decode --model $data/weights.safetensors $data/decode_t5_6x10.safetensors"
passed=1 failed=0
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$build.log" 2>&1; then
        echo "ok: $what"
        passed=$((passed + 1))
    else
        tail -n 5 "$build.log"
        echo "FAILED: $what"
        failed=$((failed + 1))
    fi
}
windows() { # OUTPUT OPTION...: decodes to that file
    out=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    "$wine" "$tool" $decode "$out" "$@"
}
slices() { windows "s$1.npy" --slice "$1" && cmp "s$1.npy" native.npy; }
backslashes() { windows 'Ünicode\frames 例.npy' && cmp 'Ünicode/frames 例.npy' native.npy; }
replaces() { cp s1.npy old.npy && echo x >>old.npy && windows old.npy && cmp old.npy native.npy; }
resumes() { windows kept.npy --resume && cmp kept.npy native.npy; }
refuses() {
    ! windows missing/out.npy && grep -q 'missing/out.npy: cannot create' "$build.log"
}
cd "$root/work" && rm -rf ./* && mkdir Ünicode || exit 1
# shellcheck disable=SC2086 # a list of words
check 'native decode' "$native" $decode native.npy
check 'slices of 1 latent' slices 1
check 'slices of 4 latents' slices 4
check 'a path with backslashes and other letters' backslashes
check 'an old file is replaced' replaces
check 'a whole run of --resume' resumes
check 'a missing folder is an error that names it' refuses
# A killed run leaves its files; the same command continues.
# shellcheck disable=SC2086 # a list of words
"$wine" "$tool" $decode cut.npy --resume --slice 1 --checkpoint-interval 1 \
    >/dev/null 2>&1 &
tries=0
while [ ! -f cut.npy.checkpoint ] && [ ! -f cut.npy ] && [ $tries -lt 1200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -9 $! 2>/dev/null
wait
"$WINESERVER" -w # until all programs have ended
cut() { windows cut.npy --resume --slice 1 --checkpoint-interval 1 && cmp cut.npy native.npy; }
check 'a killed run continues' cut
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]

#!/bin/sh
# Cross-builds gst-vae for 64-bit Arm and runs the suite "arm" under qemu-user.
# The last line is "N passed, N failed, N skipped". The exit status is 0 if none
# failed.
#
#   sh tests/arm.sh [BUILD FOLDER]    default: build-arm
#
# The build counts as one test. The script unpacks Debian's arm64 packages into
# BUILD FOLDER-root once. It installs nothing and needs no root rights. If the
# packages are not available, the whole script is one skip.
set -u
cd "$(dirname "$0")/.." || exit 1
case $#,${1:-} in
0, | 1,[!-]*) ;;
*)
    echo 'usage: sh tests/arm.sh [BUILD FOLDER]' >&2
    exit 2
    ;;
esac
build=${1:-build-arm}
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH

skip() { # WHY
    echo "SKIPPED: arm: $*"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

sh tests/deps.sh arm || skip 'a cross compiler and qemu are not to be had'
for tool in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done

packages='libc6-dev libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
    gstreamer1.0-tools gstreamer1.0-plugins-base libjansson-dev libdnnl-dev'

# Runs apt as on an arm64 system without packages. Its lists and downloads are
# separate from those of this system.
apt() {
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$root/apt" -o Dir::State::status="$root/apt/status" \
        -o Dir::Cache="$root/apt" -o APT::Sandbox::User= \
        -o APT::Install-Recommends=false -o Acquire::Languages=none "$@"
}

# Folders that are links on a system must be links before packages are unpacked.
unpack() {
    mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial" \
        "$root/usr/bin" "$root/usr/lib" "$root/usr/sbin"
    for folder in bin lib sbin; do
        ln -s "usr/$folder" "$root/$folder"
    done
    : >"$root/apt/status"
    # shellcheck disable=SC2086 # a list of words
    apt update && apt --download-only install $packages || return
    for package in "$root"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$root" --keep-directory-symlink --no-same-owner \
                --exclude='./usr/share/[!p]*' --exclude='./etc' \
                --exclude='./var' || return
    done
    rm -r "$root/apt"
    echo "$packages" >"$root/complete"
}

mkdir -p "$build-root" && root=$(cd "$build-root" && pwd) || exit
if [ "$(cat "$root/complete" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$root"
    unpack >"$build-root.log" 2>&1 || {
        tail -n 20 "$build-root.log"
        skip 'the arm64 packages are not to be had'
    }
fi

# A processor without SVE; a test that needs another one selects it.
export QEMU_CPU=cortex-a76
export OMP_WAIT_POLICY=passive

cat >"$root/cross.ini" <<END
[constants]
root = '$root'
[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot=' + root]
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', root]
[properties]
sys_root = root
pkg_config_libdir = [root + '/usr/lib/aarch64-linux-gnu/pkgconfig',
    root + '/usr/share/pkgconfig']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END

compile() {
    if [ -f "$build/build.ninja" ]; then
        meson setup --reconfigure "$build" "$@" ||
            meson setup --wipe "$build" "$@"
    else
        meson setup "$build" "$@"
    fi && meson compile -C "$build" arm
}

# Warnings are errors only with compilers that are known to give none.
werror=false
case $(aarch64-linux-gnu-gcc -dumpversion) in
12* | 14*) werror=true ;;
esac
if ! compile --cross-file "$root/cross.ini" -Dwerror="$werror" \
    -Dtests=enabled -Dgst=enabled -Donednn=enabled >"$build.log" 2>&1; then
    tail -n 60 "$build.log"
    echo 'FAILED: build'
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi

results=$build/meson-logs/arm.json
rm -f "$results"
meson test -C "$build" --no-rebuild --print-errorlogs --logbase arm \
    --num-processes "$(nproc)" --suite arm
count() { # RESULTS
    grep -c "\"result\": \"\($1\)\"" "$results"
}
if [ ! -s "$results" ]; then
    echo 'FAILED: no test ran'
    echo '1 passed, 1 failed, 0 skipped'
    exit 1
fi
ok=$(count 'OK\|EXPECTEDFAIL')
skipped=$(count SKIP)
failed=$(($(count '[A-Z]*') - ok - skipped))
sed -n '/"result": "\(OK\|EXPECTEDFAIL\|SKIP\)"/!s/^{"name": "\([^"]*\)".*/FAILED: \1/p' \
    "$results"
echo "$((ok + 1)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

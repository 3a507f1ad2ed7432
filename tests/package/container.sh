#!/bin/sh
# Builds the image of Containerfile on a Debian made by debootstrap, without a
# registry of images, and runs the elements in it. Needs root and Debian's
# package mirror; MIRROR names another.
#
#   sh container.sh SOURCE
#
# Exit status 77: buildah or debootstrap is missing, or the user is not root.
set -eu
source=$1
for program in buildah debootstrap; do
    command -v $program >/dev/null || {
        echo "skipped: no $program"
        exit 77
    }
done
[ "$(id -u)" = 0 ] || {
    echo 'skipped: not root'
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# Runs buildah in its own folder, without a daemon.
b() {
    buildah --storage-driver vfs --root "$tmp/images" --runroot "$tmp/run" "$@"
}

debootstrap --variant=minbase bookworm "$tmp/base" \
    "${MIRROR:-http://deb.debian.org/debian}" >"$tmp/log" 2>&1 || {
    tail "$tmp/log"
    exit 1
}
printf 'FROM scratch\nCOPY base /\n' >"$tmp/base.txt"
b build --isolation chroot -f "$tmp/base.txt" -t base "$tmp"
b build --isolation chroot --build-arg BASE=localhost/base \
    -f "$source/Containerfile" -t gst-vae "$source"
container=$(b from localhost/gst-vae)
in_it() {
    b run --isolation chroot "$container" -- "$@"
}
in_it vaetool --version
in_it gst-inspect-1.0 vaedecode >"$tmp/inspect"
grep -q 'slice-size' "$tmp/inspect"
in_it gst-launch-1.0 -q videotestsrc num-buffers=5 ! \
    video/x-raw,width=64,height=48 ! vaeencode backend=cpu ! vaedecode ! \
    fakesink
echo ok

#!/bin/sh
# Starts from a bare Debian or Ubuntu and makes a picture: installs the missing
# packages, builds, decodes the bundled latents to a video, encodes and decodes
# that video, and prints how fast and how close it was.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"

usage() {
    cat <<'EOF'
usage: demo.sh [--live] [--out FOLDER] [--build FOLDER]

  --live          plays the video in a window at the end; needs a display
  --out FOLDER    folder for the results; default: demo-out in the checkout
  --build FOLDER  uses this build folder as it is, and installs nothing
EOF
}

# Without a GPU, nvcc would compile for minutes for nothing.
cuda_wanted() {
    if [ -e /dev/nvidiactl ]; then echo auto; else echo disabled; fi
}

live=
out=$top/demo-out
build=
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --live) live=live ;;
    --out)
        has_value "$@"
        out=$2
        shift
        ;;
    --build)
        has_value "$@"
        [ -f "$2/gst/libgstvae.so" ] || die "--build $2: has no" \
            'gst/libgstvae.so, which meson compile makes in a build folder'
        build=$(cd "$2" && pwd)
        shift
        ;;
    *) die "unknown argument $1; see --help" ;;
    esac
    shift
done

[ -f "$demo_latents" ] || die "$demo_latents: no such file; the demo latents" \
    'are part of a complete checkout'
[ -z "$live" ] || has_display || die '--live: neither DISPLAY nor' \
    'WAYLAND_DISPLAY is set'

if [ -z "$build" ]; then
    sh "$top/tests/deps.sh" "${live:-demo}"
    build=$top/build-demo
    [ -f "$build/build.ninja" ] ||
        meson setup "$build" "$top" --buildtype=release -Dtests=disabled \
            -Dcuda="$(cuda_wanted)" -Dcuda-archs=native
    meson compile -C "$build"
fi
use_build "$build"
need_elements latentdemux latentmux vaedecode vaeencode vp8enc webmmux pngenc

mkdir -p "$out"
cd "$out"
for result in demo.webm demo.png demo-latents.safetensors; do
    refuse_same "$result" model "$pipelines/demo/demo.safetensors"
done
# An incomplete result stays there.
tmp=$(new_folder "$(pwd)/unfinished.XXXXXX")

now() {
    date +%s%N
}

# rate WHAT FROM TO: the times are those that now prints; every clip has $frames
# frames.
rate() {
    awk -v what="$1" -v n="$frames" -v from="$2" -v to="$3" 'BEGIN {
        s = (to - from) / 1e9
        printf "  %s: %d frames in %.1f s, %.1f a second, start included\n",
            what, n, s, n / s
    }'
}

echo 'Decoding the bundled latents ...'
# Matroska keeps the frames of the decoder unchanged, so that times and
# comparison measure the model and not a video codec.
start=$(now)
play filesrc "$(location "$demo_latents")" ! latentdemux ! \
    vaedecode ! video/x-raw,format=RGB ! matroskamux ! \
    filesink "$(location "$tmp/decoded.mkv")"
decoded=$(now)
frames_of "$tmp/decoded.mkv" vp8enc deadline=1 cpu-used=4 \
    target-bitrate=4000000 ! webmmux ! filesink "$(location "$tmp/demo.webm")"

# The sheet: every 4th frame, in rows of 3.
pictures_of "$tmp/decoded.mkv" 320 184 "$tmp/"
set --
frames=0
for png in "$tmp"/0*.png; do
    [ $((frames % 4)) != 0 ] || set -- "$@" "$png"
    frames=$((frames + 1))
done
sheet "$tmp/demo.png" 320 184 3 "$@"
rate decode "$start" "$decoded"

echo 'Encoding that video, and decoding it again ...'
start=$(now)
frames_of "$tmp/decoded.mkv" vaeencode ! "$demo_caps" ! latentmux ! \
    filesink "$(location "$tmp/demo-latents.safetensors")"
encoded=$(now)
play filesrc "$(location "$tmp/demo-latents.safetensors")" ! latentdemux ! \
    vaedecode ! video/x-raw,format=RGB ! matroskamux ! \
    filesink "$(location "$tmp/again.mkv")"
again=$(now)
rate encode "$start" "$encoded"
rate decode "$encoded" "$again"

size_of "$tmp/decoded.mkv" "$tmp"
for video in decoded again; do
    rgb_of "$tmp/$video.mkv" "$width" "$height" "$tmp/$video.safetensors"
done
vaetool compare "$tmp/decoded.safetensors" "$tmp/again.safetensors" |
    sed 's/^/  /'

for result in demo.webm demo.png demo-latents.safetensors; do
    mv "$tmp/$result" .
    wrote "$(pwd)/$result"
done

backends=$(vaetool --backends)
case $backends in
*'cuda: yes'* | *'cpu: yes'*) ;;
*)
    echo 'The CPU backend is missing' \
        "($(echo "$backends" | sed -n 's/^cpu: no: //p')):"
    echo 'decoding was about 10 times slower. Install libdnnl-dev, remove the' \
        "folder $build and try again."
    ;;
esac

if [ -n "$live" ]; then
    play filesrc location=demo.webm ! matroskademux ! vp8dec ! \
        videoconvert ! videoscale ! autovideosink
fi

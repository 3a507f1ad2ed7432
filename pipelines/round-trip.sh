#!/bin/sh
# Encodes and decodes a test video and prints how close the result is.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"

# shellcheck disable=SC2034 # read by env.sh
options='model latent-space variant' network=

usage() {
    cat <<'EOF'
usage: round-trip.sh [OPTION...]

  --model WEIGHTS      a VAE with encoder and decoder: a file of weights or a
                       diffusers folder
  --latent-space NAME  instead of --model: uses the installed model of this
                       space, such as wan2.1; default: the bundled demo model
  --variant NAME       network of the WEIGHTS, if their shapes fit several
  --size WxH           size of the picture; the width must be a multiple of 4;
                       default: 320x192
  --frames N           number of frames; default: 17
EOF
}

model=
space=
width=320
height=192
frames=17
while [ $# -gt 0 ]; do
    case $1 in
    --size)
        take_size "$@"
        [ $((width % 4)) = 0 ] ||
            die "--size $2: the width must be a multiple of 4 here"
        ;;
    --frames)
        has_value "$@"
        case $2 in
        '' | *[!0-9]* | 0) die "--frames $2: expected a number from 1" ;;
        esac
        frames=$2
        ;;
    *) take_option "$@" || die "unknown argument $1; see --help" ;;
    esac
    shift 2
done
one_model
need_elements vaeencode vaedecode
need_vaetool

tmp=$(new_folder)

caps=$demo_caps
[ -z "$model$space" ] ||
    caps=video/x-vae-latent${space:+,latent-space=$(quoted "$space")}
# shellcheck disable=SC2086 # a property, or nothing
play videotestsrc num-buffers="$frames" \
    pattern=smpte75 horizontal-speed=2 ! \
    "video/x-raw,format=RGB,width=$width,height=$height,framerate=16/1" ! \
    tee name=source \
    source. ! queue max-size-bytes=0 ! filesink "$(location "$tmp/in.rgb")" \
    source. ! queue max-size-bytes=0 ! \
    vaeencode $variant ${model:+"model=$(quoted "$model")"} ! "$caps" ! \
    vaedecode $variant ${model:+"model=$(quoted "$model")"} ! \
    video/x-raw,format=RGB ! filesink "$(location "$tmp/out.rgb")"
rgb_to_safetensors "$tmp/in.rgb" "$width" "$height" "$tmp/in.safetensors"
rgb_to_safetensors "$tmp/out.rgb" "$width" "$height" "$tmp/out.safetensors"
echo "$frames frames of ${width}x$height, encoded and decoded:"
vaetool compare "$tmp/in.safetensors" "$tmp/out.safetensors"
if [ -z "$model$space" ]; then
    echo "The demo model reaches about 23 dB for this picture at 320x192, because" \
        "its bars and noise are hard; pipelines/demo/README.md has clips"
fi

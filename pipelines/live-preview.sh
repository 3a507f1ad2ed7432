#!/bin/sh
# Shows latents as video, paced by their timestamps.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034,SC2154 # read by env.sh, set by it
options="model $reading sync"

usage() {
    cat <<'EOF'
usage: live-preview.sh [OPTION...] [LATENTS | --from HOST:PORT]

LATENTS  a file of latents: .safetensors, .latent of ComfyUI, .npy, or a tensor
         saved by PyTorch (.pt); default: the bundled demo latents

  --from HOST:PORT     receives latents from another process, such as
                       ... ! vaeencode ! gdppay ! tcpserversink
  --model WEIGHTS      the VAE to decode with: a file of weights or a diffusers
                       folder; default: the installed model of the latent space
EOF
    reading_usage
    cat <<'EOF'
  --sync false         shows each frame as soon as it is decoded. By default
                       frames wait for their time, unless the model is slower
                       than real time

Prints the model on stderr. Without a display the script decodes the frames at
the same pace and drops them.
EOF
}

model=
space=
sync=true
from=
while [ $# -gt 0 ]; do
    case $1 in
    --sync)
        has_value "$@"
        case $2 in
        true | false) sync=$2 ;;
        *) die "--sync $2: expected true or false" ;;
        esac
        ;;
    --from)
        has_value "$@"
        case $2 in
        ?*:*[!0-9]* | *: | :*) die "--from $2: expected HOST:PORT" ;;
        *:??????* | *:0) ;;
        *:*) [ "${2##*:}" -gt 65535 ] || from=$2 ;;
        *) die "--from $2: expected HOST:PORT" ;;
        esac
        [ "$from" ] || die "--from $2: port ${2##*:}, expected 1 to 65535"
        ;;
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"

show_frames "$sync" 'the frames are dropped'

if [ -n "$from" ]; then
    [ $# = 0 ] || die '--from and a file exclude each other; see --help'
    [ -z "$space$demux" ] ||
        die '--latent-space and the options of a tensor are for files; a' \
            'stream states its own'
    need_elements gdpdepay vaedecode
    set -- tcpclientsrc "host=${from%:*}" "port=${from##*:}" ! gdpdepay
else
    [ $# -le 1 ] || die 'expected one file of latents; see --help'
    latents=${1:-$demo_latents}
    need_file "$latents"
    need_elements latentdemux vaedecode
    # shellcheck disable=SC2086 # properties
    set -- filesrc "$(location "$latents")" ! \
        latentdemux ${space:+"latent-space=$(quoted "$space")"} $demux
fi

# The queue holds frames that are decoded ahead of time, which hides one slow
# slice.
# shellcheck disable=SC2086 # elements and their properties
play "$@" ! \
    vaedecode ${model:+"model=$(quoted "$model")"} $settings $variant qos=false ! \
    videoconvert qos=false ! $upright ! \
    queue max-size-buffers=8 max-size-bytes=0 max-size-time=0 ! $sink

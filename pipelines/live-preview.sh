#!/bin/sh
# Shows latents as video at the pace of their timestamps.
set -eu
pipelines=$(cd "$(dirname "$0")" && pwd)
. "$pipelines/env.sh"
# shellcheck disable=SC2034 # read by play
options='model latent-space normalization'

usage() {
    cat <<'EOF'
usage: live-preview.sh [OPTION...] [LATENTS | --from HOST:PORT]

LATENTS  a file of latents: .safetensors, .latent of ComfyUI, .npy, or a tensor
         saved by PyTorch (.pt); without it the bundled demo latents

  --from HOST:PORT     latents as another process makes them, from
                       ... ! vaeencode ! gdppay ! tcpserversink
  --model WEIGHTS      the VAE to decode with: a file of weights or a diffusers
                       folder; without it the installed model of the latent
                       space
  --latent-space NAME  of a file that does not state it, such as wan2.1
  --normalization raw  of latents that are not as a diffusion model makes them

The model is told on stderr. Without a display the frames are decoded at the
same pace and dropped.
EOF
}

model=
space=
normalization=
from=
while [ $# -gt 0 ]; do
    case $1 in
    --normalization)
        has_value "$@"
        normalization=$2
        ;;
    --from)
        has_value "$@"
        case $2 in
        ?*:*[!0-9]* | *: | :*) die "--from $2: wanted is HOST:PORT" ;;
        *:*) from=$2 ;;
        *) die "--from $2: wanted is HOST:PORT" ;;
        esac
        ;;
    *) take_option "$@" || break ;;
    esac
    shift 2
done
no_options "$@"

if has_display; then
    sink=autovideosink
else
    echo 'no display: the frames are dropped' >&2
    sink='fakesink sync=true'
fi

if [ -n "$from" ]; then
    [ $# = 0 ] || die '--from and a file exclude each other; see --help'
    [ -z "$space" ] || die '--latent-space is for files; the stream states its'
    need_elements gdpdepay vaedecode
    set -- tcpclientsrc "host=${from%:*}" "port=${from##*:}" ! gdpdepay
else
    [ $# -le 1 ] || die 'one file of latents; see --help'
    latents=${1:-$demo_latents}
    need_file "$latents"
    need_elements latentdemux vaedecode
    set -- filesrc "$(location "$latents")" ! \
        latentdemux ${space:+"latent-space=$(quoted "$space")"}
fi

# The queue holds what is decoded ahead of time, so that one slow slice is not
# seen.
# shellcheck disable=SC2086 # an element and its property
play "$@" ! \
    vaedecode ${model:+"model=$(quoted "$model")"} \
    ${normalization:+"normalization=$(quoted "$normalization")"} ! \
    queue max-size-buffers=8 max-size-bytes=0 max-size-time=0 ! \
    videoconvert ! $sink

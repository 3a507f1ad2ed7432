#!/bin/sh
# Runs a pipeline for a long time, disturbs it at random moments, and checks its
# frames, its memory and the processor time of a frame.
#
#   tests/soak.sh MINUTES [SEED [STREAMS]]
#
# Prints the seed. The same seed gives the same disturbances, but not at the
# same frames. STREAMS other pipelines come and go meanwhile. VAE_TEST_BUILD names
# the build folder. VAE_SOAK_MODEL names the weights; default: those of the demo.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${VAE_TEST_BUILD:-$root/build}
case ${1:-} in
'' | *[!0-9]*)
    echo 'usage: tests/soak.sh MINUTES [SEED [STREAMS]]' >&2
    exit 2
    ;;
esac
export GST_PLUGIN_PATH_1_0="${GST_PLUGIN_PATH_1_0:-$build/gst}"
exec "$build/tests/soak/soak" $(($1 * 60)) "${2:-$(date +%s)}" \
    "${VAE_SOAK_MODEL:-$root/pipelines/demo/demo.safetensors}" ${3:+"$3"}

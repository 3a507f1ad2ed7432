#!/bin/sh
# Tests the error for a CUDA module that is missing or has another version, and that
# everything else works without the module.
#
#   module.sh VAETOOL OTHER [OURS]    OTHER: a module of another version, or ""
set -u
tool=$1
other=$2
ours=${3:-}
weights=${VAE_TEST_VECTORS:?}/wan21/weights.safetensors
failed=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
echo 'no module' >"$folder/text"

# expect MODULE WORDS: --backend cuda prints WORDS, and --backend auto works.
expect() {
    VAE_CUDA_MODULE=$1
    export VAE_CUDA_MODULE
    if said=$("$tool" plan --model "$weights" --size 64x64 --backend cuda \
        2>&1); then
        echo "FAIL $1: it is taken"
        failed=1
    else
        case $said in
        *"$2"*) echo "ok   $said" ;;
        *)
            echo "FAIL $1: $said"
            failed=1
            ;;
        esac
    fi
    # With --verbose the output has the reason, after the line about the model.
    if ! why=$("$tool" plan --model "$weights" --size 64x64 --verbose \
        2>&1 >/dev/null); then
        echo "FAIL $1: auto"
        failed=1
    fi
    case ${why#model opened in * s?} in
    'backend cuda is not taken: '*) ;;
    *)
        echo "FAIL $1: auto said \"$why\""
        failed=1
        ;;
    esac
    [ -z "$("$tool" plan --model "$weights" --size 64x64 2>&1 >/dev/null)" ] || {
        echo "FAIL $1: auto says what nobody asked"
        failed=1
    }
}

expect "$folder/none" "VAE_CUDA_MODULE: no file $folder/none"
expect "$folder/text" 'cannot load'
[ -z "$other" ] || expect "$other" 'is of another version of gst-vae'
[ -z "$ours" ] || [ -e /dev/nvidiactl ] ||
    expect "$ours" 'backend cuda: there is no NVIDIA'
# An empty name counts as no name, and gives the same output.
said() {
    "$tool" plan --model "$weights" --size 64x64 --backend cuda 2>&1
}
unset VAE_CUDA_MODULE
want=$(said)
VAE_CUDA_MODULE=
export VAE_CUDA_MODULE
if [ "$(said)" = "$want" ]; then
    echo 'ok   an empty name'
else
    echo 'FAIL an empty name is taken for a file'
    failed=1
fi
exit "$failed"

#!/bin/sh
# Tests the error for a cuDNN that lacks one of its libraries.
#
#   library.sh PLANS DEVICES LIBCUDNN
set -u
plans=$1
devices=$2
library=$3
failed=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

for part in graph heuristic engines_precompiled engines_runtime_compiled; do
    rm -f "$folder"/*
    ln -s "$library" "$folder/libcudnn.so.9"
    # Empty files prevent the loader from searching other folders.
    : >"$folder/libcudnn_$part.so"
    : >"$folder/libcudnn_$part.so.9"
    said=$(LD_LIBRARY_PATH=$folder "$plans" "$devices" 64x64 sm_90 2>&1)
    code=$?
    case $code:$said in
    77:*"cuDNN is not complete: "*"libcudnn_$part.so.9"*) echo "ok   $said" ;;
    *)
        echo "FAIL $part: exit status $code, $said"
        failed=1
        ;;
    esac
done
exit $failed

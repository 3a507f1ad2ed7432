#!/bin/sh
# archs.sh NVCC ARCH...: prints the compute capabilities to compile for, one a
# line; expands `native` and `all`. Without a GPU, `native` means `all`, with a
# message on standard error.
set -eu
nvcc=$1
shift
all() {
    # Devices before 7.5 lack instructions that the kernels use.
    "$nvcc" --list-gpu-code | sed -n 's/^sm_//p' | awk '$1 >= 75 && $1 <= 121'
}
native() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null ||
        true; } | sed -n 's/^\([0-9]*\)\.\([0-9]\) *$/\1\2/p'
}
# Devices of 9.0 run code for 9.0a, and one of the kernels needs it.
for arch; do
    case $arch in
    all) all ;;
    native)
        native | grep . || {
            echo 'cuda-archs=native: no GPU is found; compiling for all that' \
                'nvcc knows' >&2
            all
        }
        ;;
    *) echo "$arch" ;;
    esac
done | sed 's/^90$/90a/' | sort -nu

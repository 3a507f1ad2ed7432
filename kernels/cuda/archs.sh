#!/bin/sh
# archs.sh NVCC ARCH...: the compute capabilities to compile for, with `native`
# and `all` in words that nvcc takes. Without a GPU native is all, and a line on
# standard error says so.
set -eu
nvcc=$1
shift
all() {
    # Code for 9.0a is what devices of 9.0 have; older ones than 7.5 lack what
    # the kernels use.
    "$nvcc" --list-gpu-code | sed -n 's/^sm_//p' |
        awk '$1 >= 75 && $1 <= 121 { print $1 == 90 ? "90a" : $1 }'
}
native() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null ||
        true; } | sed -n 's/^\([0-9]*\)\.\([0-9]\) *$/\1\2/p' | sed 's/^90$/90a/'
}
for arch; do
    case $arch in
    all) all ;;
    native)
        native | grep . || {
            echo 'cuda-archs=native: no GPU is found; all that nvcc knows are' \
                'compiled for' >&2
            all
        }
        ;;
    *) echo "$arch" ;;
    esac
done | sort -nu

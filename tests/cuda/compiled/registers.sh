#!/bin/sh
# Compares the registers and shared memory of each CUDA kernel on each device with
# the committed table of this release of nvcc, and finds spills. The numbers come
# from the log of the assembler. Exit status 77: this release has no table.
#
#   registers.sh TABLE LOG...    LOG: BUILD/kernels/*.cu.log
#   registers.sh --print LOG...  prints its columns of a table
#
# Its numbers are the registers of a thread, and the bytes of static shared memory.
set -eu
. "$(dirname "$0")/kernel_table.sh"
shift
# shellcheck disable=SC2154 # kernel_table.sh sets found
for log; do
    awk -v family="$(basename "$log" .cu.log)" -v q="'" '
        /Compiling entry function/ { split($0, part, q) }
        /Used [0-9]+ registers/ {
            match($0, /Used [0-9]+/)
            used = substr($0, RSTART + 5, RLENGTH - 5)
            shared = 0
            if (match($0, /[0-9]+ bytes smem/)) {
                shared = substr($0, RSTART, RLENGTH)
                sub(/ .*/, "", shared)
            }
            print part[4], family, part[2] "|" used "|" shared
        }' "$log"
done | demangle >"$found"
if grep -h 'spill' "$@" | grep -v ' 0 bytes spill stores, 0 bytes spill loads' >&2
then
    fail 'registers are spilled'
fi
finish 's/\( [0-9]*\)\{5\}$//'

#!/bin/sh
# Compares the registers and shared memory of each CUDA kernel on each device,
# from the log of the assembler, with the committed table of this release of
# nvcc, and finds spills. Exit status 77: this release has no table.
#
#   registers.sh TABLE LOG...    LOG: BUILD/kernels/*.cu.log
#   registers.sh --print LOG...  prints the lines of a table
#
# A line has the device, the family, the kernel with its template's arguments,
# the registers of a thread, and the bytes of static shared memory.
set -eu
print=no
if [ "$1" = --print ]; then
    print=yes
else
    table=$1
fi
shift
if [ $print = no ] && [ ! -f "$table" ]; then
    echo "no table for this nvcc: $table"
    exit 77
fi
found=$(mktemp)
trap 'rm -f "$found" "$found.want"' EXIT
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
done | c++filt | sed 's/(VaeType)//g; s/ void / /; s/([^|]*|/|/; s/|/ /g' |
    LC_ALL=C sort >"$found"
if [ $print = yes ]; then
    cat "$found"
    exit 0
fi
failed=0
if grep -h 'spill' "$@" | grep -v ' 0 bytes spill stores, 0 bytes spill loads'
then
    echo 'FAIL registers are spilled'
    failed=1
fi
archs=$(cut -d' ' -f1 "$found" | sort -u | paste -sd'|' -)
if ! grep -qE "^($archs) " "$table"; then
    echo "the table has none of: $archs"
    exit 77
fi
# Devices that the table lacks are not compared.
have=$(cut -d' ' -f1 "$table" | sort -u | paste -sd'|' -)
grep -E "^($archs) " "$table" >"$found.want"
if grep -E "^($have) " "$found" | diff "$found.want" -; then
    echo "ok   $(wc -l <"$found.want") kernels"
else
    echo "FAIL other than $table (<); where that is meant, see docs/testing.md"
    failed=1
fi
exit $failed

#!/bin/sh
# Counts the instructions of each CUDA kernel on each device in the objects of this
# build. Compares the numbers with the committed table of this release of nvcc.
# Fails if a kernel uses local memory. Exit status 77: cuobjdump, nvdisasm or the
# table is missing.
#
#   sass.sh TABLE OBJECT...    OBJECT: BUILD/kernels/*.cu.o
#   sass.sh --print OBJECT...  prints its columns of a table
#
# Its five numbers count instructions: on the matrix units (HMMA), loads of fragments
# from shared memory (LDSM), asynchronous copies to it (LDGSTS), all instructions, and
# those of the longest loop. The test does not compare families that the table
# lacks. The RMS norm of 16-bit numbers may issue 16 instructions for each number:
# they take less time than the memory of an H200 needs for the number.
set -eu
. "$(dirname "$0")/kernel_table.sh"
shift
for tool in cuobjdump nvdisasm; do # the first one calls the second
    if ! command -v $tool >/dev/null; then
        echo "$tool is not installed"
        exit 77
    fi
done
# shellcheck disable=SC2154 # kernel_table.sh sets found
for object; do
    cuobjdump -sass "$object" | awk -v family="$(basename "$object" .cu.o)" '
        function number(hex,    i, n) {
            hex = tolower(hex)
            for (i = 1; i <= length(hex); i++)
                n = 16 * n + index("0123456789abcdef", substr(hex, i, 1)) - 1
            return n
        }
        function finish(    i, best) {
            if (name == "")
                return
            for (i = 0; i < loops; i++)
                if (loop[i] > best)
                    best = loop[i]
            print device, family, name "|" hmma + 0 "|" ldsm + 0 "|" \
                ldgsts + 0 "|" all + 0 "|" best + 0 "|" local + 0
            name = ""
        }
        /Function : / {
            finish()
            name = $3
            hmma = ldsm = ldgsts = all = local = loops = 0
        }
        /code for sm_/ { finish(); device = $3 }
        match($0, /^ +\/\*[0-9a-f]+\*\/ +[^ ]/) {
            at = $1
            gsub(/[^0-9a-f]/, "", at)
            at = number(at)
            i = $2 ~ /^@/ ? 3 : 2
            split($i, op, ".")
            if (op[1] == "BRA" && match($0, /BRA[^;]* 0x[0-9a-f]+/)) {
                target = substr($0, RSTART, RLENGTH)
                sub(/.* 0x/, "", target)
                target = number(target)
                if (target < at)
                    loop[loops++] = (at - target) / 16 + 1
            }
            if (op[1] == "NOP")
                next
            all++
            hmma += op[1] == "HMMA" || op[1] == "HGMMA"
            ldsm += op[1] == "LDSM"
            ldgsts += op[1] == "LDGSTS"
            local += op[1] == "LDL" || op[1] == "STL"
        }
        END { finish() }'
done | demangle >"$found.all"
if awk '$NF > 0 { print >"/dev/stderr"; n++ } END { exit n == 0 }' "$found.all"; then
    fail 'these use local memory (last number)'
fi
sed 's/ [0-9]*$//' "$found.all" >"$found"
if sed -n 's/.*norm rms<[12], [12], \([0-9]*\)>.*/& \1/p' "$found" |
    awk '$(NF - 1) > 16 * 8 * $NF { print >"/dev/stderr"; n++ } END { exit n == 0 }'
then
    fail 'these issue more than 16 instructions for a number'
fi
finish 's/ [0-9]* [0-9]*\(\( [0-9]*\)\{5\}\)$/\1/'

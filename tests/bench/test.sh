#!/bin/sh
# Tests that run.sh writes a line per run, and a table with plausible values.
#
#   test.sh BUILD
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
RUNS=3 SIDE=128 FRAMES=5 SIZE=64x48 THREADS=1 PRECISIONS=fp32 \
    sh "$here/run.sh" "$1" "$dir/out.csv" "$here/../../pipelines/demo/demo.safetensors" \
    >"$dir/table" 2>"$dir/log" || {
    cat "$dir/log"
    exit 1
}
cat "$dir/table"
[ "$(wc -l <"$dir/out.csv")" = 7 ] # heading, 3 decodes, 3 encodes
[ "$(grep -c '^| demo.safetensors | \(de\|en\)code | fp32 | [0-9]' \
    "$dir/table")" = 2 ]
# The rates of an op follow from its work, its bytes and its time.
"$1/engine/vaetool" bench --model "$here/../../pipelines/demo/demo.safetensors" \
    --backend cpu --precision fp32 --threads 1 --size 64x48 --frames 9 \
    --profile --csv >"$dir/one.csv"
awk -F, '
    function check(told, is) {
        if (is > 0 && (is / told < 0.999 || is / told > 1.001)) {
            print "told " told ", is " is ": " $0; bad = 1 }
    }
    $1 == "program" { ops = 1; next }
    ops && $6 > 0 {
        n++
        check($7, $5 * $10 / $6 / 1e9)
        check($8, $5 * $11 / $6 / 1e9)
    }
    END { exit bad || !n }' "$dir/one.csv"
# Winograd tiles need a step of two frames.
grep -q '^next1,conv,decoder.up_blocks.1.resnets.*winograd' "$dir/one.csv"
if grep 'mid_block.*winograd' "$dir/one.csv"; then exit 1; fi
# pairs DIRECTION CONDITION [plain]: a step takes longer than its convolutions,
# and CONDITION holds in each line.
pairs() {
    "$build/tests/bench/bench-pairs" \
        "$here/../../pipelines/demo/demo.safetensors" "$1" fp32 64x48 1 3 128 \
        ${3:-} | tee "$dir/pairs"
    awk -F, 'NR > 1 { sub("medians: ", "")
            bad = bad || !($1 > 0 && $2 > 0 && $2 < $3 && '"$2"') }
        END { exit bad || NR != 5 }' "$dir/pairs"
}
pairs encode '$4 >= $2'
# The network defines more operations than Winograd's method computes: for a
# tile of 2x2 pixels 36 products instead of 16.
pairs decode '$4 > 1.1 * $2 && $4 < 36 / 16 * $2'
pairs decode '$4 == $2' plain
"$1/tests/bench/bench-startup" "$here/../../pipelines/demo/demo.safetensors" \
    fp32 1 3 | tee "$dir/startup"
grep -q '^reading [0-9.]* s, opening [0-9.]* s, .*: ratio [0-9]' "$dir/startup"
"$1/tests/bench/bench-library" taew2_1 decode fp32 64x48 >"$dir/library"
tail -n 1 "$dir/library" | tee "$dir/last"
grep -q '^ *[0-9]* *[0-9]* .* 3x64x3x3 1x3x48x64$' "$dir/library"
# A convolution after an upsampling reads the small picture.
grep -q '^ *[0-9]* *[0-9]* .* 128x256x2x2 1x128x6x8$' "$dir/library"
grep -q '^[0-9.]* MiB, planned [1-9][0-9.]* of [1-9][0-9.]*$' "$dir/last"
# Medians of each column, and of the ratio to PyTorch run by run.
cat >"$dir/known.csv" <<'END'
model,direction,precision,threads,size,run,gemm,whole,conv,network,fps,torch
a/x.safetensors,decode,bf16,2,8x8,1,100,50,60,70,10,4
a/x.safetensors,decode,bf16,2,8x8,2,1000,90,95,180,30,10
a/x.safetensors,decode,bf16,2,8x8,3,200,80,90,160,20,5
END
sh "$here/table.sh" "$dir/known.csv" >"$dir/table"
grep -q '^| x.safetensors | decode | bf16 | 20.00 | 200 | 80 % | 90 % | 160 % | 5.00 | 3.0 |$' \
    "$dir/table" || {
    cat "$dir/table"
    exit 1
}

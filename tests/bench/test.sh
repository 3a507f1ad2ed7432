#!/bin/sh
# The measuring script writes a line per run and a table with sane entries.
#
#   test.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
RUNS=3 FRAMES=5 SIZE=64x48 THREADS=1 PRECISIONS=fp32 \
    sh "$here/run.sh" "$1" "$dir/out.csv" "$here/../../pipelines/demo/demo.safetensors" \
    >"$dir/table" 2>"$dir/log" || {
    cat "$dir/log"
    exit 1
}
cat "$dir/table"
[ "$(wc -l <"$dir/out.csv")" = 7 ] # heading, 3 decodes, 3 encodes
[ "$(grep -c '^| demo.safetensors | \(de\|en\)code | fp32 | [0-9]' \
    "$dir/table")" = 2 ]
# Medians, each run against its own neighbour: 50, 80 and 90 percent.
cat >"$dir/known.csv" <<'END'
model,direction,precision,threads,size,run,gemm,fps,gflops,conv,torch
a/x.safetensors,decode,bf16,2,8x8,1,100,10,50,60,4
a/x.safetensors,decode,bf16,2,8x8,2,1000,30,900,950,10
a/x.safetensors,decode,bf16,2,8x8,3,200,20,160,180,5
END
sh "$here/table.sh" "$dir/known.csv" >"$dir/table"
grep -q '^| x.safetensors | decode | bf16 | 20.00 | 200 | 80 % | 90 % | 5.00 | 3.0 |$' \
    "$dir/table" || {
    cat "$dir/table"
    exit 1
}

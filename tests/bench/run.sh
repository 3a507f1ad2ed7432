#!/bin/sh
# Measures the cpu backend and a matrix product of the same library and
# precision in turns, and on request also PyTorch.
#
#   sh tests/bench/run.sh BUILD OUT.csv [MODEL...]
#
# MODEL: a network of `vaetool make-weights`, or a file of weights; default: all
# full-size networks. Settings in the environment:
#   SIZE=416x240 FRAMES=17 THREADS=2 RUNS=7 PRECISIONS='fp32 bf16'
#   DIRECTIONS='decode encode'
#   SIDE=2048         size of the matrices
#   TORCH=python3     a Python with torch and einops
#   OFFICIAL=DIR      with checkouts Wan2.1, Wan2.2 and taehv
#
# Writes a line per run. `sh tests/bench/table.sh OUT.csv` prints a table of
# medians; the pages of docs/ have such tables. Use an idle machine.
set -eu
[ $# -ge 2 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
shift 2
vaetool=$build/engine/vaetool
pairs=$build/tests/bench/bench-pairs
size=${SIZE:-416x240}
frames=${FRAMES:-17}
threads=${THREADS:-2}
runs=${RUNS:-7}
[ $# -gt 0 ] || set -- wan2.1 wan2.2 seedvr2 taew2_1 taew2_2

for program in "$vaetool" "$pairs"; do
    [ -x "$program" ] || {
        echo "$program is not there: build with oneDNN and tests" >&2
        exit 2
    }
done

# ours MODEL DIRECTION PRECISION: frames/s.
ours() {
    case $1 in
    */* | *.safetensors | *.pth | *.pt) which="--model $1" ;;
    *) which="--arch $1" ;;
    esac
    encode=
    [ "$2" = decode ] || encode=--encode
    # shellcheck disable=SC2086 # options, or none
    "$vaetool" bench $which $encode --size "$size" --frames "$frames" \
        --backend cpu --precision "$3" --threads "$threads" --csv |
        awk -F, 'NR == 2 { fps = $13 } END { if (!fps) exit 1; print fps }'
}

# beside MODEL DIRECTION PRECISION: the medians of bench-pairs; see onednn/pairs.c.
beside() {
    "$pairs" "$1" "$2" "$3" "$size" "$threads" 1 "${SIDE:-2048}" |
        sed -n 's/^medians: //p'
}

# torch MODEL DIRECTION PRECISION: frames/s of the official code, or nothing.
torch() {
    [ -n "${OFFICIAL:-}" ] || return 0
    OMP_NUM_THREADS=$threads "${TORCH:-python3}" "$here/torch_bench.py" \
        "$OFFICIAL" "$1" "$2" "$3" "$size" "$frames" || echo
}

echo 'model,direction,precision,threads,size,run,gemm,whole,conv,network,fps,torch' \
    >"$out"
for model; do
    for precision in ${PRECISIONS:-fp32 bf16}; do
        for direction in ${DIRECTIONS:-decode encode}; do
            run=0
            while [ "$run" -lt "$runs" ]; do
                run=$((run + 1))
                products=$(beside "$model" "$direction" "$precision")
                mine=$(ours "$model" "$direction" "$precision")
                other=$(torch "$model" "$direction" "$precision")
                line="$model,$direction,$precision,$threads,$size,$run"
                echo "$line,$products,$mine,$other" | tee -a "$out" >&2
            done
        done
    done
done
sh "$here/table.sh" "$out"

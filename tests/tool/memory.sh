#!/bin/sh
# A limit on the process's memory ends in an answer, whatever the limit.
# usage: memory.sh VAETOOL FOLDER   (FOLDER is made, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

# limited KIB COMMAND...
limited() {
    # shellcheck disable=SC3045 # dash and bash know -v
    (ulimit -v "$1" && shift && exec "$@")
}

if ! limited 4000000 "$tool" --version >"$out/log" 2>&1; then
    echo "skipped: no limit on address space can be set: $(cat "$out/log")"
    exit 77
fi

wan=$data/wan21/weights.safetensors
check "a picture past the limit" 3 limited 1000000 "$tool" plan \
    --model "$wan" --size 1920x1088 --threads 2
says "vaetool: 1920x1088" "needs" "weights" "activations" \
    "free within this process's limits (ulimit -v, -d)" \
    "take a smaller picture" "or raise the limit"
check "a smaller one" 0 limited 1000000 "$tool" plan --model "$wan" \
    --size 192x128 --threads 2
check "no room for threads" 3 limited 200000 "$tool" plan --model "$wan" \
    --size 192x128 --threads 2 --backend cpu
says "leave no memory for 2 threads"

# One latent of 52x30, and of a full-size network, whose libraries take memory
# of their own.
check "weights" 0 "$tool" make-weights taew2_1 "$out/tae.safetensors"
head -c $((16 * 30 * 52 * 4)) /dev/zero | tensor "$out/latent.safetensors" \
    latent F32 16,1,30,52
limit=150000
while [ $limit -le 1050000 ]; do
    limited $limit "$tool" decode --model "$out/tae.safetensors" --threads 2 \
        "$out/latent.safetensors" "$out/frames.safetensors" >"$out/log" 2>&1
    code=$?
    case $code in
    0) ;;
    3) true_that "  in words" grep -q '^vaetool: ..' "$out/log" ;;
    *) sed 's/^/     | /;40q' "$out/log" ;;
    esac
    true_that "$limit KiB end with $code" [ $code -eq 0 -o $code -eq 3 ]
    limit=$((limit + 50000))
done
true_that "the last was enough" test $code -eq 0

finish

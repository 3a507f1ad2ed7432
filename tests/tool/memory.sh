#!/bin/sh
# Tests vaetool with limits on the memory of the process: each run must end with a
# result or an error.
# usage: memory.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

# limited KIB COMMAND...: runs a command in this much address space.
limited() {
    # shellcheck disable=SC3045 # dash and bash have -v
    (ulimit -v "$1" && shift && exec "$@")
}

if ! limited 4000000 "$tool" --version >log 2>&1; then
    echo "skipped: no limit on address space can be set: $(cat log)"
    exit 77
fi
# Plain C takes minutes for these decodes.
if ! "$tool" plan --backend cpu --arch taew2_1 --size 16x16 >log 2>&1; then
    echo "skipped: $(cat log)"
    exit 77
fi

check "a picture that exceeds the limit" 3 limited 1000000 "$tool" plan \
    --model "$wan" --size 1920x1088 --threads 2
says "vaetool: decode of 1920x1088 in " "needs more than" "activations" "weights and others not counted" \
    "free within this process's limits (ulimit -v, -d)" \
    "settings that would fit: " "; or raise the limit"

echo "# the suggested settings fit"
demo=$here/../../pipelines/demo/demo.safetensors
# peak OPTION...: prints the MiB that the decoder needs, without a limit.
peak() {
    "$tool" plan --backend cpu --arch taew2_1 --threads 2 "$@" | awk '
        /^(de|en)code/ { decode = /^decode/ }
        decode && $1 == "peak" { printf "%.1f\n", $2 / 1048576 }'
}
# said PATTERN: prints the part of the refusal that \(\) in PATTERN matches.
said() {
    sed -n "s/.*$1.*/\1/p" refused
}
less() { # A B: A <= B
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'
}
check "slices that exceed the limit" 3 limited 960000 "$tool" plan --backend cpu \
    --arch taew2_1 --size 416x240 --threads 2 --precision fp32 --slice 4
says "decode of 416x240 in fp32 with 4 latent steps per slice needs " \
    "settings that would fit: slice size " " MiB), or " "; or raise the limit"
says_not "backend cpu"
mv log refused
free=$(said ' and \([0-9.]*\) MiB are free')
steps=$(said 'slice size \([0-9]*\) ([0-9.]* MiB)')
slice=$(said 'slice size [0-9]* (\([0-9.]*\) MiB)')
narrow=$(said 'precision bf16 (\([0-9.]*\) MiB)')
size=$(said ' \([0-9]*x[0-9]*\) ([0-9.]* MiB)')
bytes=$(said ' [0-9]*x[0-9]* (\([0-9.]*\) MiB)')
true_that "of slice size $steps $slice MiB of $free" less "$slice" "$free"
true_that "as planned" test "$slice" = \
    "$(peak --size 416x240 --precision fp32 --slice "$steps")"
true_that "the largest, since one more does not fit" less "$free" \
    "$(peak --size 416x240 --precision fp32 --slice $((steps + 1)))"
true_that "of a smaller size $bytes MiB" less "$bytes" "$free"
true_that "as planned for $size" test "$bytes" = \
    "$(peak --size "$size" --precision fp32 --slice 4)"
units=$((${size%x*} / 8 + 1))
larger=$((units * 8))x$((30 * units / 52 * 8))
true_that "the largest, since $larger does not fit" less "$free" \
    "$(peak --size $larger --precision fp32 --slice 4)"
if "$tool" plan --arch taew2_1 --size 16x16 --backend cpu --precision bf16 \
    >log 2>&1; then
    true_that "of bf16 $narrow MiB" less "$narrow" "$free"
    true_that "as planned" test "$narrow" = \
        "$(peak --size 416x240 --precision bf16 --slice 4)"
    check "a ladder" 0 plan --backend cpu --model "$demo" --size 208x120 \
        --precision bf16 --threads 2
    least=$(awk '/^encode/ { exit }
        $1 == "slices" && match($0, /peak [0-9]+/) {
            bytes = 0 + substr($0, RSTART + 5, RLENGTH - 5)
            if (!least || bytes < least)
                least = bytes
        }
        END { tenths = least * 10 / 1048576
            whole = int(tenths)
            printf "%.1f", (whole + (tenths > whole)) / 10 }' log)
    check "less memory than any rung needs" 3 plan --backend cpu --model \
        "$demo" --size 208x120 --precision bf16 --threads 2 --memory-limit 20M
    says "needs $least MiB (weights"
    for arch in ltx2.0 ltx2.3; do
        check "$arch decodes 1920x1080 in 5 GiB" 0 plan --arch $arch --backend \
            cpu --precision bf16 --memory-limit 5G --size 1920x1080
    done
fi

echo "# without AVX2, oneDNN has no strips with the same bytes for some layers"
for isa in SSE41 ALL; do
    check "a plan in strips with $isa" 0 env ONEDNN_MAX_CPU_ISA=$isa "$tool" plan \
        --model "$wan" --backend cpu --precision fp32 --size 64x64 --strips 4
    true_that "  names the strips, or the layers without" \
        grep -Eq 'slices of 4.*, ([0-9]* large layers? not in|4) strips' log
done

echo "# tiles, which are not exact"
latents=$data/wan21/decode_t1_6x10.safetensors
check "a plan in tiles" 0 plan --arch taew2_1 --size 416x240 --tiles blend \
    --tile-size 128x96 --tile-overlap 32
says "tiles of 128x96 (not exact)" "tiles on host"
check "a decode in tiles" 0 "$tool" decode --model "$wan" --tiles blend \
    --tile-size 32 --tile-overlap 8 "$latents" tiles.safetensors
says "vaetool: warning: the picture is not exact: 80x48 pixels are computed in " \
    "tiles of 32x32, which overlap by 8 pixels"
check "without a tile size, a picture that fits has no tiles" 0 "$tool" decode \
    --model "$wan" --tiles blend "$latents" whole.safetensors
says_not "warning"
check "tiles give another picture" 1 compare tiles.safetensors \
    whole.safetensors --max-abs 1e-3
check "--tile-overlap -1: no overlap" 0 plan --arch taew2_1 --size 416x240 \
    --tiles blend --tile-size 128x96 --tile-overlap -1
says ", 12 tiles of 128x96 (not exact)"
check "--tile-overlap 0: the default overlap" 0 plan --arch taew2_1 --size \
    416x240 --tiles blend --tile-size 128x96 --tile-overlap 0
says ", 16 tiles of 128x96 (not exact)"
check "a size of tiles without tiles" 2 plan --arch taew2_1 --size 416x240 \
    --tile-size 128
says "vaetool plan: --tile-size needs --tiles blend"
check "an overlap without tiles" 2 plan --arch taew2_1 --size 416x240 \
    --tile-overlap -1
says "vaetool plan: --tile-overlap needs --tiles blend"
check "a wrong size of tiles" 2 "$tool" decode --model "$wan" --tiles blend \
    --tile-size 32xx "$latents" tiles.safetensors
check "a tile size that is no multiple of a latent pixel" 3 "$tool" decode \
    --model "$wan" --tiles blend --tile-size 30 "$latents" tiles.safetensors
says "a tile width of 30 pixels, expected a multiple of 8"

echo "# the smaller tiles of latents fit"
set -- plan --backend ref --arch hunyuan1.0 --size 128x128
check "large tiles of latents that do not fit" 3 "$tool" "$@" \
    --tile-plan official --memory-limit 2G
says "settings that would fit: " "tile plan diffusers, with other results (1"
check "small ones that do" 0 "$tool" "$@" --memory-limit 2G
says "  keys, values "
says_not "history"

echo "# with little memory left, the suggestion and the encoder are planned, too"
# The free part of a limit depends on how much this system's libraries map. By
# chance a thread makes a heap of its own, which reserves 64 MiB of addresses.
export MALLOC_ARENA_MAX=1
limit=340000
while [ $limit -le 900000 ]; do
    check "a picture that exceeds $limit KiB" 3 limited $limit "$tool" plan \
        --model "$demo" --size 416x240 --precision fp32 --threads 2 --backend cpu
    ! grep -q 'settings that would fit: .*\<3[0-9]*x' log || break
    limit=$((limit + 20000))
done
true_that "  of 3.. pixels" grep -q 'settings that would fit: .*\<3[0-9]*x' log
check "both directions" 0 limited $limit "$tool" plan --model "$demo" \
    --size 208x120 --precision fp32 --threads 2 --slice 1 --backend cpu
unset MALLOC_ARENA_MAX

check "a smaller picture" 0 limited 1000000 "$tool" plan --model "$wan" \
    --size 192x128 --threads 2
check "no memory for threads" 3 limited 200000 "$tool" plan --model "$wan" \
    --size 192x128 --threads 2 --backend cpu
says "leave no memory for 2 threads"

# Decodes one latent of 52x30 by a full-size network. The libraries need memory of
# their own.
check "weights" 0 "$tool" make-weights taew2_1 tae.safetensors
head -c $((16 * 30 * 52 * 4)) /dev/zero | tensor latent.safetensors latent F32 \
    16,1,30,52
limit=150000
while [ $limit -le 1050000 ]; do
    limited $limit "$tool" decode --model tae.safetensors --threads 2 \
        latent.safetensors frames.safetensors >log 2>&1
    code=$?
    case $code in
    0) ;;
    3)
        true_that "  with an error of vaetool" grep -q '^vaetool: ..' log
        true_that "  the error names no limit that was not set" test \
            "$(grep -c 'the memory limit is' log)" = 0
        ;;
    *) sed 's/^/     | /;40q' log ;;
    esac
    true_that "$limit KiB end with $code" [ $code -eq 0 -o $code -eq 3 ]
    limit=$((limit + 50000))
done
true_that "the last limit was enough" test $code -eq 0

finish

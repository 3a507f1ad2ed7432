#!/bin/sh
# Decodes the first latents of the demo with vaetool, by the CUDA backend on the
# emulated device and by another backend, and compares the results.
#
#   vaetool.sh VAETOOL FOLDER HOST    FOLDER is made, and removed at the end;
#                                     HOST: cpu or ref
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/../tool/checks.sh"
host=$3
demo=$(dirname "$0")/../../pipelines/demo

# Writes the upper left corner of the first LATENTS latents, [t, 16, 30, 52] of
# F16.
LATENTS=2
ROWS=2
COLUMNS=16
row=$((52 * 2))
plane=$((30 * row))
start=$(($(wc -c <"$demo/latents.safetensors") - 9 * 16 * plane))
i=0
while [ $i -lt $((LATENTS * 16 * ROWS)) ]; do
    at=$((start + i / ROWS * plane + i % ROWS * row))
    tail -c +$((at + 1)) "$demo/latents.safetensors" | head -c $((COLUMNS * 2))
    i=$((i + 1))
done | tensor "$out/latents.safetensors" latent F16 \
    "$LATENTS,16,$ROWS,$COLUMNS" \
    '{"vae.layout":"tchw","vae.latent_space":"gst-vae-demo"}'

# decode MODEL BACKEND PRECISION: decodes to $out/BACKEND.safetensors.
decode() {
    check "decode with $1 by $2 in $3" 0 "$tool" decode \
        --model "$demo/$1.safetensors" --backend "$2" --precision "$3" \
        --slice 1 "$out/latents.safetensors" "$out/$2.safetensors"
}

for model in demo demo-tiny; do
    decode $model "$host" fp32
    decode $model cuda fp32
    # This is the bound of fp32 against the original networks.
    check "both backends agree to 1e-4" 0 "$tool" compare --max-abs 1e-4 \
        "$out/$host.safetensors" "$out/cuda.safetensors"
done
decode demo-tiny cuda bf16
check "bf16 does not" 1 "$tool" compare --max-abs 1e-4 \
    "$out/$host.safetensors" "$out/cuda.safetensors"
check "auto takes the emulated device" 0 "$tool" plan \
    --model "$demo/demo-tiny.safetensors" --size 64x64
says "decode: cuda"
check "the device's number" 0 "$tool" plan --device 0 --backend cuda \
    --verbose --model "$demo/demo-tiny.safetensors" --size 64x48
says "decode: cuda device 0 (the emulated device), bf16, 64x48, slices of 4"
check "a profile" 0 "$tool" bench --backend cuda --precision bf16 --profile \
    --model "$demo/demo-tiny.safetensors" --size 32x32 --frames 5
says "GFLOP/s" "GB/s" "share%"
check "a device that is not there" 3 "$tool" plan --device 7 --backend cuda \
    --model "$demo/demo-tiny.safetensors" --size 64x64
says "there is no CUDA device 7"
check "auto does not take it either" 0 "$tool" plan --device 7 \
    --model "$demo/demo-tiny.safetensors" --size 64x64
says "decode: $host" "vaetool: warning: device 7 was asked for, and the $host" \
    "backend is taken: backend cuda is not taken: there is no CUDA device 7"
check "a device that is there" 0 "$tool" plan --device 0 \
    --model "$demo/demo-tiny.safetensors" --size 64x64
says_not "warning"
check "the ladder, of which only tiles fit" 0 "$tool" plan \
    --arch wan2.1 --size 640x480 --precision bf16 --tiles blend \
    --memory-limit 250M
says "(not exact), 640x480 inside" "  slices of 4: peak " \
    "  slices of 1, 1 frame at once, 16 strips, the carries on the host: peak "
says_not "chosen" "  slices of 4, "
check "the ladder, of which nothing fits" 3 "$tool" plan --arch wan2.1 \
    --size 640x480 --precision bf16 --spill host --memory-limit 200M
says "  slices of 4, the carries on the host: peak " "settings that would fit"
says_not "chosen" "  slices of 4: peak"
check "whole pictures, as set, do not fit" 3 "$tool" plan --arch wan2.1 \
    --size 640x480 --precision bf16 --strips 1 --frames-at-once 9 \
    --spill off --slice 1 --memory-limit 2G
says "settings that would fit: " "spill host (" "strips 0 and frames at once 0 ("

# The own kernels are the fastest for some layers.
XDG_CACHE_HOME=$(cd "$out" && pwd)/cache
export XDG_CACHE_HOME
set -- bench --backend cuda --arch taew2_1 --precision bf16 --size 16x16 \
    --frames 1 --verbose
check "a first start" 0 "$tool" "$@"
says ": by own " " wgmma up, " "timed convolutions kept in"
check "the next one, which times nothing" 0 "$tool" "$@"
says "opened in "
says_not ": by " "is not used" "kept in"
finish

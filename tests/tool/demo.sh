#!/bin/sh
# Tests the demo model in 16 bits. Its weights are exact in 16 bits, so latents and
# frames differ from those of fp32 only by rounding.
# usage: demo.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

demo=$here/../../pipelines/demo
# run COMMAND PRECISION FILE...
run() {
    command=$1
    precision=$2
    shift 2
    "$tool" "$command" --model "$demo/demo.safetensors" --backend cpu \
        --precision "$precision" "$@"
}
if ! run plan bf16 --size 16x16 >"$out/log" 2>&1; then
    echo "skipped: $(cat "$out/log")"
    exit 77
fi

frames() { echo "$out/frames-$1.safetensors"; }
latents() { echo "$out/latents-$1.safetensors"; }
for type in fp32 bf16; do
    check "decode in $type" 0 run decode $type "$demo/latents.safetensors" \
        "$(frames $type)"
    check "encode in $type" 0 run encode $type "$(frames fp32)" \
        "$(latents $type)"
done
check "frames of both" 0 "$tool" compare --min-psnr 56 "$(frames fp32)" \
    "$(frames bf16)"
check "latents of both" 0 "$tool" compare --tensor latent --min-psnr 60 \
    "$(latents fp32)" "$(latents bf16)"
finish

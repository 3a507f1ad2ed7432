#!/bin/sh
# Decodes a clip with pipelines/examples/minimal.c and compares its bytes with
# the floats that vaetool writes: each is the nearest of 256 codes.
#
#   sh minimal.sh VAETOOL MINIMAL DEMO FOLDER
#
# Exit status 77: python3 is not there.
set -eu
vaetool=$1 minimal=$2 demo=$3 folder=$4
command -v python3 >/dev/null || {
    echo 'skipped: no python3'
    exit 77
}
rm -rf "$folder"
mkdir -p "$folder"

if "$minimal" 2>"$folder/said" || ! grep -q '^minimal: usage:' "$folder/said"; then
    echo "FAILED: without arguments: $(cat "$folder/said")" >&2
    exit 1
fi
"$vaetool" decode --model "$demo/demo-tiny.safetensors" \
    "$demo/latents.safetensors" "$folder/frames.safetensors"
"$minimal" "$demo/demo-tiny.safetensors" "$demo/latents.safetensors" \
    >"$folder/frames.rgb"

python3 - "$folder/frames.safetensors" "$folder/frames.rgb" <<'END'
import array
import json
import sys

with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    floats = array.array("f", file.read())
with open(sys.argv[2], "rb") as file:
    codes = file.read()
low, high = map(float,
                header["__metadata__"]["vae.pixel_range"].split())
frames, height, width, _ = header["frames"]["shape"]
assert frames == 33 and len(codes) == len(floats), (frames, len(codes))
scale = 255 / (high - low)
# Every seventh number will do: half a code, and the rounding of the product in float.
worst = max(abs(min(max((value - low) * scale, 0), 255) - code)
            for value, code in zip(floats[::7], codes[::7]))
print(f"{frames} frames of {width}x{height}, at most {worst:.6f} of a code")
assert worst <= 0.5 + 1e-4, worst
END

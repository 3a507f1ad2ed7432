#!/bin/sh
# Tests pipelines/examples/minimal.c. It decodes a clip, and each byte must be the
# code, of 256, that is nearest to the float that vaetool writes. Also tests clips
# that state another size, no size or fewer frames, and a build with pkg-config from the
# build folder.
#
#   sh minimal.sh VAETOOL MINIMAL DEMO FOLDER
#
# Exit status 77: python3 is missing.
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
# A byte may be off by half a code, and by the rounding of the product in float. Every
# seventh number is enough.
worst = max(abs(min(max((value - low) * scale, 0), 255) - code)
            for value, code in zip(floats[::7], codes[::7]))
print(f"{frames} frames of {width}x{height}, at most {worst:.6f} of a code")
assert worst <= 0.5 + 1e-4, worst
END

# stating KEY VALUE...: writes a copy of the clip with these values in its metadata. An
# empty value removes the key.
stating() {
    python3 - "$demo/latents.safetensors" "$folder/stating.safetensors" "$@" <<'END'
import json
import sys

source, out, *pairs = sys.argv[1:]
with open(source, "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    data = file.read()
for key, value in zip(pairs[::2], pairs[1::2]):
    header["__metadata__"][key] = value
    if not value:
        del header["__metadata__"][key]
text = json.dumps(header).encode()
with open(out, "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + data)
END
}

stating vae.height 480
if "$minimal" "$demo/demo-tiny.safetensors" "$folder/stating.safetensors" \
    >"$folder/wrong.rgb" 2>"$folder/said" ||
    ! grep -q 'the latents have a grid of' "$folder/said"; then
    echo "FAILED: latents of another size: $(cat "$folder/said")" >&2
    exit 1
fi

# The visible size of this clip is that of its latents. Some frames are enough: then head
# ends, and the program with it.
stating vae.width '' vae.height ''
head -c 200000 "$folder/frames.rgb" >"$folder/some.rgb"
"$minimal" "$demo/demo-tiny.safetensors" "$folder/stating.safetensors" |
    head -c 200000 | cmp - "$folder/some.rgb" || {
    echo 'FAILED: a clip that states no size' >&2
    exit 1
}

stating vae.frames 31
"$minimal" "$demo/demo-tiny.safetensors" "$folder/stating.safetensors" \
    >"$folder/fewer.rgb"
bytes=$(($(wc -c <"$folder/frames.rgb") / 33 * 31))
head -c "$bytes" "$folder/frames.rgb" | cmp - "$folder/fewer.rgb" || {
    echo 'FAILED: a clip of 31 frames' >&2
    exit 1
}

# A program without a sanitizer cannot load a library that was built with it.
if command -v pkg-config >/dev/null && ! grep -q '__[at]san_init' "$minimal"; then
    flags=$(PKG_CONFIG_PATH=$VAE_TEST_BUILD/meson-uninstalled \
        pkg-config --cflags --libs libvae)
    compilers='cc -std=c11 -Wpedantic'
    ! command -v clang >/dev/null || compilers="$compilers
clang -std=c11 -Wpedantic"
    # g++ accepts designated initializers in C++17 as an extension.
    ! command -v g++ >/dev/null || compilers="$compilers
g++ -x c++ -std=c++17 -Wno-missing-field-initializers"
    echo "$compilers" | while read -r compiler; do
        # shellcheck disable=SC2086 # several options
        $compiler -Wall -Wextra -Werror "$demo/../examples/minimal.c" \
            -o "$folder/built" $flags
        "$folder/built" "$demo/demo-tiny.safetensors" \
            "$folder/stating.safetensors" | head -c 200000 | cmp - "$folder/some.rgb"
    done
fi

#!/bin/sh
# Tests what vaetool says of mistakes that are easy to make. What it advises must work.
# usage: advice.sh VAETOOL FOLDER   (FOLDER is created, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"

latents=$data/wan21/decode_t1_6x10.safetensors

echo "# standard input"
check "info -" 2 info -
says "vaetool info: \"-\" for an input" "./- for a file of this name"
check "decode -" 2 decode - x.npy
check "encode -" 2 encode - x.npy
check "compare -" 2 compare "$wan" -
check "compare --stream -" 2 compare --stream - x.ppm
check "--model -" 2 by - decode "$latents" x.npy
cp "$wan" ./-
check "info ./-" 0 info ./-

echo "# links without a target"
ln -s none/x link.safetensors
for command in "info link.safetensors" "decode link.safetensors x.npy" \
    "encode link.safetensors x.npy" "compare link.safetensors $wan" \
    "by link.safetensors decode $latents x.npy"; do
    # shellcheck disable=SC2086 # words
    check "$command" 3 $command
    says "link.safetensors: is a symbolic link to none/x, which does not exist"
done

echo "# latent spaces"
check "an unknown space" 3 decode --latent-space wan21 "$latents" x.npy
says "the latent space is wan21, which is not known" \
    "set latent-space to wan2.1"
check "its advice" 0 decode --latent-space wan2.1 "$latents" x.npy
check "another space" 3 decode --model "$wan" --latent-space wan2.2 "$latents" x.npy
says "expects wan2.1; use a model of wan2.2, or to override it, set latent-space to wan2.1"
check "info" 0 info --latent-space Wan2_1 "$latents"
says "latent space Wan2_1, which is not known (the nearest is wan2.1)"

echo "# files of ComfyUI"
filled 0 c.latent latent_tensor F32 1,16,1,4,4
check "without a mark" 0 decode c.latent x.npy
says "the file has no latent_format_version_0: it is taken as normalized"
says_not "states no normalization"

echo "# shards and folders"
mkdir folder
cp "$wan" folder/my.safetensors
check "one file of weights" 0 decode --model folder "$latents" x.npy
check "  in Info" 0 info folder/
says "model: wan2.1"
cp "$latents" folder/other.safetensors
check "two files" 3 info folder
says "folder: is a directory with 2 files that may be weights (" \
    "my.safetensors" "other.safetensors" "expected the path of one"
mkdir -p taehv_models/vae wan2.1
sed 's/"variant":/"rariant":/' "$data/taehv/taew2_1/weights.safetensors" \
    >taehv_models/vae/diffusion_pytorch_model.safetensors
check "a folder with the name of a variant" 0 info taehv_models
says "model: taehv" "of its tensors, and the name of the folder)"
cp taehv_models/vae/*.safetensors wan2.1/weights.safetensors
check "a folder with the name of a space" 0 info wan2.1
says "model: taew2_1" \
    "and the name of the folder, the same as those of lighttaew2_1: variant"
mv wan2.1/weights.safetensors wan2.1/lighttaew2_1.safetensors
check "a file in it with the name of a variant" 0 info wan2.1
says "model: lighttaew2_1" "of its tensors, and the name of the file)"
mkdir shards
for part in 1 2; do
    head -c 4 /dev/zero | tensor "shards/m-0000$part-of-00002.safetensors" \
        "decoder.conv$part.bias" F32 1
done
for file in shards shards/m-00001-of-00002.safetensors; do
    check "$file" 3 by "$file" decode "$latents" x.npy
    says " of 2 of a model; expected their index, *.index.json, which this"
done
printf '{"weight_map": {"decoder.conv1.bias": "m-00001-of-00002.safetensors",
    "decoder.conv2.bias": "m-00002-of-00002.safetensors"}}' \
    >shards/m.safetensors.index.json
check "a shard beside its index" 3 info shards/m-00001-of-00002.safetensors
says "is shard 1 of 2 of a model; expected their index, m.safetensors.index.json"
check "a folder with an index" 3 info shards
says "shards: weights of no known VAE"

echo "# installed models"
models=$out/own/gst-vae/models
export XDG_DATA_HOME="$out/own" XDG_DATA_DIRS="$out/none"
mkdir -p "$models/wan2.1" "$models/seedvr2"
cp "$wan" "$models/wan2.1/diffusion_pytorch_model.safetensors"
check "a folder" 0 "$tool" models
says "$models/wan2.1: wan2.1, latent space wan2.1" \
    "$models/seedvr2: not usable: " "seedvr2: is a directory with neither"
printf 'GGUF%60s' x >"$models/wan2.2.gguf"
check "a file that no reader takes" 0 "$tool" models
says "$models/wan2.2.gguf: not usable: " "is a GGUF file"
check "  by its space" 3 decode --latent-space wan2.2 "$latents" x.npy
cp "$wan" "$models/wan2.1.pth"
check "a .pth beside it" 0 "$tool" models
says "$models/wan2.1.pth: wan2.1, latent space wan2.1" \
    "$models/wan2.1: wan2.1, latent space wan2.1; hidden by $models/wan2.1.pth"
cp "$wan" "$models/wan2.1.safetensors"
check "a .safetensors beside them" 0 "$tool" models
says "$models/wan2.1.pth: wan2.1, latent space wan2.1; hidden by $models/wan2.1.s"
rm -r "$models"/wan2.1*
sed 's/"variant":/"rariant":/' "$data/taehv/taew2_1/weights.safetensors" \
    >"$models/wan2.1.safetensors"
check "one of several variants" 0 by "$models/wan2.1.safetensors" decode "$latents" \
    x.npy
says "name the file after it, such as taew2_1.safetensors in a folder wan2.1"
mkdir "$models/wan2.1"
mv "$models/wan2.1.safetensors" "$models/wan2.1/taew2_1.safetensors"
check "its advice" 0 by "$models/wan2.1" decode "$latents" x.npy
says_not "several networks"
check "  in models" 0 "$tool" models
says "$models/wan2.1: taew2_1, latent space wan2.1"
unset XDG_DATA_HOME XDG_DATA_DIRS

echo "# ranges of frames"
# bounds LEAST GREATEST: writes f.npy, a black frame with two other values.
bounds() {
    # shellcheck disable=SC2059 # the bytes of the values
    { head -c 3064 /dev/zero && printf "$1$2"; } | npy f.npy "1, 16, 16, 3"
}
bounds '\315\314\314\276' '\146\146\177\103' # -0.4, 255.4
check "bytes, sharpened" 0 encode f.npy x.safetensors
says "are from -0.4 to 255.4: if black and white are \"0 255\", set pixel-range to"
check "its advice" 0 encode --pixel-range "0 255" f.npy x.safetensors
says_not "warning"
bounds '\0\0\0\300' '\0\0\0\100' # -2, 2
check "another range" 0 encode f.npy x.safetensors
says "from -2 to 2: if this is not their range, set pixel-range to the values of black"
bounds '\0\0\0\0' '\0\377\177\107' # 0, 65535
check "16 bits" 0 encode f.npy x.safetensors
says "from 0 to 65535: if this is not their range, set pixel-range to the values"
check "its advice" 0 encode --pixel-range "0 65535" f.npy x.safetensors
says_not "warning"

echo "# names of outputs"
check "frames for ComfyUI" 3 decode "$latents" x.latent
says "not as .latent"
says_not "ffmpeg"
check "another video" 3 decode "$latents" x.mp4
says "vaetool decode ... - | ffmpeg -i - OUT.mp4"

finish

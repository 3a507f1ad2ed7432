#!/bin/sh
# Tests run.sh on generated and small weights, with stored results of official
# code. usage: test.sh VAETOOL FOLDER   (FOLDER is made, and removed at the end)
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/../tool/checks.sh"
here=$(cd "$(dirname "$0")" && pwd)

for PYTHON in "${PYTHON:-python3}" /usr/bin/python3; do
    ! "$PYTHON" -c 'import numpy' 2>/dev/null || break
done
if ! "$PYTHON" -c 'import numpy' 2>/dev/null; then
    echo 'skipped: no python3-numpy'
    exit 77
fi
case $tool in
/*) VAETOOL=$tool ;;
*) VAETOOL=$(pwd)/$tool ;;
esac
export PYTHON VAETOOL PYTHONDONTWRITEBYTECODE=1
unset WEIGHTS OFFICIAL GOLDEN OUT CLIP SIZE FRAMES THREADS DEVICE

# official NAME=VALUE...
official() {
    (cd "$out" && env "$@" sh "$here/run.sh")
}

# python WORD...: runs a program from stdin that can import tensors.py.
python() {
    PYTHONPATH=$here "$PYTHON" - "$@"
}

echo "# usage"
check "--help" 0 sh "$here/run.sh" --help
says WEIGHTS OFFICIAL "Exit status"
check "no WEIGHTS" 2 official
says "WEIGHTS=FOLDER is missing"
check "no folder" 2 official WEIGHTS="$out/none"
says "$out/none: no such folder"
mkdir "$out/empty"
check "SIZE" 2 official WEIGHTS="$out/empty" SIZE=64
says "SIZE=64"
check "SIZE that some network does not take whole" 2 official \
    WEIGHTS="$out/empty" SIZE=416x240
says "multiples of 32"
check "no files" 77 official WEIGHTS="$out/empty"
says "0 files, 0 recognised" "nothing was checked: no file of $out/empty"
mkdir "$out/alone"
cp "$data/taehv/taew2_1/weights.safetensors" "$out/alone"
check "no official code" 77 official WEIGHTS="$out/alone" \
    OUT="$out/alone-report" SIZE=64x32 FRAMES=9
says "1 recognised" "nothing was checked: no official code ran"

mkdir "$out/code" "$out/ltx"
touch "$out/code/torch.py" "$out/code/taehv.py"
cp "$data/ltx2_3/weights.safetensors" "$out/ltx"
cp "$data/taef2/weights.safetensors" "$out/ltx/taef2.safetensors"
cp "$data/magi2_turbo/weights.safetensors" "$out/ltx/magi.ckpt"
check "a network whose official code it cannot run" 77 official \
    WEIGHTS="$out/ltx" OUT="$out/ltx-report" SIZE=64x32 FRAMES=9 \
    PYTHONPATH="$out/code" OFFICIAL="$out/code"
says "official: not run (needs the config.json of AutoencoderKLLTX2Video of diffusers" \
    ", or a checkout of Lightricks/LTX-2 in OFFICIAL" \
    "magi.ckpt: magi2_turbo, float32, fingerprint" \
    "official: not run (needs a checkout of SandAI-org/MAGI-2-preview in" \
    "taef2.safetensors: taef2, float32, fingerprint" \
    "official: not run (needs a checkout of madebyollin/taesd in OFFICIAL)"
rm "$out/ltx/magi.ckpt"
check "its stored results, of which one has no whole frames" 0 official \
    WEIGHTS="$out/ltx" OUT="$out/ltx-report" SIZE=64x32 FRAMES=9 \
    GOLDEN="$data"
says "decode, cpu, fp32, 96x32, 9 frames" "decode, cpu, fp32, 80x48, 1 frames" \
    "0 failed or past a bound"

echo "# files as people have them"
weights=$out/weights
mkdir -p "$weights/sub folder"
check "a full-size network" 0 "$tool" make-weights taew2_1 \
    "$weights/renamed.safetensors" --dtype bf16
"$PYTHON" "$here/make_pth.py" "$data/wan21/weights.safetensors" \
    "$weights/sub folder/small.pth"
# The folder of a diffusion model has a config.json that is not of the VAE.
echo '{"_class_name": "WanModel"}' >"$weights/sub folder/config.json"
cp "$data/taehv/taew2_1/weights.safetensors" "$weights/tiny.safetensors"
# Changes one number of the last tensor.
size=$(wc -c <"$data/seedvr2/weights.safetensors")
{
    head -c $((size - 4)) "$data/seedvr2/weights.safetensors"
    printf '\0\0\200\77'
} >"$weights/changed.safetensors"
cp "$data/wan21/decode_t1_6x10.safetensors" "$weights/latents.safetensors"
echo 'no weights' >"$weights/text.pth"
check "run" 0 official WEIGHTS="$weights" GOLDEN="$data" SIZE=64x32 FRAMES=9 \
    THREADS=2
cat "$out/log"
says "renamed.safetensors: taew2_1, bfloat16, fingerprint" \
    "official: not run (needs a checkout of madebyollin/taehv in OFFICIAL" \
    "sub folder/small.pth: wan2.1, float32, fingerprint 96d488c03333fbed94e4b46f11f1240" \
    "official: golden vectors (needs the config.json of AutoencoderKLWan" \
    "beside the file" ", or a checkout of Wan-Video/Wan2.1 in OFFICIAL" \
    "latents.safetensors: skipped" "text.pth: skipped" "agrees" \
    "6 files, 4 recognised"
says_not "PAST ITS BOUND" FAILED
report=$out/official-report
true_that "one picture for each decoder, one report" test \
    "$(find "$report" -type f | wc -l)" = 5
for file in renamed.safetensors "sub folder-small.pth" tiny.safetensors \
    changed.safetensors; do
    true_that "$file.png" test "$(head -c 4 "$report/$file.png" |
        tail -c 3)" = PNG
done
python "$report/report.json" "$weights" >"$out/log" 2>&1 <<'END'
import json, os, subprocess, sys
with open(sys.argv[1]) as f:
    report = json.load(f)
assert {'processor', 'threads', 'vaetool', 'source'} <= set(report['machine'])
files = {f['file']: f for f in report['files']}
assert 'arch' not in files['text.pth'] and files['text.pth']['skipped']
for name in 'sub folder/small.pth', 'tiny.safetensors':
    runs = files[name]['runs']
    assert {r['direction'] for r in runs} == {'encode', 'decode'}, runs
    for r in runs:
        assert r['agrees'] and r['fps'] > 0 and r['peak_memory'] > 1e6, r
        assert r['precision'] != 'fp32' or r['against_official']['max_abs'] < 1e-4, r
        assert r['direction'] == 'encode' or r['against_official']['ssim'] > 0.9, r
full = files['renamed.safetensors']['runs']
assert {(r['frames'], r['size']) for r in full} == {(9, '64x32')}, full
assert all('agrees' not in r for r in full)
assert all('clip' in r for r in full if r['direction'] == 'decode')
assert all(r['plan_bytes'] > 1e6 for r in full)
assert all('agrees' not in r for r in files['changed.safetensors']['runs'])
END
check "the report" 0 test ! -s "$out/log"

echo "# results that are not those of the weights"
mkdir -p "$out/golden" "$out/one"
cp "$data/wan21/weights.safetensors" "$out/golden"
cp "$data/wan21/weights.safetensors" "$out/one/wan.safetensors"
python "$data/wan21/decode_t1_6x10.safetensors" \
    "$out/golden/decode_bad.safetensors" <<'END'
import sys
from tensors import read, write
t = read(sys.argv[1])
write(sys.argv[2], {'latent': t['latent'], 'frames': t['frames'][:, ::-1].copy()})
END
check "are told" 1 official WEIGHTS="$out/one" GOLDEN="$out/golden" \
    OUT="$out/bad"
says "PAST ITS BOUND" "failed or past a bound"

echo "# code that cannot be run"
mkdir "$out/single"
cp "$out/alone/weights.safetensors" \
    "$data/taehv/taew2_1/decode_t1_6x10.safetensors" "$out/single"
check "no PyTorch, or no checkout" 0 official WEIGHTS="$out/alone" \
    GOLDEN="$out/single" OFFICIAL="$out/empty"
says "official: golden vectors (needs "

finish

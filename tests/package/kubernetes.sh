#!/bin/sh
# Runs the command of pipelines/kubernetes/decode-job.yaml as a pod would, for
# each index, kills it in between, and compares its frames with those of vaetool
# decode.
#
#   sh kubernetes.sh VAETOOL SOURCE
#
# Exit status 77: python3-yaml is missing.
set -eu
tool=$(realpath "$1")
source=$2
python3 -c 'import yaml' 2>/dev/null || {
    echo 'skipped: no python3-yaml'
    exit 77
}
. "$(dirname "$0")/scratch.sh"

python3 - "$source/pipelines/kubernetes/decode-job.yaml" >"$tmp/command" <<'END'
import sys
import yaml

job = yaml.safe_load(open(sys.argv[1]))
pod = job['spec']['template']['spec']
container = pod['containers'][0]
assert job['spec']['completionMode'] == 'Indexed'
assert pod['restartPolicy'] == 'Never'
claims = {v['name'] for v in pod['volumes']}
assert {m['name'] for m in container['volumeMounts']} <= claims
assert container['command'][:2] == ['sh', '-euc'] and len(container['command']) == 3
print(container['command'][2])
END

mkdir -p "$tmp/bin" "$tmp/pod/latents"
ln -s "$tool" "$tmp/bin/vaetool"
cd "$tmp/pod"
cp "$source/pipelines/demo/demo-tiny.safetensors" \
    model.safetensors
for n in 1 2 3; do
    cp "$source/pipelines/demo/latents.safetensors" latents/$n.safetensors
done
pod() { # INDEX
    PATH="$tmp/bin:$PATH" JOB_COMPLETION_INDEX=$1 MODEL=model.safetensors \
        timeout -s KILL "$2" sh -euc "$(cat "$tmp/command")"
}
"$tool" decode --model model.safetensors latents/1.safetensors \
    "$tmp/whole.safetensors"
for index in 0 1 2; do
    # cat ends when the killed vaetool has closed its output.
    pod $index 0.$((2 + 3 * index)) | cat
    pod $index 600 || fail "index $index"
    cmp "$tmp/whole.safetensors" frames/$((index + 1)).safetensors ||
        fail "frames of index $index"
done
pod 1 600 || fail 'what is done is done'
pod 3 600 2>"$tmp/said" || fail 'an index without a file'
grep -q 'nothing to do' "$tmp/said" || fail "$(cat "$tmp/said")"
[ "$(ls frames)" = "$(ls latents)" ] || fail "$(ls frames)"
echo ok

#!/bin/sh
# devices.sh VAETOOL FOLDER: vaetool decode --devices must give the bytes of one
# stream, and end cleanly if a segment fails.
set -u
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/../tool/checks.sh"
tiny=$data/taehv/taew2_1/weights.safetensors
net=$data/wan21/weights.safetensors

# clip FILE LATENTS: latents of 2x3 with weights for noise.
clip() {
    cat "$net" "$tiny" "$net" "$tiny" "$net" "$tiny" "$net" "$tiny" |
        head -c $(($2 * 16 * 2 * 3 * 4)) |
        tr '\000-\377' '\001-\077\001-\077\001-\077\001-\077\001-\077' |
        tensor "$1" latent F32 "16,$2,2,3"
}
clip "$out/short.safetensors" 60
clip "$out/long.safetensors" 130
decode() {
    "$tool" decode --threads 1 "$@"
}
same() { # NAME MODEL CLIP BACKEND DEVICES OPTION...
    name=$1 model=$2 clip=$3 backend=$4 devices=$5
    shift 5
    check "$name: one stream" 0 decode --backend "$backend" --model "$model" \
        "$clip" "$out/whole.safetensors"
    check "$name: $devices" 0 decode --devices "$devices" --verbose \
        --model "$model" "$@" "$clip" "$out/parts.safetensors"
    true_that "$name: has the same bytes" \
        cmp "$out/whole.safetensors" "$out/parts.safetensors"
}
same tiny "$tiny" "$out/short.safetensors" ref ref,ref
says "segment 0: latents 0 to 33, from 0 on" \
    "segment 1: latents 34 to 59, from 26 on"
same "tiny, slices of 3" "$tiny" "$out/long.safetensors" ref ref,ref,ref \
    --slice 3
says "segment 2: "
same wan "$net" "$out/long.safetensors" ref ref,ref
says "segment 1: latents 84 to 129, from 46 on"
same "too short to cut" "$net" "$out/short.safetensors" ref ref,ref
says "segment 0: latents 0 to 59"
same "one device" "$tiny" "$out/short.safetensors" ref ref
if "$tool" --backends | grep -q '^cpu: yes'; then
    same "cpu" "$tiny" "$out/short.safetensors" cpu cpu,cpu
fi

echo "# refused"
d="$out/short.safetensors $out/no.safetensors"
bad() { # NAME CODE TEXT OPTION...
    name=$1 code=$2 text=$3
    shift 3
    # shellcheck disable=SC2086 # two words
    check "$name" "$code" decode --model "$tiny" "$@" $d
    says "$text"
    true_that "$name: no file" test ! -e "$out/no.safetensors"
}
bad "no device" 2 "--devices \"\" is not valid" --devices ""
bad "an empty one" 2 "is not valid" --devices ref,
bad "auto" 2 "is not valid" --devices auto,auto
bad "two backends" 2 "all of one backend" --devices ref,0
bad "another backend" 2 "--devices is of the backend ref, but --backend cpu" \
    --devices ref,ref --backend cpu
bad "resumed" 2 "--devices and --resume exclude each other" \
    --devices ref,ref --resume
bad "one device, too" 2 "--devices and --device exclude each other" \
    --devices 0,1 --device 0
# Past a limit a write fails, as on a full disk.
limited() (
    ulimit -f $((150000 / 512))
    decode --devices ref,ref --model "$tiny" "$@"
)
check "no room for all frames" 3 limited "$out/short.safetensors" \
    "$out/no.safetensors"
says "no.safetensors" "cannot write"
true_that "leaves nothing" no_rest

echo "# interrupted"
"$tool" decode --devices ref,ref,ref --model "$net" "$out/long.safetensors" \
    "$out/no.safetensors" >"$out/log" 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && no_rest; do sleep 0.01; done
kill -TERM $pid
wait $pid
true_that "ends by SIGTERM" grep -qx 'vaetool: .*cancel.*\|vaetool: interrupted' \
    "$out/log"
true_that "and leaves nothing" no_rest
finish

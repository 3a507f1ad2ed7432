#!/bin/sh
# devices.sh VAETOOL FOLDER: vaetool decode --devices must give the bytes of one
# stream, end cleanly if a segment fails, and continue after a kill.
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
clip "$out/few.safetensors" 8
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
says "segment 0: latents 0 to 30, from 0 on" \
    "segment 1: latents 31 to 59, from 23 on"
same "tiny, slices of 3" "$tiny" "$out/long.safetensors" ref ref,ref,ref \
    --slice 3
says "segment 2: "
same wan "$net" "$out/long.safetensors" ref ref,ref
says "segment 1: latents 68 to 129, from 30 on"
same "shorter than the look-back" "$net" "$out/short.safetensors" ref ref,ref
says "segment 1: latents 33 to 59, from 0 on"
same "too short to cut" "$net" "$out/few.safetensors" ref ref,ref
says "segment 0: latents 0 to 7, from 0 on"
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
bad "another backend" 2 "--devices names devices of ref, but --backend is cpu" \
    --devices ref,ref --backend cpu
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

echo "# killed and resumed"
part=$out/no.safetensors.part
point=$out/no.safetensors.checkpoint
# Runs in the background; $! is the process itself.
start() { # DEVICES OPTION...
    devices=$1
    shift
    "$tool" decode --threads 1 --model "$net" --resume --devices "$devices" "$@" \
        "$out/long.safetensors" "$out/no.safetensors" >"$out/log" 2>&1 &
    pid=$!
}
check "one stream" 0 decode --backend ref --model "$net" \
    "$out/long.safetensors" "$out/whole.safetensors"
n=0
resumed=0
for devices in ref,ref,ref ref,ref,ref ref,ref ref ref,ref,ref; do
    n=$((n + 1))
    before=$(inode "$point")
    start $devices --checkpoint-interval 1
    until_changed "$point" "$before" $pid
    sleep "$(awk "BEGIN { srand($n); print rand() * 0.1 }")"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    if grep -q 'continuing: [1-9]' "$out/log"; then
        resumed=$((resumed + 1))
    fi
    if [ -e "$point" ] && [ ! -e "$out/kept" ]; then
        cp "$part" "$out/kept"
        check "info of what is there" 0 "$tool" info "$part"
        says "unfinished output: " "  done " "latents 130 latents" \
            "continue with: vaetool decode --resume"
        check "other weights" 3 decode --resume --devices ref,ref \
            --model "$tiny" "$out/long.safetensors" "$out/no.safetensors"
        says "$point" "the network"
        true_that "and nothing is touched" cmp "$part" "$out/kept"
    fi
done
true_that "some continued" test "$resumed" -gt 0
echo "$resumed of $n continued"
start ref,ref
wait $pid
true_that "the rest is decoded" cmp "$out/whole.safetensors" \
    "$out/no.safetensors"
true_that "and nothing else is left" no_rest
true_that "no checkpoint, too" test ! -e "$point"
rm "$out/no.safetensors"
check "no room for all frames" 3 limited --resume --checkpoint-interval 1 \
    "$out/short.safetensors" "$out/no.safetensors"
says "no.safetensors" "cannot write"
true_that "keeps what is done" test -e "$part"
check "with room" 0 decode --devices ref,ref --resume --model "$tiny" \
    "$out/short.safetensors" "$out/no.safetensors"
check "one stream" 0 decode --backend ref --model "$tiny" \
    "$out/short.safetensors" "$out/whole.safetensors"
true_that "gives the same" cmp "$out/whole.safetensors" "$out/no.safetensors"
finish

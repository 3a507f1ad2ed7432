#!/bin/sh
# Kills a decode at random moments and resumes it. The result must have the same
# bytes. vaetool must refuse checkpoints that are damaged or belong to another run.
# usage: resume.sh VAETOOL FOLDER [KILLS [SEED]]   (FOLDER is created, and removed
# at the end)
set -u
kills=${3:-4}
seed=${4:-1}
# shellcheck source=tests/tool/checks.sh
. "$(dirname "$0")/checks.sh"
tiny=$data/taehv/taew2_1/weights.safetensors
net=$data/wan21/weights.safetensors
part=$out/a.safetensors.part
point=$out/a.safetensors.checkpoint

# Makes 21 latents of wan2.1, which are 81 frames. Bytes of weights serve as noise.
cat "$net" "$tiny" "$net" | head -c $((21 * 16 * 2 * 3 * 4)) |
    tr '\000-\377' '\001-\077\001-\077\001-\077\001-\077' |
    tensor "$out/clip.safetensors" latent F32 16,21,2,3 \
    '{"vae.normalization":"normalized"}'
decode() {
    "$tool" decode --backend ref --model "$net" "$@"
}
# Decodes with a checkpoint after every latent.
# shellcheck disable=SC2120 # check passes the arguments
go() {
    decode --resume --checkpoint-interval 1 "$@" "$out/clip.safetensors" \
        "$out/a.safetensors"
}

check "undisturbed" 0 decode "$out/clip.safetensors" "$out/whole.safetensors"
check "81 frames" 0 "$tool" info "$out/whole.safetensors"
says "81 frames of 24x16"
check "with --resume, undisturbed" 0 go
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"
true_that "and leaves nothing else" \
    test ! -e "$part" -a ! -e "$point" -a ! -e "$point.tmp"

echo "# killed"
# Kills with an odd number come some time after a new checkpoint, so that there is
# progress. Those with an even number come at any time after the start.
rm "$out/a.safetensors"
n=0
resumed=0
over=0
# Starts a run in the background. $pid is the process of vaetool.
input=$out/clip.safetensors
start() {
    "$tool" decode --backend ref --model "$net" --resume \
        --checkpoint-interval 1 "$@" "$input" "$out/a.safetensors" \
        >"$out/log" 2>&1 &
    pid=$!
}
while [ "$n" -lt "$kills" ]; do
    n=$((n + 1))
    before=$(inode "$point")
    start
    [ $((n % 2)) -eq 0 ] || until_changed "$point" "$before" $pid
    sleep "$(awk "BEGIN { srand($seed * 1000 + $n); print rand() * 0.2 }")"
    kill -9 $pid 2>/dev/null || over=$((over + 1))
    wait $pid 2>/dev/null
    if grep -q "continuing: " "$out/log"; then
        resumed=$((resumed + 1))
    fi
done
check "the last run reaches the end" 0 go
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"
true_that "and leaves nothing else" \
    test ! -e "$part" -a ! -e "$point" -a ! -e "$point.tmp"
echo "$kills kills, $resumed runs continued, $over had ended before the kill"
true_that "some runs continued" test "$resumed" -gt 0

echo "# interrupted"
# interrupt FILE OPTION...: ends a run by a signal as soon as FILE exists.
interrupt() {
    file=$1
    shift
    tries=0
    until grep -q interrupted "$out/log" || [ "$tries" -eq 50 ]; do
        tries=$((tries + 1))
        rm -f "$part" "$point"
        start "$@"
        while kill -0 $pid 2>/dev/null && [ ! -e "$file" ]; do
            sleep 0.01
        done
        kill -TERM $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
    true_that "the message is one line" test "$(wc -l <"$out/log")" -eq 1
}
: >"$out/log"
interrupt "$part" --checkpoint-interval 1000
says "interrupted before the first checkpoint, which follows 1000 latents" "again"
: >"$out/log"
interrupt "$point"
says "vaetool: interrupted; " " of 21 latents saved: run the same command" \
    "again to continue ($point)"
check "the same command continues" 0 go
says "continuing: "
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"

echo "# refused"
# Makes the checkpoint of a run that ended early.
end_early() {
    until [ -e "$point" ]; do
        start "$@"
        while kill -0 $pid 2>/dev/null && [ ! -e "$point" ]; do
            sleep 0.01
        done
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
}
end_early
cp "$point" "$out/point"
cp "$part" "$out/kept"
fingerprint=$("$tool" info "$net" | sed -n 's/^  fingerprint //p')
command="continue with: vaetool decode --resume"
settings="--variant wan2.1 --backend ref --precision fp32 --normalization normalized"
names="--model $net --checkpoint-interval 1 $out/clip.safetensors $out/a.safetensors"
check "info of the checkpoint" 0 "$tool" info "$point"
says "checkpoint: decode of wan2.1, " " and " " done" \
    "without carries" "fingerprint $fingerprint" "backend ref" \
    "precision fp32" "size 24x16" "latents 21 latents of 16x2x3 float32" \
    "$command $settings $names"
says_not "no model" ", 1 latents" " and 1 frames" "metadata:" "vae.checksum"
check "in JSON" 0 "$tool" info --json "$point"
says '"checkpoint": {' '"direction": "decode"' "\"fingerprint\": \"$fingerprint" \
    '"precision": "fp32"' '"size": "24x16"' '"carries": false' \
    "--resume $settings $names"
head -c -400 "$out/kept" >"$part"
check "info of frames whose last one is incomplete" 0 "$tool" info "$part"
says "unfinished output: " " of 81 frames of 24x16 are written" \
    "checkpoint: decode of wan2.1, " "fingerprint $fingerprint" \
    "$command $settings $names"
check "in JSON" 0 "$tool" info --json "$part"
says '"frames": 81' '"frames_written": ' '"output": ' '"checkpoint": {'
says_not '"no_model"'
# A forged checkpoint with a right checksum.
forged='{"__metadata__":{"vae.checkpoint":"1","vae.direction":"decode",'
forged=$forged'"vae.arch":"\u001b]0;wan\u0007",'
forged=$forged'"vae.latents":"99999999999999999999","vae.frames":"-5",'
forged=$forged'"vae.carries":"0","vae.weights":"\u009b31m",'
forged=$forged'"vae.checksum":"9d7e1972ddfc138a"}}'
{
    # shellcheck disable=SC2059 # the format is the byte of the length
    printf "$(printf '\\%03o' "${#forged}")"
    printf '\0\0\0\0\0\0\0%s' "$forged"
} >"$out/forged"
check "info of a forged checkpoint" 0 "$tool" info "$out/forged"
says "decode of ?]0;wan?, an impossible number of latents and an impossible" \
    "of frames done" "weights of fingerprint ??31m"
says_not "$(printf '\033')" "$(printf '\302\233')"
check "in JSON" 0 "$tool" info --json "$out/forged"
says '"latents": null' '"frames": null' '"fingerprint": "\u009B31m"'
rm "$point"
check "info of frames without the checkpoint" 0 "$tool" info "$part"
says "unfinished output: " "no checkpoint, so all is computed again" \
    "$point" "start again with: the command that began it"
sed 's/"vae.precision":"fp32"/"vae.precision":"bf16"/' "$out/point" >"$point"
check "info of a damaged checkpoint" 3 "$tool" info "$point"
says "$point" "damaged"
check "a damaged checkpoint" 3 go
says "remove it to start again"
says_not "vaetool info"
check "info of frames with a damaged checkpoint" 0 "$tool" info "$part"
says "unfinished output: " "damaged"
cp "$net" "$out/other.part"
check "info of another file of that name" 0 "$tool" info "$out/other.part"
says "model: wan2.1"
mkfifo "$out/pipe.part"
check "info of a pipe of that name" 3 "$tool" info "$out/pipe.part"
says "pipe.part"
printf '\120\0\0\0\0\0\0\0%-80s' \
    '{"frames":{"dtype":"F32","shape":[5,0,16,3],"data_offsets":[0,0]}}' |
    head -c 88 >"$out/none.part"
check "info of frames without pixels" 3 "$tool" info "$out/none.part"
says_not "unfinished" "video"
head -c 40 "$out/kept" >"$part"
check "info of frames without their header" 3 "$tool" info "$part"
says "$part"
cp "$out/point" "$point"
cp "$out/kept" "$part"
refused() {
    name=$1
    shift
    check "$name" 3 go "$@"
    says "$point" "remove"
    true_that "and the frames are unchanged" cmp "$part" "$out/kept"
}
refused "raw latents" --normalization raw
says "run: normalization is" normalized raw
check "other weights" 3 "$tool" decode --backend ref --resume --model "$tiny" \
    "$out/clip.safetensors" "$out/a.safetensors"
says "the network" "wan2.1" "taew2_1"
# Makes a clip whose last number differs.
{
    head -c -4 "$out/clip.safetensors"
    printf '\001\001\001\001'
} >"$out/other.safetensors"
check "another clip" 3 decode --resume "$out/other.safetensors" \
    "$out/a.safetensors"
says "another run" latents "21 latents of 16x2x3 float32, 81 frames"
head -c 100 "$out/point" >"$point"
refused "a truncated checkpoint"
: >"$point"
refused "an empty checkpoint"
cp "$net" "$point"
refused "another file in place of the checkpoint"
says "is no checkpoint"
sed 's/"vae.frames":"/&1/' "$out/point" >"$point"
refused "a changed checkpoint"
cp "$out/point" "$point"
head -c 200 "$out/kept" >"$part"
check "fewer frames than the checkpoint says" 3 go
says "$part" "the checkpoint says" "remove"
head -c -8 /dev/zero 2>/dev/null | head -c 400000 >"$part"
check "another file in place of the frames" 3 go
says "$part" "remove"
rm "$part"
check "no frames" 3 go
says "$part" "is not there" "remove"
rm "$point"
check "a new run without the checkpoint" 0 go
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"
ln -s /dev/full "$out/full.safetensors"
check "the output is a device" 3 decode --resume "$out/clip.safetensors" \
    "$out/full.safetensors"
says "is no regular file"
check "an interval of 0" 2 go --checkpoint-interval 0
check "an interval without --resume" 2 decode --checkpoint-interval 1 \
    "$out/clip.safetensors" "$out/c.safetensors"
says "--resume"
start
while [ ! -e "$part" ]; do sleep 0.01; done
rm "$part"
wait $pid
true_that "the frames were removed during the run: the error names the file" \
    grep -q 'a.safetensors.part.*No such file' "$out/log"
rm -f "$point"

echo "# the command that info prints"
# Two clips of 21 latents, in an order and under a name that must be given.
clips="$out/it's two clips.safetensors"
cat "$net" "$tiny" "$net" "$net" | head -c $((2 * 21 * 16 * 2 * 3 * 4)) |
    tr '\000-\377' '\001-\077\001-\077\001-\077\001-\077' |
    tensor "$clips" "my clips" F32 2,21,16,2,3 '{"vae.framerate":"5/1"}'
odd="$out/it's a clip.safetensors"
# follow OPTION...: the command that info prints must continue a run.
follow() {
    end_early "$@"
    mv "$part" "$odd.part"
    mv "$point" "$odd.checkpoint"
    check "info, $*" 0 "$tool" info "$odd.checkpoint"
    check "its command continues" 0 sh -c "$(
        sed -n "s|^continue with: vaetool|'$tool'|p" "$out/log")"
    says "continuing: "
    check "the same in one run" 0 decode "$@" "$clips" "$out/b.safetensors"
    true_that "gives the same" cmp "$out/b.safetensors" "$odd"
}
input=$clips
reading="--layout tchw --batch-index 1 --latent-space wan2.1 --framerate 24/1"
# shellcheck disable=SC2086 # several options
follow --tensor "my clips" $reading --normalization raw --tiles blend \
    --tile-size 16x16 --tile-overlap -1
# shellcheck disable=SC2086 # several options
follow --tensor "my clips" $reading --devices ref,ref
# shellcheck disable=SC2086 # several options
end_early --tensor "my clips" $reading
check "another frame rate" 3 "$tool" decode --backend ref --model "$net" \
    --resume --tensor "my clips" --layout tchw --batch-index 1 "$clips" \
    "$out/a.safetensors"
says "$part: is not what this command writes: another size, frame rate or" \
    "vaetool info $point prints the command that continues it"
rm "$part" "$point"

echo "# its own input"
for end in part checkpoint checkpoint.tmp; do
    mkdir "$out/own"
    own=$out/own/a.safetensors.$end
    cp "$out/clip.safetensors" "$own"
    check "the latents are OUT.$end" 3 decode --resume "$own" \
        "$out/own/a.safetensors"
    says "$own" "is the input"
    true_that "and are unchanged" cmp "$out/clip.safetensors" "$own"
    cp "$net" "$own"
    check "the model is OUT.$end" 3 "$tool" decode --backend ref --resume \
        --model "$own" "$out/clip.safetensors" "$out/own/a.safetensors"
    says "$own" "is the model"
    true_that "and is unchanged" cmp "$net" "$own"
    rm -r "$out/own"
done
mkfifo "$part"
check "OUT.part is a pipe" 3 go
says "$part" "no regular file"
rm "$part"

cp "$net" "$part"
check "OUT.part is another file" 3 go
says "$part: exists without a checkpoint, and is not the unfinished output" \
    "remove it, or write to another file"
true_that "and is unchanged" cmp "$net" "$part"
head -c 40 "$out/kept" >"$part"
check "OUT.part has a part of its header" 0 go
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"

echo "# two at once"
exec 9>"$part"
flock 9
check "another process has OUT.part" 3 go
says "$part" "another process"
exec 9>&-
rm "$part"

echo "# disk full"
# Beyond a limit a write fails, as on a full disk.
limited() (
    ulimit -f $((150000 / 512))
    go
)
check "no space for all frames" 3 limited
says "a.safetensors" "cannot write"
true_that "the written frames are kept" test -e "$part"
check "the run continues when there is space" 0 go
true_that "gives the same" cmp "$out/whole.safetensors" "$out/a.safetensors"
finish

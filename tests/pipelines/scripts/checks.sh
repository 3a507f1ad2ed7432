# shellcheck shell=sh
# Functions that the scripts of this folder share. Each runs scripts of pipelines/ and
# checks their output:
#
#   sh FILE.sh CASE SOURCE BUILD
#
# Exit status 77: the bundled demo or a GStreamer element is missing. CASE is the name
# of a function, with - for _.
# shellcheck disable=SC2034 # the scripts use what is set here
set -eu
test_case=$(echo "$1" | tr - _)
source=$2
build=$3
pipelines=$source/pipelines
PATH=$build/engine:$PATH
PYTHONPATH=$build/python # for the scripts of cluster/
export PATH PYTHONPATH

# The name of a folder may have any character.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
dir="$tmp/a \"folder\" with ! and \\"
mkdir "$dir"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

has() {
    gst-inspect-1.0 --exists --atleast-version=0.0 "$1"
}

need() { # ELEMENT...
    for element; do
        has "$element" || skip "no element $element"
    done
}

need_demo() {
    for file in demo.safetensors latents.safetensors; do
        [ -f "$pipelines/demo/$file" ] || skip "no pipelines/demo/$file"
    done
}

# run SCRIPT [ARGUMENT...]: runs a script of pipelines/.
run() {
    script_name=$1
    shift
    sh "$pipelines/$script_name.sh" "$@"
}

# refused TEXT COMMAND...: the command must fail with a message that matches TEXT.
refused() {
    text=$1
    shift
    if "$@" >"$tmp/said" 2>&1; then
        fail "$* went well"
    fi
    grep -q -e "$text" "$tmp/said" || fail "$*: $(cat "$tmp/said")"
}

# one_line: the message of refused has one line.
one_line() {
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
}

# said TEXT: it matches TEXT.
said() {
    grep -q -e "$1" "$tmp/said" || fail "$(cat "$tmp/said")"
}

# program FILE: writes a program, the standard input.
program() {
    mkdir -p "${1%/*}"
    cat >"$1"
    chmod +x "$1"
}

# frames_of FILE: prints the number of video frames that GStreamer decodes.
frames_of() {
    gst-launch-1.0 -q filesrc "location=\"$(printf '%s' "$1" |
        sed 's/[\\"]/\\&/g')\"" ! decodebin ! videoconvert ! videoscale ! \
        video/x-raw,format=GRAY8,width=16,height=16 ! fdsink |
        wc -c | awk '{ print $1 / 256 }'
}

# y4m_frames FILE: prints the number of frames, computed from the size of the file.
y4m_frames() {
    head -n 1 "$1" >"$tmp/header"
    awk -v size="$(wc -c <"$1")" '{
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^W/) w = substr($i, 2)
            if ($i ~ /^H/) h = substr($i, 2)
            if ($i ~ /^C/ && $i !~ /^C420/) exit 1
        }
        print (size - length($0) - 1) / (6 + w * h * 3 / 2)
    }' "$tmp/header"
}

# Writes seventeen frames of a moving picture.
make_clip() {
    need vp8enc webmmux
    gst-launch-1.0 -q videotestsrc num-buffers=17 pattern=ball ! \
        video/x-raw,width=160,height=96,framerate=16/1 ! vp8enc deadline=1 ! \
        webmmux ! filesink location="$tmp/clip.webm"
}

# tells TEXT...: the log of the last script must contain each text.
tells() {
    for text; do
        grep -q -F -e "$text" "$tmp/log" || fail "no \"$text\": $(cat "$tmp/log")"
    done
}

# keeps OLDER SCRIPT INPUT [OPTION...]: the script must fail, leave its older output
# OLDER unchanged, and leave no other file.
keeps() {
    older=$1
    script=$2
    input=$3
    shift 3
    cp "$older" "$tmp/older"
    before=$(ls "$dir")
    if run "$script" "$@" "$input" "$older" >"$tmp/said" 2>&1; then
        fail "$script.sh takes $input"
    fi
    cmp "$older" "$tmp/older" || fail "$script.sh: an older output is lost"
    [ "$(ls "$dir")" = "$before" ] || fail "$script.sh leaves $(ls "$dir")"
}

# keeps_model SCRIPT INPUT END: the output must not be a file of the model.
keeps_model() {
    mkdir -p "$dir/model/vae"
    weights=$dir/model/vae/diffusion_pytorch_model.safetensors
    cp "$pipelines/demo/demo.safetensors" "$weights"
    shards=$dir/model/vae/x-00001-of-00002.safetensors
    echo '{"weight_map": {}}' >"$dir/model/vae/x.safetensors.index.json"
    cp "$weights" "$shards"
    ln -sf "$weights" "$dir/same.$3"
    ln -f "$shards" "$dir/shard.$3"
    for out in "same.$3 model/vae/diffusion_pytorch_model.safetensors" \
        "same.$3 model" "same.$3 model/vae" \
        "shard.$3 model/vae/x.safetensors.index.json"; do
        keeps "$dir/${out% *}" "$1" "$2" --model "$dir/${out#* }"
        said "^$1.sh: .*${out% *}: is the model; write to another file$"
        [ -L "$dir/same.$3" ] || fail "$1.sh: the link is lost"
    done
    rm -r "$dir/model" "$dir/same.$3" "$dir/shard.$3"
}

# zeros LATENTS OUT: writes this number of latents of an 80x48 picture as .npy, which
# states no latent space.
zeros() {
    {
        printf '\223NUMPY\1\0\166\0%-117s\n' "{'descr': '<f4', \
'fortran_order': False, 'shape': (16, $1, 6, 10), }"
        head -c $((16 * $1 * 6 * 10 * 4)) /dev/zero
    } >"$2"
}

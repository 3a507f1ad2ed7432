#!/bin/sh
# Runs one script of pipelines/ and checks its output.
#
#   sh test_pipelines.sh CASE SOURCE BUILD
#
# Exit status 77: the bundled demo or a GStreamer element is missing.
set -eu
test_case=$1
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

need() { # ELEMENT...
    for element; do
        gst-inspect-1.0 --exists --atleast-version=0.0 "$element" ||
            skip "no element $element"
    done
}

need_demo() {
    for file in demo.safetensors latents.safetensors; do
        [ -f "$pipelines/demo/$file" ] || skip "no pipelines/demo/$file"
    done
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

# frames_of FILE: prints the number of video frames that GStreamer decodes.
frames_of() {
    gst-launch-1.0 -q filesrc "location=\"$(printf '%s' "$1" |
        sed 's/[\\"]/\\&/g')\"" ! decodebin ! videoconvert ! videoscale ! \
        video/x-raw,format=GRAY8,width=16,height=16 ! fdsink |
        wc -c | awk '{ print $1 / 256 }'
}

usage() {
    # Some sinks accept only square pixels.
    if grep -n 'videoconvert ! \(autovideosink\|\$sink\)' "$pipelines"/*.sh; then
        fail 'a script without videoscale before its window'
    fi
    # A window drops the frames of a model that is slower than real time.
    tr -s '\\\n ' ' ' <"$pipelines/env.sh" | grep -q \
        'videoscale ! clocksync [^!]*! autovideosink sync=false' ||
        fail 'env.sh: no moving picture'
    for script in live-preview preview-and-record; do
        grep -q '^show_frames ' "$pipelines/$script.sh" ||
            fail "$script.sh: no moving picture"
    done
    for script in latents-to-video video-to-latents live-preview \
        preview-and-record compare-live round-trip demo; do
        sh "$pipelines/$script.sh" --help >"$tmp/help"
        grep -q "^usage: $script.sh" "$tmp/help" || fail "$script.sh --help"
        refused 'unknown' sh "$pipelines/$script.sh" --no-such-option
        refused 'needs a value' sh "$pipelines/$script.sh" "$(
            [ $script = demo ] && echo --out || echo --model)"
        refused 'needs a value' sh "$pipelines/$script.sh" "$(
            [ $script = demo ] && echo --out= || echo --model=)"
        columns=$(awk '/^  -/ && match($0, /[^ ]   *[^ ]/) {
            print RSTART + RLENGTH }' "$tmp/help" | sort -u)
        [ "$(echo "$columns" | wc -l)" = 1 ] ||
            fail "$script.sh --help: columns $columns"
    done
    refused 'no such file' sh "$pipelines/latents-to-video.sh" \
        "$dir/none" "$dir/out.webm"
    # live.py prints its options although the modules that it needs are missing.
    mkdir "$tmp/nothing"
    echo 'raise ImportError("no gi here")' >"$tmp/nothing/gi.py"
    export PYTHONPATH="$tmp/nothing"
    python3 "$pipelines/live/live.py" --help >"$tmp/help" ||
        fail 'live.py --help'
    grep -q '^usage: live.py' "$tmp/help" || fail "$(cat "$tmp/help")"
    refused "no gi here: install Debian's python3-gi" \
        python3 "$pipelines/live/live.py"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    refused 'exclude each other' python3 "$pipelines/live/live.py" \
        --from host:1 file
    PYTHONPATH=$build/python
    # The scripts find vaetool beside the plugin, in any folder.
    mkdir -p "$tmp/p q/lib/gstreamer-1.0" "$tmp/p q/bin"
    ln -s "$build/engine/vaetool" "$tmp/p q/bin/vaetool"
    for folder in "$build/gst" "$tmp/p q/lib/gstreamer-1.0"; do
        found=$(
            GST_PLUGIN_PATH="$tmp:$folder" PATH=/usr/bin:/bin sh -c '
                . "$0/env.sh"
                need_vaetool
                vaetool --help' "$pipelines" 2>&1
        ) || fail "no vaetool with $folder: $found"
    done
    refused 'must end in' sh "$pipelines/latents-to-video.sh" \
        "$source/README.md" "$dir/out.avi"
    refused 'no such file' sh "$pipelines/video-to-latents.sh" \
        "$dir/none" "$dir/out.safetensors"
    refused '832x480' sh "$pipelines/video-to-latents.sh" --size 10 \
        "$source/README.md" "$dir/out.safetensors"
    refused 'no such file' sh "$pipelines/preview-and-record.sh" \
        "$dir/none" "$dir/out.webm"
    refused 'true or false' sh "$pipelines/live-preview.sh" --sync maybe
    refused '^live-preview.sh: --sync maybe: expected' \
        sh "$pipelines/live-preview.sh" --sync=maybe
    for rate in 0 24/0 -3 23.976 2/3/4 2/ x ''; do
        for script in latents-to-video.sh live-preview.sh live/live.py \
            cluster/segments.py vaesend.py; do
            refused "$rate: expected a whole number or a fraction, such as 24" \
                "$pipelines/$script" "--framerate=$rate"
        done
    done
    # Without an error in the value, --none is one.
    for script in latents-to-video.sh live-preview.sh live/live.py \
        cluster/segments.py; do
        for rate in 4294967320 4294967306/4294967297 9999999999 1/2147483648; do
            refused "$rate: expected numbers up to 2147483647" \
                "$pipelines/$script" "--framerate=$rate" --none
        done
        for index in -1 99999999999 4294967297 one; do
            refused "$index: expected a whole number, 0 to 2147483647" \
                "$pipelines/$script" "--batch-index=$index" --none
        done
    done
    for script in latents-to-video live-preview compare-live; do
        for option in model layout tensor latent-space batch-index; do
            refused "^$script.sh: --$option needs a value" \
                sh "$pipelines/$script.sh" "--$option=" --none
        done
    done
    refused '^compare-live.sh: --other-precision needs a value' \
        sh "$pipelines/compare-live.sh" --other-precision=
    refused '^compare-live.sh: --other-precision foo: expected one of: auto fp32' \
        sh "$pipelines/compare-live.sh" --other-precision foo
    for option in host model tensor name; do
        refused "argument --$option: expected a value" \
            python3 "$pipelines/live/live.py" "--$option=" --none
    done
    refused 'HOST:PORT' sh "$pipelines/live-preview.sh" --from nowhere
    for port in 0 99999 99999999999; do
        refused "port $port, expected 1 to 65535" \
            sh "$pipelines/live-preview.sh" --from "localhost:$port"
    done
    refused "^demo.sh: --build $tmp: has no gst/libgstvae.so" \
        sh "$pipelines/demo.sh" --build "$tmp"
    refused 'multiple of 4' sh "$pipelines/round-trip.sh" --size 10x10
    for size in 0x4 4x0 65536x4 4x99999999999; do
        for script in round-trip video-to-latents; do
            refused "--size $size: .*1 to 65535" \
                sh "$pipelines/$script.sh" --size $size
        done
    done
    for script in latents-to-video video-to-latents live-preview \
        preview-and-record compare-live; do
        refused '^[a-z-]*.sh: --model: options come before' \
            sh "$pipelines/$script.sh" one two --model "$source/README.md"
    done
}

# says LINE...: makes a gst-launch-1.0 that says these lines and waits forever.
says() {
    mkdir -p "$tmp/fake"
    {
        printf '#!/bin/sh\n'
        printf "echo '%s'\n" "$@"
        echo 'exec sleep 600'
    } >"$tmp/fake/gst-launch-1.0"
    chmod +x "$tmp/fake/gst-launch-1.0"
}

# A decoder that is missing, or gives nothing, is no fault of an option.
no_decoder() {
    refused 'the package gstreamer1.0-libav' env PATH="$tmp/fake:$PATH" \
        sh "$pipelines/video-to-latents.sh" "$source/README.md" "$dir/o.safetensors"
    if grep -q -e --variant "$tmp/said"; then fail "$(cat "$tmp/said")"; fi
}

# The script prints only the first error. It prints neither later errors nor a message
# of the shell when it ends a gst-launch-1.0 that would wait forever.
one_error() {
    pipe=/GstPipeline:pipeline0
    says "ERROR: from element $pipe/GstLatentDemux:latentdemux0: it" \
        "ERROR: from element $pipe/GstH264Parse:parse: too little" \
        "WARNING: from element $pipe/GstH264Parse:parse: odd"
    refused '^latents-to-video.sh: latentdemux: it$' env \
        PATH="$tmp/fake:$PATH" sh "$pipelines/latents-to-video.sh" "$dir/o.webm"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    says "ERROR: from element $pipe/GstDecodeBin:decodebin0: missing a plug-in" \
        'Missing decoder: Apple ProRes (video/x-prores, variant=(string)hq)'
    no_decoder
    # decodebin lists the sound, which it does not decode.
    plugin="ERROR: from element $pipe/GstDecodeBin:decodebin0: Your GStreamer\
 installation is missing a plug-in."
    says "$plugin" 'no suitable plugins found:' \
        'Missing decoder: H.264 (High) (video/x-h264, level=(string)1)' \
        'Missing decoder: MPEG-4 AAC (audio/mpeg, mpegversion=(int)4)' ''
    no_decoder
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    says "$plugin" 'Missing decoder: MPEG-4 AAC (audio/mpeg)' ''
    refused "^video-to-latents.sh: $source/README.md: no video in the file$" env \
        PATH="$tmp/fake:$PATH" sh "$pipelines/video-to-latents.sh" \
        "$source/README.md" "$dir/o.safetensors"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    says "ERROR: from element $pipe/GstLatentMux:latentmux0: No latents arrived"
    no_decoder
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
    if sh "$pipelines/$script.sh" "$@" "$input" "$older" >"$tmp/said" 2>&1; then
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
        grep -q "^$1.sh: .*${out% *}: is the model; write to another file$" \
            "$tmp/said" || fail "$(cat "$tmp/said")"
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

# stops_clean WHO SIGNAL STATUS: a script or its pipeline that receives the signal
# leaves no pipeline, and OUT as it was. A shell in the background ignores Ctrl-C,
# and its pipeline does not.
stops_clean() {
    zeros 4000 "$tmp/long.npy"
    echo old >"$dir/stopped.y4m"
    before=$(ls "$dir")
    sh "$pipelines/latents-to-video.sh" --latent-space gst-vae-demo \
        "$tmp/long.npy" "$dir/stopped.y4m" 2>"$tmp/log" &
    script=$!
    # cat continues if a process has ended meanwhile; awk would stop.
    until ls "$dir"/stopped.y4m.part* >/dev/null 2>&1 &&
        launch=$(cat /proc/[0-9]*/stat 2>"$tmp/gone" | awk -v parent="$script" \
            '$4 == parent && $2 ~ /gst-launch/ { print $1 }') &&
        [ "$launch" ]; do
        kill -0 "$script" || fail "no pipeline runs: $(cat "$tmp/log")"
        sleep 0.1
    done
    who=$script
    [ "$1" = script ] || who=$launch
    kill -s "$2" "$who"
    status=0
    wait "$script" || status=$?
    [ "$status" = "$3" ] || fail "exit status $status after SIG$2"
    [ "$(ls "$dir")" = "$before" ] || fail "leaves $(ls "$dir")"
    [ "$(cat "$dir/stopped.y4m")" = old ] || fail "SIG$2 replaces OUT"
    while kill -0 "$launch" 2>/dev/null; do sleep 0.1; done
}

# A script whose messages nobody reads leaves no file.
nobody_reads() {
    mkdir "$tmp/talks"
    cat >"$tmp/talks/gst-launch-1.0" <<'EOF'
#!/bin/sh
for last; do :; done
eval "part=${last#location=}"
: >"$part"
while echo 'a message'; do :; done
EOF
    chmod +x "$tmp/talks/gst-launch-1.0"
    before=$(ls "$dir")
    {
        PATH="$tmp/talks:$PATH" sh "$pipelines/latents-to-video.sh" \
            "$dir/unread.webm" 2>&1 || echo $? >"$tmp/status"
    } | head -n 1 >"$tmp/said"
    grep -q 'a message' "$tmp/said" || fail "$(cat "$tmp/said")"
    [ "$(cat "$tmp/status")" = 1 ] || fail "status $(cat "$tmp/status")"
    [ "$(ls "$dir")" = "$before" ] || fail "leaves $(ls "$dir")"
}

# A .y4m has no times, so a clip with a wrong rate gets fewer frames to keep its length.
wrong_rate() {
    need capssetter
    gst-launch-1.0 -q videotestsrc num-buffers=33 ! \
        video/x-raw,format=I420,width=64,height=64,framerate=16/1 ! \
        capssetter caps=video/x-raw,framerate=31/2 ! vaeencode ! latentmux ! \
        filesink location="$tmp/rate.safetensors"
    sh "$pipelines/latents-to-video.sh" "$tmp/rate.safetensors" "$dir/rate.y4m"
    frames=$(y4m_frames "$dir/rate.y4m")
    [ "$frames" = 32 ] || fail "$frames frames of 2.06 s at 31/2"
}

# The pictures are turned as the latents state it, and nobody turns them again.
turned() {
    need taginject
    gst-launch-1.0 -q videotestsrc num-buffers=5 ! \
        video/x-raw,width=64,height=48,framerate=16/1 ! \
        taginject tags=image-orientation=rotate-90 ! vaeencode ! latentmux ! \
        filesink location="$tmp/turned.safetensors"
    sh "$pipelines/latents-to-video.sh" "$tmp/turned.safetensors" "$dir/turned.y4m"
    head -n 1 "$dir/turned.y4m" | grep -q 'W48 H64' || fail 'turned.y4m is not'
    gst-inspect-1.0 --exists --atleast-version=0.0 x264enc || return 0
    sh "$pipelines/latents-to-video.sh" "$tmp/turned.safetensors" "$dir/turned.mp4"
    cp "$dir/turned.mp4" "$tmp"
    gst-launch-1.0 -t filesrc location="$tmp/turned.mp4" ! qtdemux ! h264parse ! \
        fakesink >"$tmp/said"
    if grep -q 'rotate-[1-9]' "$tmp/said"; then fail 'turned twice'; fi
}

# Videos have no alpha.
alpha() {
    vectors=$source/tests/golden/data/qwenimage21
    sh "$pipelines/latents-to-video.sh" --model "$vectors/weights.safetensors" \
        "$vectors/decode_t3_2x3.safetensors" "$dir/alpha.y4m" 2>"$tmp/log" ||
        fail "$(cat "$tmp/log")"
    tells 'alpha, which is lost'
}

latents_to_video() {
    need_demo
    need vp8enc webmmux y4menc
    for out in webm y4m; do
        sh "$pipelines/latents-to-video.sh" "$dir/out.$out" 2>"$tmp/log"
        tells "model $pipelines/demo/demo.safetensors" "out.$out: "
    done
    [ "$(grep -c 'model ' "$tmp/log")" = 1 ] || fail 'the model more than once'
    sh "$pipelines/latents-to-video.sh" --model "$pipelines/demo/demo.safetensors" \
        "$pipelines/demo/latents.safetensors" "$dir/other.y4m"
    cmp "$dir/out.y4m" "$dir/other.y4m" ||
        fail 'the demo model set by hand gives another video'
    lossy=$(frames_of "$dir/out.webm")
    lossless=$(y4m_frames "$dir/out.y4m")
    echo "$lossy frames in out.webm, $lossless in out.y4m"
    [ "$lossy" -gt 1 ] || fail 'not more than one frame'
    [ "$lossy" = "$lossless" ] || fail 'not the same number'
    wrong_rate
    alpha
    refused 'vae\|model' sh "$pipelines/latents-to-video.sh" \
        --model "$source/README.md" "$dir/bad.webm"
    refused 'no folder' sh "$pipelines/latents-to-video.sh" "$dir/none/out.webm"
    keeps "$dir/out.y4m" latents-to-video "$source/README.md"
    one_error
    nobody_reads
    printf '\0\0\0\040ftypisom\0\0\2\0isomiso2avc1mp41' >"$tmp/clip.mp4"
    refused 'clip.mp4: is a video file (MP4 or MOV); expected a' \
        sh "$pipelines/latents-to-video.sh" "$tmp/clip.mp4" "$dir/o.webm"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    cp "$pipelines/demo/latents.safetensors" "$dir/same.y4m"
    keeps "$dir/same.y4m" latents-to-video "$dir/same.y4m"
    grep -q 'same.y4m: is the input; write to another file$' "$tmp/said" ||
        fail "$(cat "$tmp/said")"
    keeps_model latents-to-video "$pipelines/demo/latents.safetensors" webm
    stops_clean script TERM 143
    stops_clean pipeline INT 130
    # These latents state no space.
    zeros 2 "$dir/latents.npy"
    refused 'no latent-space' sh "$pipelines/latents-to-video.sh" \
        "$dir/latents.npy" "$dir/npy.y4m"
    refused 'set them by the options --model and --latent-space' \
        sh "$pipelines/latents-to-video.sh" "$dir/latents.npy" "$dir/npy.y4m"
    refused "^latents-to-video.sh: --normalization none: vaedecode does not.*$(
        )expected auto, normalized, raw or comfyui" \
        sh "$pipelines/latents-to-video.sh" --normalization none "$dir/npy.y4m"
    # There is one error, which says what is wrong.
    refused '^latents-to-video.sh: latentdemux: .*README.md: is a text file' \
        sh "$pipelines/latents-to-video.sh" "$source/README.md" "$dir/npy.y4m"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    refused 'demo.safetensors: .*looks like model weights' \
        sh "$pipelines/latents-to-video.sh" \
        "$pipelines/demo/demo.safetensors" "$dir/npy.y4m"
    [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    sh "$pipelines/latents-to-video.sh" --normalization raw "$dir/raw.y4m" \
        2>"$tmp/log"
    tells 'states normalization normalized; normalization raw overrides it'
    [ "$(y4m_frames "$dir/raw.y4m")" = "$lossless" ] || fail 'raw: other frames'
    sh "$pipelines/latents-to-video.sh" --latent-space gst-vae-demo \
        "$dir/latents.npy" "$dir/npy.y4m" 2>"$tmp/log"
    [ "$(y4m_frames "$dir/npy.y4m")" = 5 ] || fail 'not 5 frames of the .npy'
    model=$pipelines/demo/demo.safetensors
    for given in '' normalized; do
        sh "$pipelines/latents-to-video.sh" ${given:+--normalization $given} \
            --model "$model" "$dir/latents.npy" "$dir/npy.y4m" 2>"$tmp/log"
        said=$(grep -c 'states\|INFO' "$tmp/log" || true)
        [ "$said" = $((1 - ${#given} / 10)) ] || fail "$(cat "$tmp/log")"
        [ "$given" ] || tells 'npy states no normalization: the latents are taken as'
    done
    refused 'none.pth: cannot open' sh "$pipelines/latents-to-video.sh" \
        --model "$model,$dir/none.pth" "$dir/npy.y4m"
    turned
}

# H.264 cannot have an odd size.
odd_size() {
    gst-inspect-1.0 --exists --atleast-version=0.0 x264enc || return 0
    sh "$pipelines/video-to-latents.sh" --size 61x47 "$tmp/clip.webm" \
        "$dir/odd.safetensors"
    sh "$pipelines/latents-to-video.sh" "$dir/odd.safetensors" \
        "$dir/odd.mp4" 2>"$tmp/log" || fail "$(cat "$tmp/log")"
    tells '61x47 is odd' '60x46' 'odd.mp4: '
    cp "$dir/odd.mp4" "$tmp/odd.mp4"
    gst-launch-1.0 -v filesrc location="$tmp/odd.mp4" ! qtdemux ! h264parse ! \
        fakesink >"$tmp/said"
    grep -q 'width=(int)60, height=(int)46' "$tmp/said" || fail 'not 60x46'
    sh "$pipelines/latents-to-video.sh" "$dir/out.safetensors" \
        "$dir/even.mp4" 2>"$tmp/log" || fail "$(cat "$tmp/log")"
    if grep -q odd "$tmp/log"; then fail "$(cat "$tmp/log")"; fi
    # This gst-launch-1.0 does not end after an error.
    mkdir "$tmp/stays"
    cat >"$tmp/stays/gst-launch-1.0" <<'END'
#!/bin/sh
echo 'ERROR: from element /GstPipeline:pipeline0/GstFake:fake0: stays'
exec sleep 60
END
    chmod +x "$tmp/stays/gst-launch-1.0"
    PATH="$tmp/stays:$PATH" refused 'fake: stays' timeout 40 \
        sh "$pipelines/latents-to-video.sh" "$dir/out.safetensors" "$dir/s.mp4"
}

video_to_latents() {
    need_demo
    make_clip
    sh "$pipelines/video-to-latents.sh" "$tmp/clip.webm" \
        "$dir/out.safetensors" 2>"$tmp/log"
    tells "model $pipelines/demo/demo.safetensors" "out.safetensors: " \
        'of the space gst-vae-demo'
    # Expect 1 + 16 / 4 latents of 160 / 8 x 96 / 8.
    vaetool info "$dir/out.safetensors" >"$tmp/info"
    cat "$tmp/info"
    grep -q '12x20\|20x12' "$tmp/info" || fail 'not the size expected'
    keeps "$dir/out.safetensors" video-to-latents "$source/README.md"
    # Latents are no video, whatever the name of the file is.
    zeros 2 "$dir/zeros.npy"
    cp "$pipelines/demo/latents.safetensors" "$dir/latents.mp4"
    for file in "$dir/latents.mp4" "$dir/zeros.npy"; do
        keeps "$dir/out.safetensors" video-to-latents "$file"
        grep -q "^video-to-latents.sh: .*${file##*/}: holds tensors, not a" \
            "$tmp/said" || fail "$(cat "$tmp/said")"
        [ "$(wc -l <"$tmp/said")" = 1 ] || fail "$(cat "$tmp/said")"
    done
    printf 'GIF89a\1\0\1\0\0\0\0;' >"$dir/loops.mp4"
    refused '^video-to-latents.sh: .*loops.mp4: is a GIF' \
        sh "$pipelines/video-to-latents.sh" "$dir/loops.mp4" "$dir/o.safetensors"
    refused 'must end in .safetensors' sh "$pipelines/video-to-latents.sh" \
        "$dir/out.safetensors" "$tmp/clip.webm"
    [ "$(frames_of "$tmp/clip.webm")" = 17 ] || fail 'the video is lost'
    # With --latent-space, only a model of this space is used.
    export XDG_DATA_HOME="$dir/data" XDG_DATA_DIRS="$dir/none"
    refused 'latent space "wan2.1"' sh "$pipelines/video-to-latents.sh" \
        --latent-space wan2.1 "$tmp/clip.webm" "$dir/no.safetensors"
    refused 'exclude each other' sh "$pipelines/video-to-latents.sh" \
        --latent-space wan2.1 --model "$source/README.md" "$tmp/clip.webm" \
        "$dir/no.safetensors"
    sh "$pipelines/video-to-latents.sh" --latent-space gst-vae-demo \
        --size 80x48 "$tmp/clip.webm" \
        "$dir/small.safetensors"
    vaetool info "$dir/small.safetensors" | grep -q '6x10\|10x6' ||
        fail 'not scaled'
    keeps_model video-to-latents "$tmp/clip.webm" safetensors
    # This model has no option with its name.
    installed=$dir/data/gst-vae/models/gst-vae-demo.safetensors
    mkdir -p "${installed%/*}"
    cp "$pipelines/demo/demo.safetensors" "$installed"
    keeps "$installed" video-to-latents "$tmp/clip.webm" \
        --latent-space gst-vae-demo
    grep -q "demo.safetensors: is the model; write" "$tmp/said" ||
        fail "$(cat "$tmp/said")"
    rm -r "$dir/data"
    cp "$tmp/clip.webm" "$dir/clip.safetensors"
    keeps "$dir/clip.safetensors" video-to-latents "$dir/clip.safetensors"
    grep -q 'clip.safetensors: is the input; write' "$tmp/said" ||
        fail "$(cat "$tmp/said")"
    # 76 pixels wide, which y4menc may not be able to write.
    sh "$pipelines/video-to-latents.sh" --size 76x48 "$tmp/clip.webm" \
        "$dir/narrow.safetensors"
    if sh "$pipelines/latents-to-video.sh" "$dir/narrow.safetensors" \
        "$dir/narrow.y4m" 2>"$tmp/log"; then
        [ "$(y4m_frames "$dir/narrow.y4m")" = 17 ] || fail 'a wrong .y4m'
    else
        tells 'multiple of 8'
    fi
    sh "$pipelines/latents-to-video.sh" "$dir/out.safetensors" "$dir/back.webm"
    frames=$(frames_of "$dir/back.webm")
    [ "$frames" = 17 ] || fail "17 frames in, $frames back"
    odd_size
}

# cluster_frames FILE COUNT: the scripts of cluster/ must read so many frames.
cluster_frames() {
    python3 - "$pipelines/cluster" "$1" "$2" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from frames import open_frames
frames = open_frames(sys.argv[2], sys.argv[2] + ".out")
assert frames.shape == [int(sys.argv[3]), 96, 160], frames.shape
assert len(frames.read(0, 2)) == 2 * 160 * 96 * 3 // 2
END
}

# media_file NAME COUNT TEXT ELEMENT...: the elements make a video of moving
# pictures. Its latents must hold COUNT frames, and vaetool must say TEXT of them.
# Nothing is tested if GStreamer here cannot write this video or alone decodes no
# frame of it.
media_file() {
    name=$1
    count=$2
    text=$3
    shift 3
    file=$tmp/$name
    if ! gst-launch-1.0 -q videotestsrc num-buffers=18 pattern=ball ! \
        video/x-raw,width=160,height=96,framerate=16/1,format=I420 ! "$@" ! \
        filesink location="$file" 2>"$tmp/said" ||
        [ "$(frames_of "$file" 2>"$tmp/said")" != "$count" ]; then
        echo "$name: not to be had here"
        return
    fi
    sh "$pipelines/video-to-latents.sh" "$file" "$dir/media.safetensors" \
        2>"$tmp/log" || fail "$name: $(cat "$tmp/log")"
    vaetool info "$dir/media.safetensors" >"$tmp/info"
    grep -q "^  $count frames" "$tmp/info" && grep -q "$text" "$tmp/info" ||
        fail "$name: not $count frames, $text: $(cat "$tmp/info")"
    cluster_frames "$file" "$count" || fail "$name: frames.py"
    echo "$name: $count frames"
}

# The videos that people have. Debian's gstreamer1.0-libav decodes all of them, its
# other packages some.
media() {
    need_demo
    need qtmux matroskamux avimux
    sound='audiotestsrc num-buffers=40 ! audio/x-raw,rate=44100 ! sound.'
    h264='x264enc ! h264parse'
    ten="videoconvert ! video/x-raw,format=I420_10LE ! $h264"
    slow='capssetter caps=video/x-raw,framerate=8/1'
    # shellcheck disable=SC2086 # words
    {
        media_file h264.mp4 18 '160x96' $h264 ! mp4mux
        media_file h264.mkv 18 '160x96' $h264 ! matroskamux
        media_file h264.ts 18 '160x96' $h264 ! mpegtsmux
        media_file h264.avi 18 '160x96' $h264 ! avimux
        media_file sound.mov 18 '160x96' $h264 ! queue ! sound. $sound \
            qtmux name=sound
        media_file ten.mp4 18 '160x96' $ten ! mp4mux
        # Earlier versions write no orientation.
        if gst-inspect-1.0 --exists --atleast-version=1.26 mp4mux; then
            media_file turned.mp4 18 'image-orientation = rotate-90' \
                taginject tags=image-orientation=rotate-90 ! $h264 ! mp4mux
        fi
        # Each two frames become the fields of one.
        media_file fields.mkv 9 '160x96' interlace field-pattern=1:1 ! \
            x264enc interlaced=true ! h264parse ! matroskamux
        media_file variable.mkv 18 'tensors: 2' $slow ! $h264 ! \
            matroskamux
        media_file mpeg4.mp4 18 '160x96' avenc_mpeg4 ! mp4mux
        media_file h265.mp4 18 '160x96' x265enc ! h265parse ! mp4mux
        media_file jpeg.mov 18 '160x96' jpegenc ! qtmux
        media_file jpeg.avi 18 '160x96' jpegenc ! avimux
        media_file raw.mkv 18 '160x96' matroskamux
    }
    # The file states alpha, in place of its two views.
    gst-launch-1.0 -q videotestsrc num-buffers=18 ! \
        video/x-raw,width=160,height=96 ! vp8enc deadline=1 ! \
        capssetter caps=video/x-vp8,multiview-mode=side-by-side ! webmmux ! \
        filesink location="$tmp/views.webm"
    LC_ALL=C sed 's/S\xb8\x81\x01/S\xc0\x81\x01/' "$tmp/views.webm" >"$tmp/alpha.webm"
    cluster_frames "$tmp/alpha.webm" 18 || fail 'alpha.webm: frames.py'
    gst-launch-1.0 -q audiotestsrc num-buffers=9 ! qtmux ! \
        filesink location="$tmp/sound.mov"
    refused 'sound.mov: no video in the file' cluster_frames "$tmp/sound.mov" 0
    refused 'sound.mov: no video in the file' sh "$pipelines/video-to-latents.sh" \
        "$tmp/sound.mov" "$dir/no.safetensors"
    # decodebin of GStreamer 1.22 then takes no decoder of alpha.
    mkdir "$tmp/words"
    printf '#!/bin/sh\necho "ERROR: $*"\nexit 1\n' >"$tmp/words/gst-launch-1.0"
    chmod +x "$tmp/words/gst-launch-1.0"
    for file in views alpha; do
        PATH="$tmp/words:$PATH" refused ' ! decodebin ' \
            sh "$pipelines/video-to-latents.sh" "$tmp/$file.webm" "$dir/no.safetensors"
        grep -o 'decodebin .*expose-all' "$tmp/said" || echo "$file"
    done >"$tmp/exposed"
    [ "$(cat "$tmp/exposed")" = "decodebin caps=video/x-raw(ANY) expose-all
alpha" ] || fail "$(cat "$tmp/exposed")"
}

# slow_preview SCRIPT [OUT]: shows latents at a very high rate. The script must say
# that the model is slow.
slow_preview() {
    script=$1
    shift
    out=$*
    from="filesrc location=$pipelines/demo/latents.safetensors"
    set --
    for _ in 1 2 3; do
        # shellcheck disable=SC2086 # $from is several words
        set -- "$@" $from ! latentdemux framerate=4000/1 ! slow.
    done
    gst-launch-1.0 -q concat name=slow ! latentmux ! \
        filesink location="$tmp/slow.safetensors" "$@"
    DISPLAY=:0 GST_PLUGIN_FEATURE_RANK=fakevideosink:1000 \
        sh "$pipelines/$script" "$tmp/slow.safetensors" ${out:+"$out"} \
        >"$tmp/said" 2>&1 || fail "$(cat "$tmp/said")"
    grep -q 'times slower than real time' "$tmp/said" ||
        fail "does not say that the model is slow: $(cat "$tmp/said")"
}

live_preview() {
    need_demo
    slow_preview live-preview.sh
    unset DISPLAY WAYLAND_DISPLAY
    sh "$pipelines/live-preview.sh" >"$tmp/said" 2>&1 ||
        fail "$(cat "$tmp/said")"
    grep -q 'no display' "$tmp/said" || fail 'does not say that there is no display'
    need gdppay tcpserversink
    # Another process sends latents. The preview connects when that process listens.
    port=$((20000 + $$ % 20000))
    gst-launch-1.0 -q videotestsrc is-live=true num-buffers=64 ! \
        video/x-raw,width=64,height=64,framerate=16/1 ! vaeencode ! gdppay ! \
        tcpserversink host=127.0.0.1 port="$port" &
    sender=$!
    until sh "$pipelines/live-preview.sh" --from "127.0.0.1:$port" \
        >"$tmp/said" 2>&1; do
        kill -0 "$sender" || fail "no connection: $(cat "$tmp/said")"
        sleep 0.2
    done
    wait "$sender"
}

# size_of_png FILE: prints the size in the header.
size_of_png() {
    # shellcheck disable=SC2046 # od prints eight words
    set -- $(od -An -tu1 -j16 -N8 "$1")
    echo "$(($3 * 256 + $4))x$(($7 * 256 + $8))"
}

# larger_model FILE: writes a Wan2.1 VAE whose pictures have twice the width and
# height.
larger_model() {
    wan=$source/tests/golden/data/wan21
    python3 - "$wan/weights.safetensors" "$1" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
end = 8 + struct.unpack_from("<Q", data)[0]
header, parts, at = json.loads(data[8:end]), [], 0
del header["__metadata__"]
for name, entry in header.items():
    first, last = entry["data_offsets"]
    part = data[end + first:end + last]
    if name.startswith("decoder.head.2."):
        entry["shape"][0] *= 4
        part *= 4
    entry["data_offsets"] = at, at + len(part)
    at += len(part)
    parts.append(part)
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))
END
}

preview_and_record() {
    need_demo
    [ -f "$pipelines/demo/demo-tiny.safetensors" ] ||
        skip 'no pipelines/demo/demo-tiny.safetensors'
    need vp8enc webmmux y4menc matroskamux compositor pngenc
    slow_preview preview-and-record.sh "$tmp/slow.webm"
    unset DISPLAY WAYLAND_DISPLAY
    sh "$pipelines/preview-and-record.sh" "$dir/out.y4m" >"$tmp/said" \
        2>"$tmp/log" || fail "$(cat "$tmp/log")"
    cat "$tmp/said"
    tells 'no display' "record model $pipelines/demo/demo.safetensors" \
        "preview model $pipelines/demo/demo-tiny.safetensors" 'out.y4m: ' 'out.png: '
    sh "$pipelines/latents-to-video.sh" "$dir/alone.y4m"
    cmp "$dir/out.y4m" "$dir/alone.y4m" ||
        fail 'the record is not what the full model alone gives'
    # The sheet has four rows of two pictures. Each is 416x240, scaled to a width of 320.
    [ "$(size_of_png "$dir/out.png")" = 640x736 ] || fail 'no sheet of 2x4'
    psnr=$(sed -n 's/.*PSNR \([0-9]*\).*/\1/p' "$tmp/said")
    # The two networks share a latent space: their pictures are similar, but not equal.
    if [ "${psnr:-0}" -lt 25 ] || [ "$psnr" -gt 60 ]; then
        fail "preview and record at ${psnr:-no} dB"
    fi
    # Other latents, with both models set.
    make_clip
    sh "$pipelines/video-to-latents.sh" --size 64x48 "$tmp/clip.webm" \
        "$tmp/small.safetensors"
    sh "$pipelines/preview-and-record.sh" \
        --model "$pipelines/demo/demo.safetensors" \
        --preview "$pipelines/demo/demo-tiny.safetensors" \
        "$tmp/small.safetensors" "$dir/small.webm"
    [ "$(frames_of "$dir/small.webm")" = 17 ] || fail 'not 17 frames recorded'
    refused 'vae\|model' sh "$pipelines/preview-and-record.sh" \
        --preview "$source/README.md" "$dir/bad.webm"
    cp "$pipelines/demo/demo.safetensors" "$tmp/copy.safetensors"
    for same in "$pipelines/demo/demo.safetensors" "$tmp/copy.safetensors" \
        "$pipelines/demo/../demo/demo.safetensors"; do
        refused 'the preview and the record would have the same model' \
            sh "$pipelines/preview-and-record.sh" --preview "$same" \
            "$dir/bad.webm"
    done
    # The tiny demo model cannot decode latents of another space.
    golden=$source/tests/golden/data
    refused 'space wan2.1; --preview WEIGHTS' \
        sh "$pipelines/preview-and-record.sh" \
        --model "$golden/taehv/taew2_1/weights.safetensors" \
        "$golden/wan21/decode_t2_6x10.safetensors" "$dir/bad.webm"
    larger_model "$tmp/larger.safetensors"
    sh "$pipelines/preview-and-record.sh" --model "$tmp/larger.safetensors" \
        --preview "$wan/weights.safetensors" "$wan/decode_t2_6x10.safetensors" \
        "$dir/larger.y4m" >"$tmp/log"
    tells '5 frames of 160x96, the preview of 80x48'
    [ "$(size_of_png "$dir/larger.png")" = 640x768 ] || fail 'another sheet'
    keeps "$dir/out.y4m" preview-and-record "$source/README.md"
    keeps_model preview-and-record "$pipelines/demo/latents.safetensors" y4m
    # The sheet is an output, too.
    cp "$pipelines/demo/demo-tiny.safetensors" "$dir/tiny.png"
    refused 'tiny.png: is the model; write' sh "$pipelines/preview-and-record.sh" \
        --preview "$dir/tiny.png" "$dir/tiny.y4m"
    cmp "$dir/tiny.png" "$pipelines/demo/demo-tiny.safetensors"
}

# rgb_of MODEL OUT: decodes the demo latents by this model to one tensor of frames.
rgb_of() {
    GST_PLUGIN_PATH_1_0=$build/gst gst-launch-1.0 -q \
        filesrc location="$pipelines/demo/latents.safetensors" ! latentdemux ! \
        vaedecode model="$pipelines/demo/$1" ! video/x-raw,format=RGB ! \
        filesink location="$tmp/rgb"
    # shellcheck disable=SC1091 # env.sh is beside the scripts, and sets its own $tmp
    (rgb=$tmp/rgb && . "$pipelines/env.sh" &&
        rgb_to_safetensors "$rgb" 416 240 "$2")
}

compare_live() {
    need_demo
    need pnmenc
    sh "$pipelines/compare-live.sh" >"$tmp/said" 2>"$tmp/log" ||
        fail "$(cat "$tmp/log")"
    cat "$tmp/said"
    tells "model $pipelines/demo/demo.safetensors" \
        "model $pipelines/demo/demo-tiny.safetensors"
    frames=$(sed -n 's/^\([0-9]*\) frames: .*/\1/p' "$tmp/said")
    lines=$(grep -c '^frame [0-9]* PSNR [0-9.]* dB SSIM [0-9.]*$' "$tmp/said")
    if [ "${frames:-0}" -lt 2 ] || [ "$lines" != "$frames" ]; then
        fail "${frames:-no} frames, $lines lines"
    fi
    # vaetool must give the same numbers for the same frames in files.
    rgb_of demo.safetensors "$tmp/full.safetensors"
    rgb_of demo-tiny.safetensors "$tmp/tiny.safetensors"
    vaetool compare --min-ssim 0 "$tmp/full.safetensors" \
        "$tmp/tiny.safetensors" >"$tmp/files"
    cat "$tmp/files"
    psnr=$(sed -n 's/.* PSNR \([0-9.]*\) dB.*/\1/p' "$tmp/files")
    ssim=$(sed -n 's/.* SSIM \([0-9.]*\).*/\1/p' "$tmp/files")
    grep -q "^$frames frames: PSNR ${psnr:-none} dB, .* SSIM ${ssim:-none} on" \
        "$tmp/said" || fail 'vaetool compare says something else'
    sh "$pipelines/compare-live.sh" \
        --model "$pipelines/demo/demo-tiny.safetensors" >"$tmp/said" \
        2>"$tmp/log"
    tells 'both sides have the same model and precision: set --other WEIGHTS'
    grep -q "^$frames frames: PSNR inf dB, .* SSIM 1.000000 on" "$tmp/said" ||
        fail 'the same model is not the same'
    refused 'README.md: is a text file' sh "$pipelines/compare-live.sh" \
        --other "$source/README.md"
    larger_model "$tmp/larger.safetensors"
    refused '^compare-live.sh: pictures of 80x48 by --model and 160x96 by --other' \
        sh "$pipelines/compare-live.sh" --model "$wan/weights.safetensors" \
        --other "$tmp/larger.safetensors" "$wan/decode_t2_6x10.safetensors"
    for option in precision other-precision; do
        refused "^compare-live.sh: --$option silly: expected .* auto fp32 .* bf16$" \
            sh "$pipelines/compare-live.sh" --$option silly
    done
}

# Scripts for the demo model use it even if other models are installed.
install_another() {
    mkdir -p "$tmp/data/gst-vae/models"
    cp "$pipelines/demo/demo.safetensors" \
        "$tmp/data/gst-vae/models/wan2.1.safetensors"
    XDG_DATA_HOME=$tmp/data
    export XDG_DATA_HOME
}

round_trip() {
    need_demo
    install_another
    sh "$pipelines/round-trip.sh" --size 96x64 --frames 9 >"$tmp/said"
    cat "$tmp/said"
    grep -q 'PSNR [0-9]' "$tmp/said" || fail 'tells no PSNR'
    grep -q 'about 23 dB' "$tmp/said" || fail 'tells no PSNR to expect'
    # These are options that all scripts have.
    sh "$pipelines/round-trip.sh" --latent-space gst-vae-demo --size 32x32 \
        --frames 1 >"$tmp/said"
    grep -q 'PSNR [0-9]' "$tmp/said" || fail 'tells no PSNR of a space'
    # A signal in mktemp leaves no folder.
    mkdir "$tmp/bin" "$tmp/temporary"
    cat >"$tmp/bin/mktemp" <<END
#!/bin/sh
made=\$($(command -v mktemp) "\$@")
kill -TERM \$\$
echo "\$made"
END
    chmod +x "$tmp/bin/mktemp"
    PATH=$tmp/bin:$PATH TMPDIR=$tmp/temporary sh "$pipelines/round-trip.sh" \
        --size 32x32 --frames 1 >"$tmp/said" 2>&1 || echo "ended by $?" >>"$tmp/said"
    [ -z "$(ls "$tmp/temporary")" ] || fail "leaves a folder: $(cat "$tmp/said")"
    refused 'exclude each other' sh "$pipelines/round-trip.sh" \
        --latent-space wan2.1 --model "$source/README.md"
    refused 'unknown argument more' sh "$pipelines/round-trip.sh" more
    refused 'set it by the option --model' sh "$pipelines/round-trip.sh" \
        --latent-space wan2.2
}

demo() {
    need_demo
    install_another
    # This vaetool says that only plain C is available.
    mkdir -p "$tmp/plain/engine"
    ln -s "$build/gst" "$tmp/plain/gst"
    cat >"$tmp/plain/engine/vaetool" <<END
#!/bin/sh
[ "\$1" = --backends ] || exec "$build/engine/vaetool" "\$@"
printf '%s\n' 'cuda: no: no GPU' 'cpu: no: no oneDNN' 'ref: yes'
END
    chmod +x "$tmp/plain/engine/vaetool"
    sh "$pipelines/demo.sh" --build "$tmp/plain" --out "$dir/out" >"$tmp/said"
    cat "$tmp/said"
    grep -q 'CPU backend is missing (no oneDNN)' "$tmp/said" ||
        fail 'does not tell why it is slow'
    grep -q 'frames/s\|a second' "$tmp/said" || fail 'tells no rate'
    grep -q 'PSNR [0-9]' "$tmp/said" || fail 'tells no PSNR'
    [ "$(frames_of "$dir/out/demo.webm")" -gt 1 ] || fail 'no video'
    [ "$(frames_of "$dir/out/demo.png")" = 1 ] || fail 'no picture'
    cd "$tmp"
    # Ctrl-C ends a script, also one whose shell ignores the signal.
    gst-launch-1.0 -q videotestsrc num-buffers=999 ! matroskamux ! \
        filesink location=raw.mkv
    mkdir bin
    cat >bin/gst-launch-1.0 <<END
#!/bin/sh
(while [ ! -s cut ] && kill -0 \$\$; do sleep 0.1; done; kill -INT \$\$) &
exec $(command -v gst-launch-1.0) "\$@"
END
    chmod +x bin/gst-launch-1.0
    cat >cut.sh <<'END'
. "$pipelines/env.sh"
frames_of raw.mkv identity sleep-time=20000 ! filesink location=cut
echo it went on
END
    pipelines=$pipelines PATH=$tmp/bin:$PATH sh -e cut.sh >said 2>&1 &
    if wait $!; then fail "$(cat said)"; else code=$?; fi
    [ "$code" = 130 ] || fail "ended by $code, expected 130: $(cat said)"
}

case $test_case in
usage | demo | media) "$test_case" ;;
*-*) "$(echo "$test_case" | tr - _)" ;;
esac

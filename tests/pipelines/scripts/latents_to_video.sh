#!/bin/sh
# Tests latents-to-video.sh.
# shellcheck source=tests/pipelines/scripts/checks.sh
. "$(dirname "$0")/checks.sh"

# says LINE...: makes a gst-launch-1.0 that says these lines and waits forever.
says() {
    {
        printf '#!/bin/sh\n'
        printf "echo '%s'\n" "$@"
        echo 'exec sleep 600'
    } | program "$tmp/fake/gst-launch-1.0"
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
    one_line
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
    one_line
    says "$plugin" 'Missing decoder: MPEG-4 AAC (audio/mpeg)' ''
    refused "^video-to-latents.sh: $source/README.md: no video in the file$" env \
        PATH="$tmp/fake:$PATH" sh "$pipelines/video-to-latents.sh" \
        "$source/README.md" "$dir/o.safetensors"
    one_line
    says "ERROR: from element $pipe/GstLatentMux:latentmux0: No latents arrived"
    no_decoder
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
    program "$tmp/talks/gst-launch-1.0" <<'EOF'
#!/bin/sh
for last; do :; done
eval "part=${last#location=}"
: >"$part"
while echo 'a message'; do :; done
EOF
    before=$(ls "$dir")
    {
        PATH="$tmp/talks:$PATH" sh "$pipelines/latents-to-video.sh" \
            "$dir/unread.webm" 2>&1 || echo $? >"$tmp/status"
    } | head -n 1 >"$tmp/said"
    said 'a message'
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
    run latents-to-video "$tmp/rate.safetensors" "$dir/rate.y4m"
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
    run latents-to-video "$tmp/turned.safetensors" "$dir/turned.y4m"
    head -n 1 "$dir/turned.y4m" | grep -q 'W48 H64' || fail 'turned.y4m is not'
    has x264enc || return 0
    run latents-to-video "$tmp/turned.safetensors" "$dir/turned.mp4"
    cp "$dir/turned.mp4" "$tmp"
    gst-launch-1.0 -t filesrc location="$tmp/turned.mp4" ! qtdemux ! h264parse ! \
        fakesink >"$tmp/said"
    if grep -q 'rotate-[1-9]' "$tmp/said"; then fail 'turned twice'; fi
}

# Videos have no alpha.
alpha() {
    vectors=$source/tests/golden/data/qwenimage21
    run latents-to-video --model "$vectors/weights.safetensors" \
        "$vectors/decode_t3_2x3.safetensors" "$dir/alpha.y4m" 2>"$tmp/log" ||
        fail "$(cat "$tmp/log")"
    tells 'alpha, which is lost'
}

latents_to_video() {
    need_demo
    need vp8enc webmmux y4menc
    for out in webm y4m; do
        run latents-to-video "$dir/out.$out" 2>"$tmp/log"
        tells "model $pipelines/demo/demo.safetensors" "out.$out: "
    done
    [ "$(grep -c 'model ' "$tmp/log")" = 1 ] || fail 'the model more than once'
    run latents-to-video --model "$pipelines/demo/demo.safetensors" \
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
    refused 'vae\|model' run latents-to-video --model "$source/README.md" "$dir/bad.webm"
    refused 'no folder' run latents-to-video "$dir/none/out.webm"
    keeps "$dir/out.y4m" latents-to-video "$source/README.md"
    one_error
    nobody_reads
    printf '\0\0\0\040ftypisom\0\0\2\0isomiso2avc1mp41' >"$tmp/clip.mp4"
    refused 'clip.mp4: is a video file (MP4 or MOV); expected a' \
        run latents-to-video "$tmp/clip.mp4" "$dir/o.webm"
    one_line
    cp "$pipelines/demo/latents.safetensors" "$dir/same.y4m"
    keeps "$dir/same.y4m" latents-to-video "$dir/same.y4m"
    said 'same.y4m: is the input; write to another file$'
    keeps_model latents-to-video "$pipelines/demo/latents.safetensors" webm
    stops_clean script TERM 143
    stops_clean pipeline INT 130
    # These latents state no space.
    zeros 2 "$dir/latents.npy"
    refused 'no latent-space' run latents-to-video "$dir/latents.npy" "$dir/npy.y4m"
    refused 'set them by the options --model and --latent-space' \
        run latents-to-video "$dir/latents.npy" "$dir/npy.y4m"
    refused "^latents-to-video.sh: --normalization none: vaedecode does not.*$(
        )expected auto, normalized, raw or comfyui" \
        run latents-to-video --normalization none "$dir/npy.y4m"
    # There is one error, which says what is wrong.
    refused '^latents-to-video.sh: latentdemux: .*README.md: is a text file' \
        run latents-to-video "$source/README.md" "$dir/npy.y4m"
    one_line
    refused 'demo.safetensors: .*looks like model weights' run latents-to-video \
        "$pipelines/demo/demo.safetensors" "$dir/npy.y4m"
    one_line
    run latents-to-video --normalization raw "$dir/raw.y4m" 2>"$tmp/log"
    tells 'states normalization normalized; normalization raw overrides it'
    [ "$(y4m_frames "$dir/raw.y4m")" = "$lossless" ] || fail 'raw: other frames'
    run latents-to-video --latent-space gst-vae-demo \
        "$dir/latents.npy" "$dir/npy.y4m" 2>"$tmp/log"
    [ "$(y4m_frames "$dir/npy.y4m")" = 5 ] || fail 'not 5 frames of the .npy'
    model=$pipelines/demo/demo.safetensors
    for given in '' '--latent-space gst-vae-demo' '--normalization normalized'; do
        # shellcheck disable=SC2086 # an option and its value
        run latents-to-video $given --model "$model" \
            "$dir/latents.npy" "$dir/npy.y4m" 2>"$tmp/log"
        said=$(grep -c 'states\|INFO' "$tmp/log" || true)
        case $given in
        --norm*) [ "$said" = 0 ] || fail "$(cat "$tmp/log")" ;;
        *)
            [ "$said" = 1 ] || fail "$(cat "$tmp/log")"
            tells 'npy states no normalization: the latents are taken as'
            ;;
        esac
    done
    refused 'none.pth: cannot open' run latents-to-video \
        --model "$model,$dir/none.pth" "$dir/npy.y4m"
    turned
}

"$test_case"

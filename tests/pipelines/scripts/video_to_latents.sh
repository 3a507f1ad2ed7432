#!/bin/sh
# Tests video-to-latents.sh, and the videos that people have.
# shellcheck source=tests/pipelines/scripts/checks.sh
. "$(dirname "$0")/checks.sh"

# H.264 cannot have an odd size.
odd_size() {
    has x264enc || return 0
    run video-to-latents --size 61x47 "$tmp/clip.webm" "$dir/odd.safetensors"
    run latents-to-video "$dir/odd.safetensors" \
        "$dir/odd.mp4" 2>"$tmp/log" || fail "$(cat "$tmp/log")"
    tells '61x47 is odd' '60x46' 'odd.mp4: '
    cp "$dir/odd.mp4" "$tmp/odd.mp4"
    gst-launch-1.0 -v filesrc location="$tmp/odd.mp4" ! qtdemux ! h264parse ! \
        fakesink >"$tmp/said"
    grep -q 'width=(int)60, height=(int)46' "$tmp/said" || fail 'not 60x46'
    run latents-to-video "$dir/out.safetensors" \
        "$dir/even.mp4" 2>"$tmp/log" || fail "$(cat "$tmp/log")"
    if grep -q odd "$tmp/log"; then fail "$(cat "$tmp/log")"; fi
    # This gst-launch-1.0 does not end after an error.
    program "$tmp/stays/gst-launch-1.0" <<'END'
#!/bin/sh
echo 'ERROR: from element /GstPipeline:pipeline0/GstFake:fake0: stays'
exec sleep 60
END
    PATH="$tmp/stays:$PATH" refused 'fake: stays' timeout 40 \
        sh "$pipelines/latents-to-video.sh" "$dir/out.safetensors" "$dir/s.mp4"
}

video_to_latents() {
    need_demo
    make_clip
    run video-to-latents "$tmp/clip.webm" "$dir/out.safetensors" 2>"$tmp/log"
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
        said "^video-to-latents.sh: .*${file##*/}: holds tensors, not a"
        one_line
    done
    printf 'GIF89a\1\0\1\0\0\0\0;' >"$dir/loops.mp4"
    refused '^video-to-latents.sh: .*loops.mp4: is a GIF' \
        run video-to-latents "$dir/loops.mp4" "$dir/o.safetensors"
    refused 'must end in .safetensors' run video-to-latents \
        "$dir/out.safetensors" "$tmp/clip.webm"
    [ "$(frames_of "$tmp/clip.webm")" = 17 ] || fail 'the video is lost'
    # With --latent-space, only a model of this space is used.
    export XDG_DATA_HOME="$dir/data" XDG_DATA_DIRS="$dir/none"
    refused 'latent space "wan2.1"' run video-to-latents \
        --latent-space wan2.1 "$tmp/clip.webm" "$dir/no.safetensors"
    refused 'exclude each other' run video-to-latents \
        --latent-space wan2.1 --model "$source/README.md" "$tmp/clip.webm" \
        "$dir/no.safetensors"
    run video-to-latents --latent-space gst-vae-demo --size 80x48 "$tmp/clip.webm" \
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
    said "demo.safetensors: is the model; write"
    rm -r "$dir/data"
    cp "$tmp/clip.webm" "$dir/clip.safetensors"
    keeps "$dir/clip.safetensors" video-to-latents "$dir/clip.safetensors"
    said 'clip.safetensors: is the input; write'
    # 76 pixels wide, which y4menc may not be able to write.
    run video-to-latents --size 76x48 "$tmp/clip.webm" "$dir/narrow.safetensors"
    if run latents-to-video "$dir/narrow.safetensors" "$dir/narrow.y4m" 2>"$tmp/log"; then
        [ "$(y4m_frames "$dir/narrow.y4m")" = 17 ] || fail 'a wrong .y4m'
    else
        tells 'multiple of 8'
    fi
    run latents-to-video "$dir/out.safetensors" "$dir/back.webm"
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
    run video-to-latents "$file" "$dir/media.safetensors" \
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
    # ffmpeg writes the rows from top to bottom, which is a negative height.
    gst-launch-1.0 -q videotestsrc num-buffers=9 ! \
        video/x-raw,format=BGR,width=160,height=96,pixel-aspect-ratio=4/3 ! avimux ! \
        filesink location="$tmp/up.avi"
    LC_ALL=C sed 's/`\x00\x00\x00\x01\x00\x18/\xa0\xff\xff\xff\x01\x00\x18/' \
        "$tmp/up.avi" >"$tmp/down.avi"
    run video-to-latents --size 80x48 "$tmp/down.avi" "$dir/down.safetensors"
    vaetool info "$dir/down.safetensors" | grep -q 'video 80x48' || fail 'down.avi'
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
    refused 'sound.mov: no video in the file' run video-to-latents \
        "$tmp/sound.mov" "$dir/no.safetensors"
    # decodebin of GStreamer 1.22 then takes no decoder of alpha.
    printf '#!/bin/sh\necho "ERROR: $*"\nexit 1\n' | program "$tmp/words/gst-launch-1.0"
    for file in views alpha; do
        PATH="$tmp/words:$PATH" refused ' ! decodebin ' \
            sh "$pipelines/video-to-latents.sh" "$tmp/$file.webm" "$dir/no.safetensors"
        grep -o 'decodebin .*expose-all' "$tmp/said" || echo "$file"
    done >"$tmp/exposed"
    [ "$(cat "$tmp/exposed")" = "decodebin caps=video/x-raw(ANY) expose-all
alpha" ] || fail "$(cat "$tmp/exposed")"
}

"$test_case"

#!/bin/sh
# Tests the options of all scripts, and their errors.
# shellcheck source=tests/pipelines/scripts/checks.sh
. "$(dirname "$0")/checks.sh"

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
        run "$script" --help >"$tmp/help"
        grep -q "^usage: $script.sh" "$tmp/help" || fail "$script.sh --help"
        refused 'unknown' run "$script" --no-such-option
        refused 'needs a value' run "$script" "$(
            [ $script = demo ] && echo --out || echo --model)"
        refused 'needs a value' run "$script" "$(
            [ $script = demo ] && echo --out= || echo --model=)"
        columns=$(awk '/^  -/ && match($0, /[^ ]   *[^ ]/) {
            print RSTART + RLENGTH }' "$tmp/help" | sort -u)
        [ "$(echo "$columns" | wc -l)" = 1 ] ||
            fail "$script.sh --help: columns $columns"
    done
    refused 'no such file' run latents-to-video "$dir/none" "$dir/out.webm"
    # live.py prints its options although the modules that it needs are missing.
    mkdir "$tmp/nothing"
    echo 'raise ImportError("no gi here")' >"$tmp/nothing/gi.py"
    export PYTHONPATH="$tmp/nothing"
    python3 "$pipelines/live/live.py" --help >"$tmp/help" ||
        fail 'live.py --help'
    grep -q '^usage: live.py' "$tmp/help" || fail "$(cat "$tmp/help")"
    refused "no gi here: install Debian's python3-gi" \
        python3 "$pipelines/live/live.py"
    one_line
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
    refused 'must end in' run latents-to-video "$source/README.md" "$dir/out.avi"
    refused 'no such file' run video-to-latents "$dir/none" "$dir/out.safetensors"
    refused '832x480' run video-to-latents --size 10 \
        "$source/README.md" "$dir/out.safetensors"
    refused 'no such file' run preview-and-record "$dir/none" "$dir/out.webm"
    refused 'true or false' run live-preview --sync maybe
    refused '^live-preview.sh: --sync maybe: expected' run live-preview --sync=maybe
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
                run "$script" "--$option=" --none
        done
    done
    refused '^compare-live.sh: --other-precision needs a value' \
        run compare-live --other-precision=
    refused '^compare-live.sh: --other-precision foo: expected one of: auto fp32' \
        run compare-live --other-precision foo
    for option in host model tensor name; do
        refused "argument --$option: expected a value" \
            python3 "$pipelines/live/live.py" "--$option=" --none
    done
    # GStreamer would only warn of these.
    for number in -3 99999999999 1.5 lots; do
        refused "^latents-to-video.sh: --threads $number: expected a whole number, 0 to " \
            run latents-to-video --threads=$number "$dir/none" "$dir/out.webm"
    done
    number=18446744073709551615
    for range in "-2: expected a whole number, -1 to 2147483647" "-1: no such file"; do
        refused "${range#*: }" run latents-to-video \
            --cuda-device-id="${range%%:*}" "$dir/none" "$dir/out.webm"
    done
    refused 'no such file' run latents-to-video --seed=$number "$dir/none" \
        "$dir/out.webm"
    refused "expected a whole number, 0 to $number" \
        run latents-to-video --seed=18446744073709551616 "$dir/none" "$dir/out.webm"
    refused 'HOST:PORT' run live-preview --from nowhere
    for port in 0 99999 99999999999; do
        refused "port $port, expected 1 to 65535" \
            run live-preview --from "localhost:$port"
    done
    refused "^demo.sh: --build $tmp: has no gst/libgstvae.so" run demo --build "$tmp"
    refused 'multiple of 4' run round-trip --size 10x10
    for size in 0x4 4x0 65536x4 4x99999999999; do
        for script in round-trip video-to-latents; do
            refused "--size $size: .*1 to 65535" run "$script" --size $size
        done
    done
    for script in latents-to-video video-to-latents live-preview \
        preview-and-record compare-live; do
        refused '^[a-z-]*.sh: --model: options come before' \
            run "$script" one two --model "$source/README.md"
    done
}

"$test_case"

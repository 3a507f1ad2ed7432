#!/bin/sh
# Tests live-preview.sh, preview-and-record.sh and compare-live.sh.
# shellcheck source=tests/pipelines/scripts/checks.sh
. "$(dirname "$0")/checks.sh"

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
    run live-preview >"$tmp/said" 2>&1 ||
        fail "$(cat "$tmp/said")"
    grep -q 'no display' "$tmp/said" || fail 'does not say that there is no display'
    need gdppay tcpserversink
    # Another process sends latents. The preview connects when that process listens.
    port=$((20000 + $$ % 20000))
    gst-launch-1.0 -q videotestsrc is-live=true num-buffers=64 ! \
        video/x-raw,width=64,height=64,framerate=16/1 ! vaeencode ! gdppay ! \
        tcpserversink host=127.0.0.1 port="$port" &
    sender=$!
    until run live-preview --from "127.0.0.1:$port" >"$tmp/said" 2>&1; do
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
    run preview-and-record "$dir/out.y4m" >"$tmp/said" \
        2>"$tmp/log" || fail "$(cat "$tmp/log")"
    cat "$tmp/said"
    tells 'no display' "record model $pipelines/demo/demo.safetensors" \
        "preview model $pipelines/demo/demo-tiny.safetensors" 'out.y4m: ' 'out.png: '
    run latents-to-video "$dir/alone.y4m"
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
    run video-to-latents --size 64x48 "$tmp/clip.webm" "$tmp/small.safetensors"
    run preview-and-record --model "$pipelines/demo/demo.safetensors" \
        --preview "$pipelines/demo/demo-tiny.safetensors" \
        "$tmp/small.safetensors" "$dir/small.webm"
    [ "$(frames_of "$dir/small.webm")" = 17 ] || fail 'not 17 frames recorded'
    refused 'vae\|model' run preview-and-record \
        --preview "$source/README.md" "$dir/bad.webm"
    cp "$pipelines/demo/demo.safetensors" "$tmp/copy.safetensors"
    for same in "$pipelines/demo/demo.safetensors" "$tmp/copy.safetensors" \
        "$pipelines/demo/../demo/demo.safetensors"; do
        refused 'the preview and the record would have the same model' \
            run preview-and-record --preview "$same" "$dir/bad.webm"
    done
    # The tiny demo model cannot decode latents of another space.
    golden=$source/tests/golden/data
    refused 'space wan2.1; --preview WEIGHTS' run preview-and-record \
        --model "$golden/taehv/taew2_1/weights.safetensors" \
        "$golden/wan21/decode_t2_6x10.safetensors" "$dir/bad.webm"
    larger_model "$tmp/larger.safetensors"
    run preview-and-record --model "$tmp/larger.safetensors" \
        --preview "$wan/weights.safetensors" "$wan/decode_t2_6x10.safetensors" \
        "$dir/larger.y4m" >"$tmp/log"
    tells '5 frames of 160x96, the preview of 80x48'
    [ "$(size_of_png "$dir/larger.png")" = 640x768 ] || fail 'another sheet'
    keeps "$dir/out.y4m" preview-and-record "$source/README.md"
    keeps_model preview-and-record "$pipelines/demo/latents.safetensors" y4m
    # The sheet is an output, too.
    cp "$pipelines/demo/demo-tiny.safetensors" "$dir/tiny.png"
    refused 'tiny.png: is the model; write' run preview-and-record \
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
    run compare-live >"$tmp/said" 2>"$tmp/log" ||
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
    run compare-live --model "$pipelines/demo/demo-tiny.safetensors" >"$tmp/said" \
        2>"$tmp/log"
    tells 'both sides have the same model and precision: set --other WEIGHTS'
    grep -q "^$frames frames: PSNR inf dB, .* SSIM 1.000000 on" "$tmp/said" ||
        fail 'the same model is not the same'
    refused 'README.md: is a text file' run compare-live --other "$source/README.md"
    larger_model "$tmp/larger.safetensors"
    refused '^compare-live.sh: pictures of 80x48 by --model and 160x96 by --other' \
        run compare-live --model "$wan/weights.safetensors" \
        --other "$tmp/larger.safetensors" "$wan/decode_t2_6x10.safetensors"
    for option in precision other-precision; do
        refused "^compare-live.sh: --$option silly: expected .* auto fp32 .* bf16$" \
            run compare-live --$option silly
    done
}

"$test_case"

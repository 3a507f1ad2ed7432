#!/bin/sh
# Tests demo.sh and round-trip.sh.
# shellcheck source=tests/pipelines/scripts/checks.sh
. "$(dirname "$0")/checks.sh"

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
    run round-trip --size 96x64 --frames 9 >"$tmp/said"
    cat "$tmp/said"
    grep -q 'PSNR [0-9]' "$tmp/said" || fail 'tells no PSNR'
    grep -q 'about 23 dB' "$tmp/said" || fail 'tells no PSNR to expect'
    # These are options that all scripts have.
    run round-trip --latent-space gst-vae-demo --size 32x32 --frames 1 >"$tmp/said"
    grep -q 'PSNR [0-9]' "$tmp/said" || fail 'tells no PSNR of a space'
    # A signal in mktemp leaves no folder.
    mkdir "$tmp/temporary"
    program "$tmp/bin/mktemp" <<END
#!/bin/sh
made=\$($(command -v mktemp) "\$@")
kill -TERM \$\$
echo "\$made"
END
    PATH=$tmp/bin:$PATH TMPDIR=$tmp/temporary sh "$pipelines/round-trip.sh" \
        --size 32x32 --frames 1 >"$tmp/said" 2>&1 || echo "ended by $?" >>"$tmp/said"
    [ -z "$(ls "$tmp/temporary")" ] || fail "leaves a folder: $(cat "$tmp/said")"
    refused 'exclude each other' run round-trip \
        --latent-space wan2.1 --model "$source/README.md"
    refused 'unknown argument more' run round-trip more
    refused 'set it by the option --model' run round-trip --latent-space wan2.2
}

demo() {
    need_demo
    install_another
    # This vaetool says that only plain C is available.
    program "$tmp/plain/engine/vaetool" <<END
#!/bin/sh
[ "\$1" = --backends ] || exec "$build/engine/vaetool" "\$@"
printf '%s\n' 'cuda: no: no GPU' 'cpu: no: no oneDNN' 'ref: yes'
END
    ln -s "$build/gst" "$tmp/plain/gst"
    run demo --build "$tmp/plain" --out "$dir/out" >"$tmp/said"
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
    program bin/gst-launch-1.0 <<END
#!/bin/sh
(while [ ! -s cut ] && kill -0 \$\$; do sleep 0.1; done; kill -INT \$\$) &
exec $(command -v gst-launch-1.0) "\$@"
END
    cat >cut.sh <<'END'
. "$pipelines/env.sh"
frames_of raw.mkv identity sleep-time=20000 ! filesink location=cut
echo it went on
END
    pipelines=$pipelines PATH=$tmp/bin:$PATH sh -e cut.sh >said 2>&1 &
    if wait $!; then fail "$(cat said)"; else code=$?; fi
    [ "$code" = 130 ] || fail "ended by $code, expected 130: $(cat said)"
}

"$test_case"

#!/bin/sh
# Builds gst-vae in all its configurations, runs all tests, and ends with the
# line "N passed, N failed, N skipped". Exit status 0: none failed.
#
#   sh tests/run.sh           all of it
#   sh tests/run.sh --quick   the first configuration only
#   sh tests/run.sh --long    also the tests of the suite "long", which repeat
#                             others with a slower backend or another type
#
# Needs Debian 12 and rights to install packages where some are missing. A
# configuration that builds counts as one test passed. VAE_TEST_DATA may name a
# folder with the large vectors; tests that need them are skipped without it.
set -u
cd "$(dirname "$0")/.." || exit 1

quick=no
long='--no-suite long'
case ${1:-} in
'') ;;
--quick) quick=yes ;;
--long) long= ;;
*)
    echo 'usage: sh tests/run.sh [--quick | --long]' >&2
    exit 2
    ;;
esac

passed=0
failed=0
skipped=0
failures=
began=$(date +%s)

count() { # PASSED FAILED SKIPPED
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
}

fail() { # WHAT
    echo "FAILED: $*"
    count 0 1 0
    failures="$failures
  $*"
}

# stage WHAT: a headline, with the time since the start. The stage before it
# has ended.
headline=
durations=
stage() {
    now=$(date +%s)
    [ -z "$headline" ] || durations="$durations
$(printf '%6d s  %s' $((now - stage_began)) "$headline")"
    headline=$*
    stage_began=$now
    echo "== $* (after $((now - began)) s)"
}

finish() {
    soak_end
    stage end
    echo "Durations:$durations"
    [ -z "$failures" ] || echo "Failed:$failures"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

# build FOLDER COMPILER OPTION...: makes the folder or brings it up to date;
# only what $targets names, where it is set.
targets=
build() {
    folder=$1
    CC=$2
    CXX=$([ "$2" = clang ] && echo clang++ || echo g++)
    export CC CXX
    shift 2
    stage "$folder: build"
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" "$@" >"$folder.log" 2>&1 ||
            meson setup --wipe "$folder" "$@" >"$folder.log" 2>&1
    else
        meson setup "$folder" "$@" >"$folder.log" 2>&1
    fi && meson compile -C "$folder" $targets >>"$folder.log" 2>&1
    # shellcheck disable=SC2181 # of either branch
    if [ $? = 0 ]; then
        count 1 0 0
        return 0
    fi
    tail -n 60 "$folder.log"
    fail "build of $folder"
    return 1
}

# More tests than processors at once: now and then each waits for something.
jobs=$(($(nproc) + 1))

# names FOLDER: of its tests, those of the suite "long" only where they are
# asked for.
names() {
    # shellcheck disable=SC2086 # an option, or none
    meson test -C "$1" --list $long 2>/dev/null |
        sed -n 's/^gst-vae:.* \/ //p'
}

# once FOLDER: of its tests, those that are there under the leaks tracer, too,
# only so; clang's build runs them as they are.
once() {
    names "$1" | awk '
        { name[NR] = $0; there[$0] }
        END { for (i = 1; i <= NR; i++)
                  if (!(name[i] "-leaks" in there)) print name[i] }'
}

# run FOLDER LABEL ARGUMENT...: meson test, with its results counted. Where
# $wrapper is set, a test is run by that program, which meson adds to the names
# of its results.
wrapper=
run() {
    folder=$1
    label=$2
    shift 2
    results=$folder/meson-logs/$label${wrapper:+-${wrapper##*/}}.json
    stage "$folder: $label tests"
    rm -f "$results"
    meson test -C "$folder" --no-rebuild --print-errorlogs \
        --num-processes "$jobs" --logbase "$label" \
        ${wrapper:+--wrapper "$wrapper"} "$@"
    if [ ! -s "$results" ]; then
        fail "$folder: no $label test ran"
        return
    fi
    # One line a test. Quotes within its texts are escaped, so that only the
    # key itself matches.
    ok=$(grep -c '"result": "\(OK\|EXPECTEDFAIL\)"' "$results")
    skip=$(grep -c '"result": "SKIP"' "$results")
    all=$(grep -c '"result": "' "$results")
    count "$ok" $((all - ok - skip)) "$skip"
    bad=$(grep -v '"result": "\(OK\|EXPECTEDFAIL\|SKIP\)"' "$results" |
        sed 's/^{"name": "\([^"]*\)".*/  \1/')
    [ -z "$bad" ] || failures="$failures
  $folder, $label:
$bad"
}

# plugins FOLDER: links to the plugins that the element tests use. A test that
# finds no registry loads every plugin it sees, with what those leak.
plugins() {
    mkdir -p "$1"
    from=$(pkg-config --variable=pluginsdir gstreamer-1.0)
    for plugin in app coreelements coretracers playback typefindfunctions \
        videoconvertscale videorate videotestsrc; do
        ln -sf "$from/libgst$plugin.so" "$1/"
    done
}

# fuzz TARGET: a minute, from the seeds and what was found before; finding more
# takes hours by hand. No file of 4 KiB is worth 64 MiB, or a minute.
fuzz() {
    name=${1##*/fuzz-}
    found=build-fuzz/found-$name
    mkdir -p "$found"
    tar -xzf "tests/fuzz/corpus/$name.tar.gz" -C "$found" || return
    "$1" -max_total_time=60 -timeout=60 -max_len=4096 -malloc_limit_mb=64 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$found-" \
        "$found" "tests/fuzz/seeds/$name" >"$found.log" 2>&1
}

# A pipeline that is disturbed for five minutes, beside the stages that follow:
# at a low priority, so that it takes little from them.
soak=
soak_begin() {
    nice -n 10 timeout 1500 sh tests/soak.sh 5 >build/soak.log 2>&1 &
    soak=$!
}

soak_end() {
    [ -n "$soak" ] || return 0
    stage 'build: soak, the rest of five minutes'
    if wait "$soak"; then
        count 1 0 0
    else
        fail 'soak'
    fi
    soak=
    cat build/soak.log
}

if ! sh tests/deps.sh tests; then
    fail 'installing packages'
    finish
fi

# Several tests run at once; threads of one that wait are not to keep the
# processor from another.
export OMP_WAIT_POLICY=passive

echo "test data: ${VAE_TEST_DATA:-none}"
# Other configurations are without CUDA.
pkg_config_path=${PKG_CONFIG_PATH-}
if ! gst_cuda=$(sh tests/gst_cuda.sh build-gst-cuda); then
    echo 'SKIP memory:CUDAMemory: gstreamer-cuda is not to be had'
    count 0 0 1
fi
export PKG_CONFIG_PATH="${gst_cuda:+$gst_cuda:}$pkg_config_path"
build build gcc -Dtests=enabled -Dgst=enabled -Donednn=enabled \
    -Dcuda-archs=90a,120 || finish
export PKG_CONFIG_PATH="$pkg_config_path"
# shellcheck disable=SC2046 # names without spaces
run build all $(once build)
[ "$quick" = no ] || finish
soak_begin

# The kernels of CUDA are the same in all configurations: nvcc, where it is,
# compiles them once. What is here for the first configuration alone is not
# looked at again.
# shellcheck disable=SC2046 # names without spaces
if build build-clang clang -Dcuda=disabled -Dtests=enabled -Dgst=enabled; then
    run build-clang short $(
        names build-clang | grep -e '^files-' -e '^check-' -e '^gst-' |
            grep -v -e '-leaks$' -e '-all$'
    )
fi
if build build-no-onednn gcc -Dcuda=disabled -Donednn=disabled; then
    run build-no-onednn short --suite files --suite check
fi
# Of these, it only matters that they build.
if build build-no-gst gcc -Dcuda=disabled -Dgst=disabled -Dbuildtype=debug
then
    run build-no-gst short --suite files
fi
build build-minimal gcc -Dbuildtype=debug -Donednn=disabled -Dgst=disabled -Dcuda=disabled \
    -Dtests=disabled -Ddocs=disabled

# oneDNN 2.6's kernels for AMX read one number past a list of theirs: a fault
# where the list's block ends what the allocator has mapped. glibc always has
# something there, the allocators of the sanitizers have not. Without AMX a CPU
# still computes in bf16, and code made at run time is not instrumented anyway.
export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16

# Left out: gst-launch-1.0, which is not built with the sanitizers; the memory
# of a process, which they change; what measures; and whole clips and full-size
# networks by the plain-C backend or over the emulation of CUDA, which are too
# slow with them: their kernels run in the checks, the ops in the trace. In bf16
# the code around the kernels is that of fp32: a few tests are enough.
sanitized() {
    names build-asan | grep -v -e '^gst-' -e '^pipelines-' -e '^memory-' \
        -e '^resident-' -e '^bench-' -e '^installed$' \
        -e '-ref-fp32$' -e '-cuda-' -e '^cuda-faults-' \
        -e '^cuda-.*-seedvr2$' -e '^cuda-backend-' -e '^gpu-table-' \
        -e '^cuda-release-wan21$' -e '^golden-generated-' \
        -e '^\(cold\|counts\|plan\|posterior\|scaled\|stream\)-.*-bf16$' \
        -e '^faults-seedvr2-ref$' -e '^package-' -e '^official$' \
        -e '^bench$' -e '^slices-.*-full-cpu-' -e '^plan-wan2.1-full-' \
        -e '^gpu-run$' -e '^gpu-large-' -e '^faults-.*-all$' -e '^soak$'
}
if build build-asan gcc -Dcuda=disabled -Db_sanitize=address,undefined \
    -Dtests=enabled; then
    asan=detect_leaks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export ASAN_OPTIONS="$asan"
    # shellcheck disable=SC2046 # names without spaces
    run build-asan sanitizers --timeout-multiplier 4 $(sanitized)
    # Through GLib only the slow unwinder sees who asked for memory.
    plugins build-asan/plugins
    export GST_PLUGIN_SYSTEM_PATH_1_0="$PWD/build-asan/plugins"
    export ASAN_OPTIONS="$asan:fast_unwind_on_malloc=0"
    # shellcheck disable=SC2046
    run build-asan elements --timeout-multiplier 4 $(
        names build-asan | grep '^gst-' |
            grep -v -e '-leaks$' -e '-cuda-emu$' -e '-all$' \
                -e '^gst-formats$' -e '^gst-roundtrip$' -e '^gst-cancel$'
    )
    unset GST_PLUGIN_SYSTEM_PATH_1_0
fi

# The elements where threads meet, and what of the engine has threads other than
# OpenMP's, which the sanitizer does not see; see tests/tsan.
targets=tsan
# shellcheck disable=SC2046 # names without spaces
if build build-tsan gcc -Dcuda=disabled -Db_sanitize=thread -Dtests=enabled \
    -Dgst=enabled; then
    wrapper=$PWD/tests/tsan/again.sh
    run build-tsan races --timeout-multiplier 4 $(
        names build-tsan | grep -x -e 'tsan-race' -e 'together-.*' \
            -e 'gst-storm' -e 'gst-flow' -e 'gst-random' -e 'gst-answers' \
            -e 'gst-release' -e 'gst-switch' -e 'gst-messages' \
            -e 'gst-queries' -e 'gst-events' -e 'gst-renegotiate' \
            -e 'gst-sync' -e 'gst-encode' -e 'gst-decode' -e 'gst-refused' \
            -e 'gst-latent.*' |
            grep -v -e '-leaks$'
    )
    wrapper=
fi

unset ONEDNN_MAX_CPU_ISA

targets=fuzz
if build build-fuzz clang -Dfuzzing=enabled -Dtests=enabled -Dgst=enabled \
    -Donednn=disabled -Dcuda=disabled; then
    stage 'build-fuzz: all targets at once'
    started=
    for target in build-fuzz/tests/fuzz/fuzz-*; do
        if [ ! -f "$target" ]; then continue; fi # a folder of objects
        fuzz "$target" &
        started="$started ${target##*/fuzz-}:$!"
    done
    for each in $started; do
        if wait "${each##*:}"; then
            count 1 0 0
        else
            tail -n 40 "build-fuzz/found-${each%:*}.log"
            fail "fuzz-${each%:*}"
        fi
    done
fi

stage static
sh tests/static.sh build >build/static.log 2>&1
cat build/static.log
totals=$(tail -n 1 build/static.log)
case $totals in
*' passed, '*' failed, '*' skipped')
    # shellcheck disable=SC2046 # three words
    count $(echo "$totals" | tr -dc '0-9 ')
    bad=$(sed -n 's/^FAILED: /  static: /p' build/static.log)
    [ -z "$bad" ] || failures="$failures
$bad"
    ;;
*) fail 'tests/static.sh did not end' ;;
esac
finish

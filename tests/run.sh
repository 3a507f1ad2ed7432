#!/bin/sh
# Builds gst-vae and runs its tests. The last line is "N passed, N failed, N
# skipped". The exit status is 0 if none failed.
#
#   sh tests/run.sh          the basic tests, in some minutes
#   sh tests/run.sh --full   pipelines/demo.sh, the basic tests, then slow tests,
#                            other configurations, sanitizers and analyzers
#   sh tests/run.sh --long   --full, gcc's path analysis, and the suite "long",
#                            which repeats other tests with a slower backend or
#                            another type
#
# If packages are missing, the script needs root rights to install them. A
# configuration that builds counts as one passed test. VAE_TEST_DATA may name a
# folder with large vectors; tests that need them are skipped without it.
# VAE_GST_DEVTOOLS may name the sources of gst-devtools, whose gst-validate then
# runs scenarios; they are skipped without it.
# VAE_TEST_DISTROS may name systems: --full then runs both commands of the
# README on each.
set -u
cd "$(dirname "$0")/.." || exit 1

what=$*
case $what in
'' | --full | --long) ;;
*)
    echo 'usage: sh tests/run.sh [--full | --long]' >&2
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

# remember LINES: keeps failures, which are counted already, for the summary.
remember() {
    [ -z "$1" ] || failures="$failures
$1"
}

fail() { # WHAT
    echo "FAILED: $*"
    count 0 1 0
    remember "$*"
}

skip() { # WHAT
    echo "SKIPPED: $*"
    count 0 0 1
}

# stage WHAT: ends the previous stage, and prints a headline with the time since
# the start.
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

# script NAME COMMAND...: runs a command whose last line has counts like ours,
# and adds them. The command reports failures in lines that begin with "FAILED:
# ".
script() {
    # Not build-NAME.log: NAME may write the output of its build to that file.
    log=build-script-$1.log
    stage "$1"
    name=$1
    shift
    "$@" 2>&1 | tee "$log"
    totals=$(tail -n 1 "$log")
    case $totals in
    *' passed, '*' failed, '*' skipped')
        # shellcheck disable=SC2046 # three words
        count $(echo "$totals" | tr -dc '0-9 ')
        remember "$(sed -n "s/^FAILED: /$name: /p" "$log")"
        ;;
    *) fail "$name: did not end" ;;
    esac
}

# Warnings are errors only with compilers that are known to give none.
known='gcc-12 clang-14'

# build FOLDER COMPILER OPTION...: makes or updates the folder; only the targets
# in $targets, if it is set.
targets=
build() {
    folder=$1
    CC=$2
    CXX=$([ "$2" = clang ] && echo clang++ || echo g++)
    export CC CXX
    shift 2
    stage "$folder: build"
    version=$("$CC" -dumpversion 2>&1)
    case " $known " in
    *" $CC-${version%%.*} "*) set -- "$@" -Dwerror=true ;;
    esac
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

# Runs more tests than processors at once, because tests sometimes wait.
jobs=$(($(nproc) + 1))

# names FOLDER: prints the names of the tests that meson runs by default.
names() {
    meson test -C "$1" --list 2>/dev/null | sed -n 's/^gst-vae:.* \/ //p'
}

# run FOLDER LABEL ARGUMENT...: runs meson test and counts its results. If
# $wrapper is set, that program runs each test, and meson adds its name to the
# results.
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
    # The file has one line per test. Quotes in its texts are escaped, so that
    # only the key itself matches.
    ok=$(grep -c '"result": "\(OK\|EXPECTEDFAIL\)"' "$results")
    skip=$(grep -c '"result": "SKIP"' "$results")
    all=$(grep -c '"result": "' "$results")
    count "$ok" $((all - ok - skip)) "$skip"
    bad=$(grep -v '"result": "\(OK\|EXPECTEDFAIL\|SKIP\)"' "$results" |
        sed "s|^{\"name\": \"\([^\"]*\)\".*|$folder, $label: \1|")
    [ -z "$bad" ] || echo "$bad" | sed 's/^/FAILED: /'
    remember "$bad"
}

# plugins FOLDER: makes links to the plugins that the element tests use. A test
# that finds no registry loads every plugin it sees, and reports the leaks of
# those.
plugins() {
    mkdir -p "$1"
    from=$(pkg-config --variable=pluginsdir gstreamer-1.0)
    for plugin in app coreelements coretracers playback typefindfunctions \
        videoconvertscale videorate videotestsrc; do
        ln -sf "$from/libgst$plugin.so" "$1/"
    done
}

# fuzz TARGET: runs for a minute from the seeds and the corpus; to find more
# inputs, run it by hand for hours. No file of 4 KiB needs 64 MiB, or a minute.
fuzz() {
    name=${1##*/fuzz-}
    found=build-fuzz/found-$name
    mkdir -p "$found"
    tar -xzf "tests/fuzz/corpus/$name.tar.gz" -C "$found" || return
    # GLib's slice allocator would hide leaks.
    G_SLICE=always-malloc \
        "$1" -max_total_time=60 -timeout=600 -max_len=4096 -malloc_limit_mb=64 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$found-" \
        "$found" "tests/fuzz/seeds/$name" >"$found.log" 2>&1
}

# Runs all targets at once.
fuzz_all() {
    if ! echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang \
        -fsanitize=fuzzer,address -w -x c - -o /dev/null 2>build-fuzz.log
    then
        skip 'fuzzing: no clang with libFuzzer is here'
        return
    fi
    targets=fuzz
    build build-fuzz clang -Dfuzzing=enabled -Dtests=enabled -Donednn=disabled \
        -Dcuda=disabled || return
    targets=
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
}

# Disturbs a pipeline for five minutes, beside the following stages. A low
# priority keeps its cost small.
soak=
soak_begin() {
    nice -n 10 timeout 3600 sh tests/soak.sh 5 >build/soak.log 2>&1 &
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

# Builds as users do, and tests that their build works.
quick() {
    if ! sh tests/deps.sh tests; then
        fail 'installing packages'
        return
    fi
    echo "test data: ${VAE_TEST_DATA:-none}"
    if [ -n "${VAE_GST_DEVTOOLS:-}" ]; then
        if validate=$(sh tests/gst_validate.sh "$VAE_GST_DEVTOOLS" \
            build-gst-validate 2>build-gst-validate.log); then
            PATH="${validate:+$validate:}$PATH"
        else
            fail 'building gst-validate'
        fi
    fi
    # Without a GPU, nvcc would compile for minutes for nothing.
    if [ -e /dev/nvidiactl ]; then
        build build gcc --buildtype=release -Dcuda=auto -Dcuda-archs=native ||
            return
    else
        skip 'the CUDA module: no GPU is here; its kernels are emulated'
        build build gcc --buildtype=release -Dcuda=disabled || return
    fi
    run build quick
    fuzz_all
}

# Builds all options, with assertions. Only this stage compiles CUDA's kernels,
# for two devices.
full_all() {
    pkg_config_path=${PKG_CONFIG_PATH-}
    if ! gst_cuda=$(sh tests/gst_cuda.sh build-gst-cuda); then
        skip 'memory:CUDAMemory: gstreamer-cuda is not to be had'
    fi
    export PKG_CONFIG_PATH="${gst_cuda:+$gst_cuda:}$pkg_config_path"
    sh tests/deps.sh slurm || echo 'Slurm is not to be had'
    # shellcheck disable=SC2086 # words
    build build-all gcc -Dtests=enabled -Dgst=enabled -Donednn=enabled \
        -Dcuda-archs=90a,120 && run build-all full --suite full $long
    export PKG_CONFIG_PATH="$pkg_config_path"
}

# Tests another compiler and fewer options.
full_options() {
    build build-clang clang -Dcuda=disabled -Dtests=enabled -Dgst=enabled &&
        run build-clang short --suite files --suite check --suite golden \
            --no-suite cuda --no-suite full --no-suite long
    # No source depends on both options. The fuzz targets are built with
    # elements and without oneDNN. Of the tests only check.c depends on oneDNN.
    targets='vae engine/vaetool golden golden-tiles check-conv'
    build build-no-onednn gcc -Dcuda=disabled -Donednn=disabled \
        -Dgst=disabled -Dtests=enabled && run build-no-onednn short \
        --suite golden --no-suite cuda --no-suite full --no-suite long
    targets=
    # These only have to build without a warning: a compiler that optimises
    # across files sees more.
    build build-lto gcc --buildtype=release -Db_lto=true -Dcuda=disabled \
        -Dtests=disabled
    build build-lto-clang clang --buildtype=release -Db_lto=true \
        -Dcuda=disabled -Dtests=disabled
    build build-no-gst gcc -Dbuildtype=debug -Dgst=disabled -Dcuda=disabled \
        -Dtests=disabled -Ddocs=disabled
}

# Prints the tests for the sanitizers. Left out are gst-launch-1.0, which is not
# built with them; the memory of a process, which they change; benchmarks; and
# slow tests: whole clips, an hour of times, and full-size networks by the
# plain-C backend or over the emulation of CUDA, its timed choices, and refusals
# in fp32 beside those in bf16. The checks run their kernels, the trace runs
# their ops.
# Three networks are enough: two with attention, and one of the TAEHV family.
# Wan2.1's slices and refused allocations run the code of SeedVR2's, which takes
# twice the time.
sanitized() {
    names build-asan | grep -v -e '^gst-' -e '^pipelines-' -e '^memory-' \
        -e '^bench-' -e '^installed$' -e '^tool-minimal$' -e '-ref-fp32$' \
        -e '-cuda-' -e '^tiles-wan21-' \
        -e '^cuda-faults-' -e '^cuda-backend-' -e '^gpu-table-' \
        -e '^faults-\(wan21\|seedvr2\)-ref$' -e '^slices-.*-full-cpu-' \
        -e '^cuda-tune$' -e '^refused-fp32$' \
        -e '^slices-seedvr2-cpu-fp32$' -e '^faults-seedvr2-cpu$' \
        -e '-\(wan22\|taew2_2\|taew2_2_super\)-'
}

# At -O1 the instrumented kernels take a fifth of the time, and -g1 keeps the
# lines of a report.
sanitizers='-Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1'

full_asan() {
    # shellcheck disable=SC2086 # a list of words
    build build-asan gcc -Dcuda=disabled -Db_sanitize=address,undefined \
        $sanitizers -Dtests=enabled || return
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    # shellcheck disable=SC2046 # names without spaces
    run build-asan sanitizers $(sanitized)
    plugins build-asan/plugins
    export GST_PLUGIN_SYSTEM_PATH_1_0="$PWD/build-asan/plugins"
    # shellcheck disable=SC2046
    run build-asan elements $(
        names build-asan | grep '^gst-' |
            grep -v -e '-cuda-emu$' -e '^gst-formats$' -e '^gst-roundtrip$' \
                -e '^gst-cancel$' -e '^gst-hour$'
    )
    unset GST_PLUGIN_SYSTEM_PATH_1_0 ASAN_OPTIONS UBSAN_OPTIONS
}

# Runs the tests of elements with several threads, and of those parts of the
# engine whose threads are not OpenMP's, which the sanitizer does not see; see
# tests/tsan.
full_tsan() {
    targets=tsan
    # shellcheck disable=SC2046,SC2086 # words without spaces
    build build-tsan gcc -Dcuda=disabled -Db_sanitize=thread $sanitizers \
        -Dtests=enabled -Dgst=enabled && wrapper=$PWD/tests/tsan/again.sh &&
        run build-tsan races $(
            names build-tsan | grep -x -e 'tsan-race' -e 'together-.*' \
                -e 'stream-storm-ref-.*' \
                -e 'gst-storm' -e 'gst-flow' -e 'gst-random' -e 'gst-answers' \
                -e 'gst-release' -e 'gst-switch' -e 'gst-messages' \
                -e 'gst-queries' -e 'gst-events' -e 'gst-renegotiate' \
                -e 'gst-sync' -e 'gst-encode' -e 'gst-decode' \
                -e 'gst-refused' -e 'gst-latent.*'
        )
    targets=
    wrapper=
}

full() {
    # These are the two commands of the README.
    stage demo
    if sh pipelines/demo.sh; then count 1 0 0; else fail demo; fi
    script quick sh tests/run.sh
    soak_begin
    full_all
    full_options
    # The AMX kernels of oneDNN 2.6 read one number past one of their lists.
    # This is a fault if the list's block is at the end of mapped memory, which
    # happens with the allocators of the sanitizers and not with glibc's.
    # Without AMX a CPU still computes in bf16, and code generated at run time
    # is not instrumented anyway.
    export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
    full_asan
    full_tsan
    unset ONEDNN_MAX_CPU_ISA
    # shellcheck disable=SC2086 # a word or none
    script static sh tests/static.sh build-all $analyzer
    script arm sh tests/arm.sh
    # Each system takes long, and needs the network and root rights.
    # shellcheck disable=SC2086 # a list of words
    [ -z "${VAE_TEST_DISTROS:-}" ] ||
        script distros sh tests/distros.sh $VAE_TEST_DISTROS
}

# Several tests run at once, so waiting threads must not occupy the processor.
export OMP_WAIT_POLICY=passive

case $what in
'') quick ;;
--long)
    # Each test may take an hour, instead of the limit in tests/meson.build.
    long='--suite long --timeout-multiplier 120'
    analyzer=--long
    full
    ;;
--full)
    long='--no-suite long'
    analyzer=
    full
    ;;
esac
finish

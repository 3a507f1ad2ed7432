#!/bin/sh
# Builds gst-vae and runs its tests. The last line is "N passed, N failed, N
# skipped". The exit status is 0 if none failed.
#
#   sh tests/run.sh          a release build, the demo, the quick tests, fuzzing
#   sh tests/run.sh --full   for each change: slower tests, other builds,
#                            sanitizers and analyzers
#   sh tests/run.sh --long   --full, and everything that takes long or needs
#                            more packages
#
# The table at the end has the stages. If packages are missing, the script needs
# root rights to install them. A build counts as one test.
#
# VAE_TEST_BASE names a commit whose tests passed: --full then skips a stage if
# nothing in its paths has changed since.
# VAE_TEST_DATA names a folder with large vectors; tests that need them are
# skipped without it.
# VAE_TEST_DISTROS names the systems for tests/distros.sh, in --long.
# VAE_GST_DEVTOOLS names the sources of gst-devtools, whose gst-validate then
# runs scenarios; they are skipped without it.
set -u
cd "$(dirname "$0")/.." || exit 1

case $#,${1-} in
0,) tier=quick ;;
1,--full) tier=full ;;
1,--long) tier=long ;;
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

# headline WHAT: ends the previous step, and prints a headline with the time
# since the start.
step=
durations=
headline() {
    now=$(date +%s)
    [ -z "$step" ] || durations="$durations
$(printf '%6d s  %s' $((now - step_began)) "$step")"
    step=$*
    step_began=$now
    echo "== $* (after $((now - began)) s)"
}

finish() {
    soak_end
    headline end
    echo "Durations:$durations"
    echo "Longest tests:"
    echo "$longest" | sort -rn | head -n 10
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
    headline "$1"
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

# build COMPILER [TARGET...] [OPTION...]: makes or updates the folder.
build() {
    CC=$1
    CXX=$([ "$1" = clang ] && echo clang++ || echo g++)
    export CC CXX
    targets=
    options=
    shift
    for word; do
        case $word in
        -*) options="$options $word" ;;
        *) targets="$targets $word" ;;
        esac
    done
    headline "$folder: build"
    version=$("$CC" -dumpversion 2>&1)
    case " $known " in
    *" $CC-${version%%.*} "*) options="$options -Dwerror=true" ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" $options >"$folder.log" 2>&1 ||
            meson setup --wipe "$folder" $options >"$folder.log" 2>&1
    else
        meson setup "$folder" $options >"$folder.log" 2>&1
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

# names: prints the names of the quick tests of the folder.
names() {
    meson test -C "$folder" --list 2>/dev/null | sed -n 's/^gst-vae:.* \/ //p'
}

# last_words WHERE RESULTS: names the tests that failed, each with the end of its
# output.
last_words() {
    python3 - "$@" <<'EOF'
import json, sys
for line in open(sys.argv[2], encoding="utf-8"):
    test = json.loads(line)
    if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
        words = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
        print(f"{sys.argv[1]}: {test['name']}", *words[-8:], sep="\n    ")
EOF
}

# tests LABEL ARGUMENT...: runs meson test in the folder and counts its results.
# Meson first builds what these tests need. If $wrapper is set, that program
# runs each test, and meson adds its name to the results.
wrapper=
longest=
tests() {
    label=$1
    shift
    results=$folder/meson-logs/$label${wrapper:+-${wrapper##*/}}.json
    headline "$folder: $label tests"
    rm -f "$results"
    meson test -C "$folder" --print-errorlogs \
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
    bad=$(last_words "$folder, $label" "$results")
    [ -z "$bad" ] || echo "$bad" | sed 's/^\([^ ]\)/FAILED: \1/'
    remember "$bad"
    longest="$longest
$(sed 's|^{"name": "[^/"]*/ \([^"]*\)".*"duration": \([0-9]*\).*|\2 \1|' \
        "$results" | sort -rn | head -n 10 |
        while read -r seconds test; do
            printf '%6d s  %s: %s\n' "$seconds" "$folder" "$test"
        done)"
}

# plugins FOLDER: makes links to the plugins that the element tests use. A test
# that finds no registry loads every plugin it sees, and reports the leaks of
# those.
plugins() {
    mkdir -p "$1"
    from=$(pkg-config --variable=pluginsdir gstreamer-1.0)
    for plugin in app coreelements coretracers multifile playback rawparse \
        typefindfunctions videoconvertscale videorate videotestsrc; do
        ln -sf "$from/libgst$plugin.so" "$1/"
    done
}

# demo ARGUMENT...: runs the first command of the README.
demo() {
    headline demo
    if sh pipelines/demo.sh "$@"; then count 1 0 0; else fail demo; fi
}

# fuzz_one TARGET SECONDS: runs from the seeds and the corpus. No file of 4 KiB
# needs 64 MiB, or a minute.
fuzz_one() {
    target=${1##*/fuzz-}
    found=$folder/found-$target
    mkdir -p "$found"
    tar -xzf "tests/fuzz/corpus/$target.tar.gz" -C "$found" || return
    # GLib's slice allocator would hide leaks.
    G_SLICE=always-malloc \
        "$1" -max_total_time="$2" -timeout=600 -max_len=4096 \
        -malloc_limit_mb=64 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$found-" \
        "$found" "tests/fuzz/seeds/$target" >"$found.log" 2>&1
}

# fuzz SECONDS: runs all targets at once.
fuzz() {
    headline "$folder: all targets for $1 s"
    started=
    for target in "$folder"/tests/fuzz/fuzz-*; do
        # The target's folder of objects has such a name, too.
        if [ ! -f "$target" ] || [ ! -x "$target" ]; then continue; fi
        fuzz_one "$target" "$1" &
        started="$started ${target##*/fuzz-}:$!"
    done
    for each in $started; do
        if wait "${each##*:}"; then
            count 1 0 0
        else
            tail -n 40 "$folder/found-${each%:*}.log"
            fail "fuzz-${each%:*}"
        fi
    done
}

can_fuzz() {
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address -w -x c - -o /dev/null \
            2>build-fuzz.log
}

# Disturbs a pipeline and eight other streams for as many minutes, beside the
# following stages. A low priority keeps its cost small.
soaking=
soak_begin() { # MINUTES
    nice -n 10 timeout 14400 sh tests/soak.sh "$1" '' 8 >"$folder/soak.log" 2>&1 &
    soaking=$!
    soak_log=$folder/soak.log
}

soak_end() {
    [ -n "$soaking" ] || return 0
    headline 'the rest of the soak'
    if wait "$soaking"; then count 1 0 0; else fail soak; fi
    soaking=
    cat "$soak_log"
}

# Under a sanitizer, the instrumented kernels take a fifth of the time at -O1,
# and -g1 keeps the lines of a report.
sanitizer='-Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1'

# The AMX kernels of oneDNN 2.6 read one number past one of their lists. This is
# a fault if the list's block is at the end of mapped memory, which happens with
# the allocators of the sanitizers and not with glibc's. Without AMX a CPU still
# computes in bf16, and code generated at run time is not instrumented anyway.
without_amx=AVX512_CORE_BF16

# Runs the quick tests, and slower ones whose code no quick test runs. Left out
# are gst-launch-1.0, which is not built with the sanitizers; the memory of a
# process, which they change; benchmarks; and networks by the plain-C backend or
# over the emulation of CUDA: the checks run their kernels, the trace runs their
# ops.
asan() {
    export ONEDNN_MAX_CPU_ISA=$without_amx
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    # shellcheck disable=SC2046 # names without spaces
    tests sanitizers $(
        names | grep -v -e '^gst-' -e '^pipelines-' -e '^memory-' \
            -e '^bench-' -e '^installed$' -e '^tool-minimal$' \
            -e '-ref-fp32$' -e '-cuda-'
    )
    plugins "$folder/plugins"
    export GST_PLUGIN_SYSTEM_PATH_1_0="$PWD/$folder/plugins"
    # shellcheck disable=SC2046
    tests elements $(
        names | grep '^gst-' |
            grep -v -e '-cuda-emu$' -e '^gst-cancel$'
    )
    tests slower --suite full tool faults-wan21-cpu delay-ltx2_3-cpu-fp32 \
        gst-seek gst-random
    unset GST_PLUGIN_SYSTEM_PATH_1_0 ASAN_OPTIONS UBSAN_OPTIONS \
        ONEDNN_MAX_CPU_ISA
}

# Runs the suite "tsan"; see tests/tsan.
tsan() {
    export ONEDNN_MAX_CPU_ISA=$without_amx
    wrapper=$PWD/tests/tsan/again.sh
    tests races --suite tsan $short
    wrapper=
    unset ONEDNN_MAX_CPU_ISA
}

# install KIND: for tests that are skipped without these packages.
install() {
    sh tests/deps.sh "$1" >"build-deps-$1.log" 2>&1 ||
        skip "packages for $1, see build-deps-$1.log"
}

# For the tests of gst-validate.
validate() {
    if validate=$(sh tests/gst_validate.sh "$VAE_GST_DEVTOOLS" \
        build-gst-validate 2>build-gst-validate.log); then
        PATH="${validate:+$validate:}$PATH"
    else
        fail 'building gst-validate'
    fi
}

# For the tests of elements with CUDA memory.
gst_cuda() {
    if gst_cuda=$(sh tests/gst_cuda.sh build-gst-cuda); then
        export PKG_CONFIG_PATH="${gst_cuda:+$gst_cuda:}${PKG_CONFIG_PATH-}"
    else
        skip 'memory:CUDAMemory: gstreamer-cuda is not to be had'
    fi
}

# unchanged PATH...: true if nothing in them has changed since VAE_TEST_BASE.
base=
unchanged() {
    [ -n "$base" ] && git diff --quiet "$base" -- "$@" &&
        [ -z "$(git ls-files --others --exclude-standard -- "$@")" ]
}

# row TIERS FOLDER BUILD COMMAND PATHS: runs a line of the table.
broken=
row() {
    case " $1 " in *" $tier "*) ;; *) return ;; esac
    # shellcheck disable=SC2086,SC2116 # without spaces
    folder=$(echo $2)
    # shellcheck disable=SC2086 # lists of words
    if [ -n "$5" ] && unchanged $5; then
        skip "$folder: $4: since $base nothing has changed in $5"
    elif [ -n "$3" ] && ! build $3; then
        broken="$broken $folder "
    else
        case $broken in
        *" $folder "*) skip "$folder: $4: there is no build" ;;
        *) $4 ;;
        esac
    fi
}

if ! sh tests/deps.sh tests; then
    fail 'installing packages'
    finish
fi
echo "test data: ${VAE_TEST_DATA:-none}"
[ -z "${VAE_GST_DEVTOOLS:-}" ] || validate
if [ "$tier" = full ] && [ -n "${VAE_TEST_BASE:-}" ]; then
    base=$(git merge-base "$VAE_TEST_BASE" HEAD) ||
        echo "VAE_TEST_BASE: $VAE_TEST_BASE is no commit that this one follows;" \
            'all stages run'
fi
# Without a GPU, nvcc would compile for minutes for nothing in the quick tier.
if [ -e /dev/nvidiactl ]; then
    cuda='-Dcuda=auto -Dcuda-archs=native'
    gpu=
else
    cuda=-Dcuda=disabled
    gpu='--no-suite gpu'
    skip 'the suite gpu: no GPU is here; the kernels of CUDA are emulated'
fi
fuzzing=
if can_fuzz; then
    fuzzing='quick full long'
else
    skip 'fuzzing: no clang with libFuzzer is here'
fi
# Several tests run at once, so waiting threads must not occupy the processor.
export OMP_WAIT_POLICY=passive

# Options of builds, and paths.
tested='-Dtests=enabled -Dcuda=disabled -Dgst-cuda=disabled'
all='-Db_ndebug=false -Dtests=enabled -Dgst=enabled -Donednn=enabled -Dcuda-archs=90a,120'
plans='engine :!engine/tool :!engine/files :!engine/cpu kernels/cuda tests/cuda meson.build'
kernels='kernels engine/cuda engine/backend engine/program tests/cuda tests/check tests/emu meson.build'
release='--buildtype=release -Db_lto=true'
# Suites that a row leaves out.
short='--no-suite long'
quick="$short --no-suite full"

# The table. Each row has the tiers in which it runs, the folder of a build, the
# compiler and options if the row builds this folder, a command, and the paths
# that it tests, if not all.
while IFS='|' read -r tiers folder options command paths <&3; do
    row "$tiers" "$folder" "$options" "$command" "$paths"
done 3<<END
quick     |build        |gcc --buildtype=release $cuda|demo --build build|
quick     |build        ||tests quick $gpu|
full long |build-demo   ||demo|
full long |build-full   ||gst_cuda|
full long |build-full   |gcc --buildtype=release $all|tests quick $gpu|
full long |build-full   ||tests full --suite full --no-suite plans --no-suite kernels $short|
full long |build-full   ||tests plans --suite plans $short|$plans
full long |build-full   ||tests kernels --suite kernels $short|$kernels
$fuzzing |build-fuzz   |clang fuzz -Dfuzzing=enabled $tested -Donednn=disabled|fuzz 20|
full long |build-asan   |gcc vae engine/vaetool gstvae $tested $sanitizer -Db_sanitize=address,undefined|asan|
full long |build-tsan   |gcc tsan $tested -Dgst=enabled $sanitizer -Db_sanitize=thread|tsan|
full long |build-clang  |clang vae engine/vaetool gstvae $tested -Dgst=enabled $release -Db_ndebug=false|tests short --suite files --suite check --suite golden --no-suite cuda $quick|
full long |build-minimum|gcc vae engine/vaetool $tested -Dgst=disabled -Donednn=disabled $release|tests golden --suite golden --no-suite cuda $quick|
full      |build-full   ||script static sh tests/static.sh build-full|
long      |build-full   ||script static sh tests/static.sh build-full --long|
long      |build-full   ||soak_begin 60|
long      |build-fuzz   ||fuzz 600|
long      |-            ||install slurm|
long      |-            ||install browser|
long      |build-full   ||tests long --suite long --timeout-multiplier 120|
long      |build-lto    |gcc $release -Dcuda=disabled -Dtests=disabled||
long      |build-debug  |clang $tested||
long      |build-arm    ||script arm sh tests/arm.sh|
long      |build-wheel  ||script wheel sh tests/wheel.sh --cuda-archs 90a build-wheel|
long      |build-windows||script windows sh tests/windows.sh|
long      |-            ||script distros sh tests/distros.sh --isa SSE41,AVX2,AVX512_CORE --cpus 1 --packages gstreamer1.0-libav ${VAE_TEST_DISTROS:-}|
long      |-            ||script tensors sh tests/distros.sh --tensors trixie|
END
finish

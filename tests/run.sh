#!/bin/sh
# Builds gst-vae in all its configurations, runs all tests, and ends with the
# line "N passed, N failed, N skipped". Exit status 0: none failed.
#
#   sh tests/run.sh           all of it
#   sh tests/run.sh --quick   the first configuration only
#   sh tests/run.sh --deep    also the elements under ASan, and the analyzers
#
# Needs Debian 12 and rights to install packages where some are missing. A
# configuration that builds counts as one test passed. VAE_TEST_DATA may name a
# folder with the large vectors; tests that need them are skipped without it.
set -u
cd "$(dirname "$0")/.." || exit 1

quick=no
deep=
case ${1:-} in
'') ;;
--quick) quick=yes ;;
--deep) deep=deep ;;
*)
    echo 'usage: sh tests/run.sh [--quick | --deep]' >&2
    exit 2
    ;;
esac

passed=0
failed=0
skipped=0
failures=

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

finish() {
    [ -z "$failures" ] || echo "Failed:$failures"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

# build FOLDER COMPILER OPTION...: makes the folder or brings it up to date.
build() {
    folder=$1
    CC=$2
    export CC
    shift 2
    echo "== $folder: build"
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" "$@" >"$folder.log" 2>&1 ||
            meson setup --wipe "$folder" "$@" >"$folder.log" 2>&1
    else
        meson setup "$folder" "$@" >"$folder.log" 2>&1
    fi && meson compile -C "$folder" >>"$folder.log" 2>&1
    # shellcheck disable=SC2181 # of either branch
    if [ $? = 0 ]; then
        count 1 0 0
        return 0
    fi
    tail -n 60 "$folder.log"
    fail "build of $folder"
    return 1
}

# run FOLDER LABEL ARGUMENT...: meson test, with its results counted.
run() {
    folder=$1
    label=$2
    shift 2
    results=$folder/meson-logs/$label.json
    echo "== $folder: $label tests"
    rm -f "$results"
    meson test -C "$folder" --no-rebuild --print-errorlogs \
        --logbase "$label" "$@"
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

if ! sh tests/deps.sh tests; then
    fail 'installing packages'
    finish
fi

# Several tests run at once; threads of one that wait are not to keep the
# processor from another.
export OMP_WAIT_POLICY=passive

echo "test data: ${VAE_TEST_DATA:-none}"
build build gcc -Dtests=enabled -Dgst=enabled -Donednn=enabled ||
    finish
run build all
[ "$quick" = no ] || finish

if build build-clang clang -Dtests=enabled -Dgst=enabled; then
    run build-clang short --suite files --suite check --suite gst
fi

if build build-no-onednn gcc -Donednn=disabled; then
    run build-no-onednn short --suite files --suite check
fi
if build build-no-gst gcc -Dgst=disabled; then
    run build-no-gst short --suite files --suite check
fi
build build-minimal gcc -Donednn=disabled -Dgst=disabled -Dcuda=disabled \
    -Dtests=disabled -Ddocs=disabled

# names FOLDER: of all its tests.
names() {
    meson test -C "$1" --list 2>/dev/null | sed -n 's/^gst-vae:.* \/ //p'
}

# Left out: gst-launch-1.0, which is not built with the sanitizers; the memory
# of a process, which they change; and whole clips by the plain-C backend, which
# is too slow with them: its kernels run in the checks, its ops in the trace.
# shellcheck disable=SC2046 # names without spaces
if build build-asan gcc -Db_sanitize=address,undefined -Dtests=enabled; then
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
    run build-asan sanitizers --timeout-multiplier 4 $(
        names build-asan | grep -v -e '^gst-' -e '^pipelines-' -e '^memory-' \
            -e '-ref-fp32$'
    )
    # Through GLib only the slow unwinder sees who asked for memory.
    export ASAN_OPTIONS="$ASAN_OPTIONS:fast_unwind_on_malloc=0"
    if [ -n "$deep" ]; then
        run build-asan elements --timeout-multiplier 4 $(
            names build-asan | grep '^gst-' | grep -v -e '-leaks$'
        )
    fi
fi

# A short look, from the seeds of the tree; finding more takes hours by hand.
if build build-fuzz clang -Dfuzzing=enabled -Dtests=enabled -Dgst=disabled \
    -Donednn=disabled; then
    for target in build-fuzz/tests/fuzz/fuzz-*; do
        if [ ! -f "$target" ]; then continue; fi # a folder of objects
        name=${target##*/fuzz-}
        found=build-fuzz/found-$name
        mkdir -p "$found"
        if "$target" -seed=1 -runs=20000 -max_total_time=30 -max_len=4096 \
            -artifact_prefix="$found/" "$found" "tests/fuzz/seeds/$name" \
            >"$found.log" 2>&1; then
            count 1 0 0
        else
            tail -n 40 "$found.log"
            fail "fuzz-$name"
        fi
    done
fi

sh tests/static.sh build $deep >build/static.log 2>&1
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

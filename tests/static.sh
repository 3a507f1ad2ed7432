#!/bin/sh
# Reads the sources without running them; each check is one test.
#
#   sh tests/static.sh BUILD    a configured and built build folder
#
# Ends with the line "N passed, N failed, N skipped".
set -u
[ $# = 1 ] || {
    echo 'usage: sh tests/static.sh BUILD' >&2
    exit 2
}
cd "$(dirname "$0")/.." || exit 1
build=$1
jobs=$(nproc)
folders='engine gst kernels pipelines tests'
# shellcheck disable=SC2086 # a list of words
{
    sources=$(find $folders -name '*.[ch]')
    shells=$(find $folders -name '*.sh')
}

passed=0
failed=0
skipped=0

# check NAME TOOL FUNCTION: the function succeeds or prints what is wrong.
check() {
    if ! command -v "$2" >/dev/null; then
        echo "SKIPPED: $1, $2 is not installed"
        skipped=$((skipped + 1))
    elif "$3" >"$build/static-$1.log" 2>&1; then
        echo "ok: $1"
        passed=$((passed + 1))
    else
        tail -n 80 "$build/static-$1.log"
        echo "FAILED: $1"
        failed=$((failed + 1))
    fi
}

# The names are ours and have no spaces.
# shellcheck disable=SC2086
format() {
    clang-format --dry-run -Werror $sources
}

# shellcheck disable=SC2086
scripts() {
    shellcheck -S warning -x -P pipelines $shells .ci/run
}

# Only what each file is compiled with; system headers are not looked at.
cppcheck_all() {
    cppcheck --project="$build/compile_commands.json" --quiet -j "$jobs" \
        --enable=warning,performance --inline-suppr \
        --error-exitcode=1 --suppress='*:/usr/*' \
        --suppressions-list=tests/cppcheck.supp \
        --cppcheck-build-dir="$build/cppcheck"
}

# The engine, the kernels and the elements with gcc's path analysis, which takes
# a shift of vectors for one of their addresses.
analyzer() {
    if [ -f build-analyzer/build.ninja ]; then
        meson setup --reconfigure build-analyzer
    else
        CC=gcc meson setup build-analyzer -Dtests=disabled -Ddocs=disabled \
            -Dc_args='-fanalyzer -Wno-analyzer-shift-count-overflow'
    fi && meson compile -C build-analyzer
}

tidy() {
    run-clang-tidy -quiet -j "$jobs" -p "$build" \
        '^(?!.*/tests/).*\.c$'
}

mkdir -p "$build/cppcheck"
check format clang-format format
check scripts shellcheck scripts
if [ "${2:-}" = deep ]; then
    check cppcheck cppcheck cppcheck_all
    check analyzer gcc analyzer
    check tidy run-clang-tidy tidy
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

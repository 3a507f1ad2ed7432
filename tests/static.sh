#!/bin/sh
# Checks the sources without running them. Each check is one test.
#
#   sh tests/static.sh BUILD [--long]    a configured and built build folder
#
# clang's path analysis takes ten times as long as its other checks: it looks only
# at the files that have changed since the commit in VAE_TEST_BASE, if this is set.
# --long: at all files, and also cppcheck and gcc's path analysis.
# Writes BUILD/static-*.log and its own build folder, BUILD-analyzer. The last
# line is "N passed, N failed, N skipped".
set -u
case $#,${2-} in
1, | 2,--long) ;;
*)
    echo 'usage: sh tests/static.sh BUILD [--long]' >&2
    exit 2
    ;;
esac
[ -f "$1/compile_commands.json" ] || {
    echo "static: $1 is no build folder" >&2
    exit 2
}
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 1
jobs=$(nproc)
base=
[ "${2-}" = --long ] ||
    base=$(git merge-base "${VAE_TEST_BASE:-none}" HEAD 2>/dev/null) || base=
folders='engine gst kernels pipelines python tests'
# shellcheck disable=SC2086 # a list of words
{
    sources=$(find $folders -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \
        -o -name '*.cpp')
    shells=$(find $folders -name '*.sh')
}

passed=0
failed=0
skipped=0

# check NAME TOOL FUNCTION: the function succeeds, or prints its findings.
check() {
    start=$(date +%s)
    if ! command -v "$2" >/dev/null; then
        echo "SKIPPED: $1, $2 is not installed"
        skipped=$((skipped + 1))
        return
    fi
    if "$3" >"$build/static-$1.log" 2>&1; then
        result=ok
        passed=$((passed + 1))
    else
        tail -n 80 "$build/static-$1.log"
        result=FAILED
        failed=$((failed + 1))
    fi
    echo "$result: $1 ($(($(date +%s) - start)) s)"
}

# Each version formats differently; this one is that of Debian 12. The names of
# the files have no spaces.
# shellcheck disable=SC2086
format() {
    clang-format-14 --dry-run -Werror $sources
}

# shellcheck disable=SC2086
scripts() {
    shellcheck -S warning -x -P pipelines $shells .ci/run
}

# Selects the compiler's commands: for each file one per instruction set, and
# for a test one per set of definitions. Many files belong to several programs.
commands() {
    mkdir -p "$build/static"
    python3 - "$build" <<'EOF'
import json, os, shlex, sys

def kind(entry):
    path = os.path.realpath(os.path.join(entry['directory'], entry['file']))
    wanted = ('-m', '-D') if '/tests/' in path else ('-m',)
    return path, *[o for o in shlex.split(entry['command'])
                   if o.startswith(wanted)]

with open(sys.argv[1] + '/compile_commands.json') as f:
    entries = {kind(e): e for e in reversed(json.load(f))}
with open(sys.argv[1] + '/static/compile_commands.json', 'w') as f:
    json.dump(list(entries.values()), f, indent=1)
EOF
}

# Checks each file only with its own definitions, and no system headers.
cppcheck_all() {
    cppcheck --project="$build/static/compile_commands.json" --quiet \
        -j "$jobs" \
        --enable=warning,performance --inline-suppr \
        --error-exitcode=1 --suppress='*:/usr/*' \
        --cppcheck-build-dir="$build/cppcheck"
}

# Runs gcc's path analysis on the engine, the kernels and the elements.
# Optimisation is off, because it turns `a || b` into arithmetic that the
# analysis cannot follow. Two kinds of findings are wrong: it takes a shift of
# vectors for a shift of their addresses, and it reports a leak if a pointer is
# stored in a structure of another file. These files are left out; the
# sanitizers would find their leaks.
analyzer() {
    rm -rf "$build-analyzer"
    CC=gcc meson setup "$build-analyzer" -Dbuildtype=debug -Dwerror=true \
        -Dtests=disabled \
        -Ddocs=disabled -Dcuda=disabled -Dc_args='-fanalyzer
            -Wno-analyzer-shift-count-overflow
            -Wno-error=analyzer-malloc-leak' || return
    meson compile -C "$build-analyzer" >"$build-analyzer/log" 2>&1
    status=$?
    cat "$build-analyzer/log"
    [ "$status" = 0 ] && ! grep 'Wanalyzer-malloc-leak' "$build-analyzer/log" |
        grep -v -e 'engine/model/required_tensors\.c:' -e 'engine/model/model\.c:' \
            -e 'engine/model/synthetic_weights\.c:'
}

# See .clang-tidy.
tidy() {
    run-clang-tidy -quiet -j "$jobs" -p "$build/static" \
        -checks='-clang-analyzer-*' '^(?!.*/tests/).*\.c$'
}

# changed: prints the pattern of the files for clang's path analysis.
changed() {
    if [ "$base" ]; then
        git diff --name-only --diff-filter=d "$base" -- '*.c' ':!tests' |
            sed 's/[.]/[.]/g; s/.*/\/&$/' | paste -s -d '|'
    else
        echo '^(?!.*/tests/).*\.c$'
    fi
}

clang_paths() {
    files=$(changed)
    [ -z "$files" ] || run-clang-tidy -quiet -j "$jobs" -p "$build/static" \
        -checks='-bugprone-*,-cert-*' "$files"
}

mkdir -p "$build/cppcheck"
commands || exit
check format clang-format-14 format
check scripts shellcheck scripts
if [ "${2-}" = --long ]; then
    check cppcheck cppcheck cppcheck_all
    check analyzer gcc analyzer
fi
check tidy run-clang-tidy tidy
check clang-paths run-clang-tidy clang_paths
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

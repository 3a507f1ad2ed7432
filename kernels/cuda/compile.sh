#!/bin/sh
# compile.sh LOG PTX COMMAND...: runs the compiler and keeps its output in LOG, with
# the registers and shared memory of each kernel; prints it on failure. PTX: the file
# for the PTX of compute capability 9.0a, which tests interpret; "-": none.
log=$1 ptx=$2 kept=$2.kept
shift 2
[ "$ptx" = - ] || {
    mkdir -p "$kept" && set -- "$@" --keep --keep-dir "$kept" || exit
}
"$@" >"$log" 2>&1 || {
    status=$?
    cat "$log" >&2
    exit $status
}
[ "$ptx" = - ] || {
    # With a single compute capability the name has none.
    set -- "$kept"/*.compute_90a.ptx
    [ -f "$1" ] || set -- "$kept"/*.ptx
    mv "$1" "$ptx" && rm -r "$kept"
}

#!/bin/sh
# compile.sh LOG COMMAND...: runs the compiler and keeps its output in LOG, with
# the registers and shared memory of each kernel; prints it on failure.
log=$1
shift
"$@" >"$log" 2>&1 || {
    status=$?
    cat "$log" >&2
    exit $status
}

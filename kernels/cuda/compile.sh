#!/bin/sh
# compile.sh LOG COMMAND...: runs the compiler and keeps what it says, the
# assembler's registers and shared memory, in LOG; shows it if it fails.
log=$1
shift
"$@" >"$log" 2>&1 || {
    status=$?
    cat "$log" >&2
    exit $status
}

#!/bin/sh
# again.sh COMMAND...: runs a test under ThreadSanitizer. It uses fixed
# addresses if the system allows this: with random ones the sanitizer's runtime
# sometimes meets an address that it cannot map. The runtime of gcc 12 sometimes
# also requests a shadow of nearly the whole address space, gets none, and ends
# the process with the status of a report. This says nothing about the test, so
# the script runs it once more.
set -u
if setarch -R true 2>/dev/null; then set -- setarch -R "$@"; fi
said=$(mktemp)
trap 'rm -f "$said"' EXIT
for left in 4 3 2 1 0; do
    "$@" 2>"$said"
    status=$?
    if [ "$status" != 66 ] || [ "$left" = 0 ] ||
        ! grep -q 'ERROR: ThreadSanitizer failed to allocate' "$said" ||
        grep -q 'WARNING: ThreadSanitizer' "$said"; then
        break
    fi
    echo 'ThreadSanitizer failed to allocate: once more' >&2
done
cat "$said" >&2
exit "$status"

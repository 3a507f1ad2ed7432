#!/bin/sh
# again.sh COMMAND...: a test under ThreadSanitizer, with fixed addresses where
# that is allowed: with random ones its runtime now and then meets one that it
# cannot map. Now and then, too, that of gcc 12 asks for a shadow of nearly the
# whole address space, gets none and ends the process with the status of a
# report. That says nothing of the test, which then runs once more.
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

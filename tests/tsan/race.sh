#!/bin/sh
# race.sh RACE: the sanitizer must find a race, and none if there is a lock.
set -eu
found=0
"$1" none >/dev/null 2>"$1.log" || found=$?
if [ "$found" != 66 ] || ! grep -q 'data race .* by_none' "$1.log"; then
    echo "a race was not found; status $found"
    cat "$1.log"
    exit 1
fi
for kind in mutex cond rec rw once init queue pool; do
    "$1" "$kind"
done

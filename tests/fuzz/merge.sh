#!/bin/sh
# Updates the corpus of a target: merges the old corpus, the seeds and the new
# inputs to the fewest inputs that reach every edge of the code.
#
#   sh tests/fuzz/merge.sh BUILD TARGET FOUND...
set -eu
[ $# -ge 3 ] || {
    echo 'usage: sh tests/fuzz/merge.sh BUILD TARGET FOUND...' >&2
    exit 2
}
program=$(cd "$1/tests/fuzz" && pwd)/fuzz-$2
here=$(cd "$(dirname "$0")" && pwd)
corpus=$here/corpus/$2.tar.gz
seeds=$here/seeds/$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/before" "$folder/after" "$here/corpus"
[ ! -f "$corpus" ] || tar -xzf "$corpus" -C "$folder/before"
"$program" -set_cover_merge=1 -use_counters=0 -max_len=4096 "$folder/after" \
    "$folder/before" "$seeds" "$@" >"$folder/log" 2>&1 || {
    tail -n 20 "$folder/log"
    exit 1
}
# The archive has the same bytes for the same inputs.
tar -C "$folder/after" --sort=name --mtime=@0 --owner=0 --group=0 \
    --numeric-owner -cf - . | gzip -n9 >"$corpus"
echo "$corpus: $(find "$folder/after" -type f | wc -l) inputs," \
    "$(wc -c <"$corpus") bytes"

#!/bin/sh
# Compares the functions that libvae.so exports, and the version of each, with
# the list beside this script. A public one that goes or changes breaks programs.
#
#   sh symbols.sh LIBVAE.SO
#
# Exit status 77: nm is not there.
set -eu
command -v nm >/dev/null || {
    echo 'skipped: no nm'
    exit 77
}
nm -D --defined-only --with-symbol-versions "$1" |
    sed -n 's/.* [TDBRVW] \(.*\)@@\(.*\)/\2 \1/p;s/.* [TDBRVW] \([^@]*\)$/none \1/p' |
    LC_ALL=C sort | diff -u "$(dirname "$0")/symbols.txt" - || {
    echo 'FAILED: other symbols than symbols.txt lists (+: not in the list)' >&2
    exit 1
}
echo ok

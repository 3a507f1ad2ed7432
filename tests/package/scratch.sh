# shellcheck shell=sh
# Gives the script that reads this file a folder $tmp, which is removed at the
# end, and fail().
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

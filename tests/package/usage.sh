# shellcheck shell=sh
# For a script whose first argument is no option: prints the script's head if it
# is one, or is missing, and ends the script.
case ${1:-} in
'' | -*)
    sed -n '2,/^set/s/^#//p' "$0"
    [ "${1:-}" = --help ] && exit 0
    exit 2
    ;;
esac

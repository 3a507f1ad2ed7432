# shellcheck shell=sh
# Functions that the scripts of this folder share. A script runs ". checks.sh" after
# "set -u", with the arguments VAETOOL FOLDER. FOLDER is created, is the current folder
# of the script, and is removed at the end. If VAE_TEST_VECTORS does not name the golden
# vectors, the script is skipped.
# shellcheck disable=SC2034 # the script uses it
tool=$(realpath "$1")
out=$(realpath -m "$2")
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "${VAE_TEST_VECTORS:-/}")
wan=$data/wan21/weights.safetensors
if [ ! -r "$wan" ]; then
    echo "skipped: VAE_TEST_VECTORS does not name the golden vectors"
    exit 77
fi
# Removes only the folder of an earlier run.
if [ -e "$out" ] && [ ! -e "$out/checks" ]; then
    echo "$out exists, and these checks did not create it" >&2
    exit 1
fi
rm -rf "$out" && mkdir -p "$out" && cd "$out" && : >checks || exit 1
trap 'rm -rf "$out"' EXIT
export LC_ALL=C
failed=0
checks=0

# check NAME CODE COMMAND...: tests the exit code. All output goes to $out/log.
check() {
    name=$1
    want=$2
    shift 2
    "$@" >"$out/log" 2>&1 </dev/null
    got=$?
    checks=$((checks + 1))
    if [ $got -eq "$want" ]; then
        echo "ok   $name"
    else
        echo "FAIL $name: exit code $got, not $want"
        sed 's/^/     | /;40q' "$out/log"
        failed=$((failed + 1))
    fi
}

# says TEXT...: the log of the last check must contain each text.
says() {
    for text; do
        checks=$((checks + 1))
        if grep -qF -e "$text" "$out/log"; then
            echo "ok     says \"$text\""
        else
            echo "FAIL   does not say \"$text\""
            sed 's/^/     | /;40q' "$out/log"
            failed=$((failed + 1))
        fi
    done
}

# says_not TEXT...: the log of the last check must contain none of the texts.
says_not() {
    for text; do
        checks=$((checks + 1))
        if grep -qF -e "$text" "$out/log"; then
            echo "FAIL   says \"$text\""
            sed 's/^/     | /;40q' "$out/log"
            failed=$((failed + 1))
        else
            echo "ok     does not say \"$text\""
        fi
    done
}

# true_that NAME COMMAND...: the command must succeed.
true_that() {
    name=$1
    shift
    checks=$((checks + 1))
    if "$@"; then
        echo "ok   $name"
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

# The commands of vaetool. by MODEL COMMAND...: runs one with a model, by ref;
# decode and encode run with Wan 2.1.
info() { "$tool" info "$@"; }
compare() { "$tool" compare "$@"; }
plan() { "$tool" plan "$@"; }
by() {
    model=$1
    command=$2
    shift 2
    "$tool" "$command" --backend ref --model "$model" "$@"
}
decode() { by "$wan" decode "$@"; }
encode() { by "$wan" encode "$@"; }

no_rest() {
    [ -z "$(find "$out" -name '*.part*' -o -name '*.tmp')" ]
}

inode() {
    # shellcheck disable=SC2012 # one file
    ls -i "$1" 2>/dev/null
}

# until_changed FILE INODE PROCESS: waits until FILE has another inode, or until the
# process has ended.
until_changed() {
    while kill -0 "$3" 2>/dev/null && [ "$(inode "$1")" = "$2" ]; do
        sleep 0.01
    done
}

# tensor FILE NAME TYPE SHAPE [METADATA]: writes a safetensors file with the bytes
# of standard input. METADATA is JSON, such as {"vae.layout":"tchw"}.
tensor() {
    cat >"$out/data"
    size=$(wc -c <"$out/data")
    header=$(printf '{%s"%s":{"dtype":"%s","shape":[%s],%s[0,%d]}}' \
        "${5:+\"__metadata__\":$5,}" "$2" "$3" "$4" '"data_offsets":' "$size")
    {
        # shellcheck disable=SC2059 # the bytes of the length
        printf "$(printf '\\%03o\\%03o' $((${#header} % 256)) \
            $((${#header} / 256)))"
        printf '\0\0\0\0\0\0%s' "$header"
        cat "$out/data"
    } >"$1"
}

# filled BYTE FILE NAME TYPE SHAPE [METADATA]: the same; each byte is BYTE, in octal.
filled() {
    byte=$1
    shift
    case $3 in *8) size=1 ;; *) size=4 ;; esac
    head -c $((size * $(echo "$4" | tr , '*'))) /dev/zero | tr '\0' "\\$byte" | tensor "$@"
}

# npy FILE SHAPE: writes a file with the float32 numbers of standard input.
npy() {
    header="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
    { printf '\223NUMPY\1\0\166\0%-117s\n' "$header" && cat; } >"$1"
}

# numbers WORD...: prints numbers as F32. A word is nan, one or two.
numbers() {
    for word; do
        case $word in
        nan) printf '\0\0\300\177' ;;
        one) printf '\0\0\200\77' ;;
        two) printf '\0\0\0\100' ;;
        esac
    done
}

# many COUNT WORD...: prints the numbers COUNT times.
many() {
    left=$1
    shift
    while [ "$left" -gt 0 ]; do
        numbers "$@"
        left=$((left - 1))
    done
}

# finish: prints the result of a script and exits.
finish() {
    echo "$failed of $checks checks failed"
    [ "$failed" -eq 0 ]
}

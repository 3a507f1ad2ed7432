# Functions for scripts that compare facts about the CUDA kernels with the committed
# table of this release of nvcc. Such a script is called `SCRIPT TABLE FILE...` or,
# to print its columns of a table, `SCRIPT --print FILE...`. A line of a table has the
# device, the family, the kernel with its template arguments, two numbers of
# registers.sh and five of sass.sh. Pairs of device and family that the table lacks
# are not compared. Exit status 77: there is nothing to compare.
#
# To accept a change, or to add another release of nvcc:
#
#   meson setup build-table -Dcuda-archs=90a,120 && ninja -C build-table
#   cd build-table/kernels
#   sh ../../tests/cuda/compiled/registers.sh --print *.cu.log >registers
#   sh ../../tests/cuda/compiled/sass.sh --print *.cu.o |
#       grep -o '\( [0-9]*\)\{5\}$' | paste -d '' registers - \
#       >../../tests/cuda/compiled/kernels-13.0.txt
# shellcheck shell=sh

print=no
if [ "$1" = --print ]; then
    print=yes
elif [ ! -f "$1" ]; then
    echo "no table for this nvcc: $1"
    exit 77
fi
table=$1
failed=0
found=$(mktemp)
trap 'rm -f "$found" "$found.want" "$found.all"' EXIT

# Reads lines in which a | follows the kernel's name. Writes them with C++ names,
# sorted.
demangle() {
    c++filt | sed 's/(VaeType)//g; s/ void / /; s/([^|]*|/|/; s/|/ /g' |
        LC_ALL=C sort
}

# fail TEXT: prints to standard error, because standard output may be a table
fail() {
    echo "FAIL $1" >&2
    failed=1
}

# keep LINES: copies the lines whose device and family are in LINES.
keep() {
    lines=$(echo "$1" | cut -d' ' -f1,2 | sort -u)
    while read -r device family rest; do
        case "
$lines
" in
        *"
$device $family
"*) echo "$device $family $rest" ;;
        esac
    done
}

# finish COLUMNS: prints $found, or compares it with the lines that sed's command
# COLUMNS makes of the table, and ends the script.
finish() {
    if [ $print = yes ]; then
        cat "$found"
        exit $failed
    fi
    keep "$(cat "$found")" <"$table" | sed "$1" >"$found.want"
    if [ ! -s "$found.want" ]; then
        echo "the table has none of these devices and families"
        exit 77
    fi
    if keep "$(cat "$table")" <"$found" | diff "$found.want" -; then
        echo "ok   $(wc -l <"$found.want") kernels"
    else
        fail "other than $table (<); if that is meant, see kernel_table.sh"
    fi
    exit $failed
}

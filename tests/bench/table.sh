#!/bin/sh
# Prints the medians of the output of tests/bench/run.sh as a Markdown table.
#
#   sh tests/bench/table.sh RUNS.csv
set -eu
[ $# = 1 ] || {
    echo 'usage: sh tests/bench/table.sh RUNS.csv' >&2
    exit 2
}
awk -F, '
function median(list, n,    i, j, t, v) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
            t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
    return n ? v[int((n + 1) / 2)] : ""
}
NR > 1 {
    key = $1 "," $2 "," $3
    if (!(key in fps)) { order[++count] = key }
    runs[key]++
    gemm[key] = gemm[key] " " $7
    whole[key] = whole[key] " " $8
    conv[key] = conv[key] " " $9
    network[key] = network[key] " " $10
    fps[key] = fps[key] " " $11
    if ($12 != "") { torch[key] = torch[key] " " $12
                     gain[key] = gain[key] " " $11 / $12 }
}
END {
    print "| network | direction | precision | frames/s | GEMM, GFLOP/s |" \
        " whole / GEMM | convolutions / GEMM | network / GEMM |" \
        " torch, frames/s | times torch |"
    print "|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= count; i++) {
        k = order[i]
        split(k, part, ",")
        n = split(part[1], path, "/")
        printf "| %s | %s | %s | %.2f | %.0f | %.0f %% | %.0f %% |" \
            " %.0f %% |",
            path[n], part[2], part[3], median(fps[k]), median(gemm[k]),
            median(whole[k]), median(conv[k]), median(network[k])
        if (k in torch)
            printf " %.2f | %.1f |\n", median(torch[k]), median(gain[k])
        else
            printf " | |\n"
    }
}' "$1"

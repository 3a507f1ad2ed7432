#!/bin/sh
# Fails if a folder has more than 14 files: a reader cannot survey it.
#
#   folders.sh SOURCE
set -eu
cd "$1"
find docs engine gst kernels pipelines python tests -type f \
    ! -path '*/__pycache__/*' |
    sed 's|/[^/]*$||' | sort | uniq -c |
    awk '$1 > 14 { print "FAILED: " $2 " has " $1 " files"; bad = 1 }
        END { print NR " folders"; exit bad || !NR }'

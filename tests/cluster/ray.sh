#!/bin/sh
# Installs Ray from PyPI in a virtual environment of its own, once, and runs a script of
# this folder with it: test_ray.py, or measure.py, which says how.
#
#   ray.sh SOURCE BUILD FOLDER SCRIPT [ARGUMENT...]
#
# Exit status 77: Ray cannot be installed.
set -u
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) venv=$3 script=$4
shift 4
if ! "$venv/bin/python" -c 'import ray' 2>/dev/null; then
    {
        rm -rf "$venv" && python3 -m venv "$venv" &&
            "$venv/bin/pip" install -q ray
    } >"$venv.log" 2>&1 || {
        echo "skipped: Ray cannot be installed: $(tail -n 1 "$venv.log")"
        exit 77
    }
fi
# Ray reports its use to its makers unless this is set.
export RAY_USAGE_STATS_ENABLED=0
exec "$venv/bin/python" "$source/tests/cluster/$script" "$source" "$build" "$@"

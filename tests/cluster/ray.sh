#!/bin/sh
# Installs Ray from PyPI in a virtual environment of its own, once, and runs test_ray.py
# with it.
#
#   ray.sh SOURCE BUILD FOLDER [TEST...]
#
# Exit status 77: Ray cannot be installed.
set -u
source=$1 build=$2 venv=$3
shift 3
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
exec "$venv/bin/python" "$source/tests/cluster/test_ray.py" "$source" "$build" "$@"

#!/bin/sh
# Installs kubernetes-validate from PyPI in a virtual environment of its own, once, and
# runs test_kubernetes.py with it.
#
#   kubernetes.sh SOURCE BUILD FOLDER
#
# Exit status 77: it cannot be installed.
set -u
source=$1 build=$2 venv=$3
if ! "$venv/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then
    {
        rm -rf "$venv" && python3 -m venv "$venv" &&
            "$venv/bin/pip" install -q kubernetes-validate
    } >"$venv.log" 2>&1 || {
        echo "skipped: no kubernetes-validate: $(tail -n 1 "$venv.log")"
        exit 77
    }
fi
exec "$venv/bin/python" "$source/tests/cluster/test_kubernetes.py" "$source" "$build"

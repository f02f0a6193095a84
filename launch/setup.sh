#!/usr/bin/env bash
# Makes .venv and installs the project into it. Does nothing if pyproject.toml has not changed since. If several processes
# do this at once, on one machine or on several that share the disk, one installs and the others wait for it.
# Usage: source launch/setup.sh [EXTRA]     (PYTHON names an interpreter other than python3; SETUP_WAIT is how many seconds
#                                            to wait for another installation, 1800 by default)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${1:-}
stamp=".venv/.installed-${extra:-plain}"
want=$(cksum pyproject.toml)

is_installed() { [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; }

take_lock() { # hold the lock until the shell closes the file; the kernel frees that of a killed process
    local wait=${SETUP_WAIT:-1800} status=0
    mkdir -p .venv
    exec {lock}> .venv/.lock
    flock --nonblock --conflict-exit-code 75 "$lock" || status=$?
    if [ "$status" = 75 ]; then
        echo "Waiting for another process that installs into .venv (at most $wait s) ..." >&2
        status=0
        flock --timeout "$wait" --conflict-exit-code 75 "$lock" || status=$?
    fi
    if [ "$status" = 75 ]; then
        echo "error: another process still holds $PWD/.venv/.lock after $wait s; wait for it, or set SETUP_WAIT" >&2
        exit 2
    elif [ "$status" != 0 ]; then
        echo "error: the file system of $PWD/.venv does not support locks; run 'bash launch/setup.sh $extra' on one machine" \
            "first, then this on all" >&2
        exit 2
    fi
}

install() {
    if [ ! -x .venv/bin/python ]; then
        local python=${PYTHON:-} candidate
        for candidate in python3 python3.12 python3.13 python3.11; do
            [ -n "$python" ] && break
            if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
                python=$candidate
            fi
        done
        if [ -z "$python" ]; then
            echo "error: no Python 3.11, 3.12 or 3.13 found; install one, or set PYTHON=/path/to/python" >&2
            exit 2
        fi
        "$python" -m venv .venv
    fi
    echo "Installing into .venv (once; about 5 GB with PyTorch, a few minutes) ..."
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
    echo "$want" > "$stamp"
}

if ! is_installed; then
    take_lock
    # The process that held the lock may have done it.
    is_installed || install
    exec {lock}>&-
fi
export PATH="$PWD/.venv/bin:$PATH"

#!/bin/sh
# Create .venv with the packages that build penstock. Usage: python.sh PYTHON
# Needs Python 3.11 with pip or venv, and a C compiler; as root on Debian it installs Python's headers and the compiler.
set -eu
python=$1

fail() {
    echo "setup: $1" >&2
    exit 1
}

debian() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "setup: installing $*" >&2
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@" >/dev/null; }
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed, $python is not"

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    # Debian's python3 without python3-venv cannot put pip into a new environment, but its pip can.
    "$python" -m venv .venv 2>/dev/null || {
        "$python" -m venv --clear --without-pip .venv
        "$python" -m pip --python .venv/bin/python install --quiet pip
    }
fi

include=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$include/Python.h" ] || debian python3-dev || fail "the headers of Python are missing (Debian: python3-dev)"
command -v "${CC:-cc}" >/dev/null || debian gcc libc6-dev || fail "a C compiler is missing"

.venv/bin/python -m pip install --quiet 'setuptools>=77' 'Cython>=3.1'

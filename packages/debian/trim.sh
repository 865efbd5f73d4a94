#!/bin/sh
# Remove from a new virtual environment all that no node needs. Usage: trim.sh DIRECTORY
set -eu
cd "$1"
rm -r include
find bin -type f ! -name penstock -delete

# It needs a compiler and packages that are not here.
rm -r lib/python3*/site-packages/penstock_programs/load

# postinst compiles to bytecode.
find . -depth -name __pycache__ -exec rm -r {} +
find . \( -name '*.c' -o -name '*.h' -o -name '*.pyx' -o -name '*.pxd' \) -delete

# Both name the folder of the build.
find . -name direct_url.json -delete
sed -i '/^command/d' pyvenv.cfg

# Some wheels have modules, and licenses, that are executable.
find lib -type f -executable ! -name '*.so*' -exec chmod a-x {} +

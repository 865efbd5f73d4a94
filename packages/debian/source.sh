#!/bin/sh
# Make the source of the Debian package, the checkout's files with debian/ at the top. Usage: source.sh DIRECTORY
set -eu
here=$(dirname "$0")
mkdir -p "$1"
git -C "$here/../.." ls-files -z | tar -C "$here/../.." --null --files-from=- -c | tar -C "$1" -x
mv "$1/packages/debian" "$1/debian"

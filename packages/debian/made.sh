#!/bin/sh
# Write what the command line's definitions give: manual pages and completions. Usage: made.sh PYTHON DIRECTORY
set -eu
python=$1 directory=$2

completion() {
    _PENSTOCK_COMPLETE=source_$1 $python -m penstock.programs ops | sed '/./,$!d' # #compdef has to be the first line
}

$python -m penstock.programs ops.manual "$directory"
completion bash >"$directory/penstock"
completion fish >"$directory/penstock.fish"
{
    completion zsh
    # The shell runs the file at the first completion, which has to be answered too.
    echo '_penstock_completion "$@"'
} >"$directory/_penstock"

"""`python -m ops` is the command `penstock`, for a checkout that is not installed."""

from ops.cli import main

main()

"""`python -m ops` is the command `penstock`, for a checkout that is not installed."""

from ops.entry import main

main()

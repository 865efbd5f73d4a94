"""The entry point of the command `penstock`, which can be imported even in a checkout that was never built."""

from __future__ import annotations

import sys

from ops.compiled import refusal


def main() -> None:
    """Run the command line; exit status 2 with a one-line reason if the checkout is not built."""
    try:
        from ops import cli
    except ModuleNotFoundError:
        if (reason := refusal()) is None:
            raise
        print(f"penstock: {reason}", file=sys.stderr)
        sys.exit(2)
    cli.main()

"""Where the command `penstock` begins: in a checkout that was never built there is nothing to import yet."""

from __future__ import annotations

import sys

from ops.compiled import refusal


def main() -> None:
    try:
        from ops import cli
    except ModuleNotFoundError:
        if (reason := refusal()) is None:
            raise
        print(f"penstock: {reason}", file=sys.stderr)
        sys.exit(2)
    cli.main()

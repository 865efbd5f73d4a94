"""Where the command `penstock` begins: in a checkout that was never built there is nothing to import yet."""

from __future__ import annotations

import sys

from ops.compiled import uncompiled


def main() -> None:
    try:
        from ops import cli
    except ModuleNotFoundError:
        if missing := uncompiled():
            print(f"penstock: not compiled, run `make setup`: {', '.join(missing)}", file=sys.stderr)
            sys.exit(2)
        raise
    cli.main()

"""`python -m pipeline`: the commands of `penstock pipeline` alone."""

from __future__ import annotations

import sys

import typer

from pipeline.command import app
from pipeline.errors import PipelineError


def main() -> None:
    """Run a command and exit: 0 on success, 2 for an error that the caller can fix."""
    try:
        code = app(prog_name="pipeline", standalone_mode=False)
    except PipelineError as error:
        reason = str(error)
    except typer.TyperException as error:
        reason = " ".join(error.format_message().split())
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    else:
        sys.exit(code or 0)
    if reason:  # empty if no command was given: typer has shown the help
        print(f"pipeline: {reason}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()

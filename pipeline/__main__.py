"""`python -m pipeline`: the commands of `penstock pipeline` without the rest."""

from __future__ import annotations

import sys

import typer

from pipeline.command import app
from pipeline.errors import PipelineError


def main() -> None:
    """Run a command and exit: 0, 2 for what the caller can mend."""
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
    if reason:  # none when no command was given: the help has been shown
        print(f"pipeline: {reason}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()

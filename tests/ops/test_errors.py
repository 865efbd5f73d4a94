"""Errors of commands: the command line prints each in one line and exits with 2, wherever it was raised."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ops.errors import CommandError, StartError
from tests.twins import ROOT


@pytest.mark.parametrize("kind", [CommandError, StartError])
def test_a_refusal_is_one_line_and_exit_status_2(kind: type[Exception]) -> None:
    program = f"""
import sys
from ops import cli
from ops.errors import {kind.__name__}
@cli.app.command("fail")
def fail():
    raise {kind.__name__}("the cause [of it]")
sys.argv = ["penstock", "fail"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "penstock: the cause [of it]\n")


def test_neither_error_is_taken_for_the_other() -> None:
    """A running plan waits out a CommandError; a StartError would end it."""
    assert not issubclass(CommandError, StartError) and not issubclass(StartError, CommandError)

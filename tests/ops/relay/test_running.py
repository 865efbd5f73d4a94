"""Addresses of relays, and their outcome."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from ops.errors import CommandError
from ops.relay.core import Ending, Relay
from ops.relay.running import STOPPED, finish, parameters
from tests.broker.process import ROOT


def ended(ending: Ending, **counts: int) -> Relay:
    relay = Relay(lambda _: None, prefetch=1, now=0.0)
    relay.ending = ending
    for name, count in counts.items():
        setattr(relay, name, count)
    return relay


def test_what_is_done_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    finish("moved", ended(Ending.DONE, confirmed=1))
    assert capsys.readouterr().out == "1 message moved\n"


@pytest.mark.parametrize(
    ("relay", "status"),
    [
        (ended(Ending.STOPPED), STOPPED),
        (ended(Ending.SEARCH_BOUND, left_there=1), 1),
        (ended(Ending.DONE, unroutable=2), 1),
    ],
)
def test_what_is_not_done_has_an_exit_status(relay: Relay, status: int) -> None:
    with pytest.raises(typer.Exit) as error:
        finish("moved", relay)
    assert error.value.exit_code == status


def test_a_failure_is_an_error_that_counts_what_was_done() -> None:
    relay = ended(Ending.FAILED, confirmed=3)
    relay.failure = "the queue was deleted"
    with pytest.raises(CommandError, match=r"^the queue was deleted; 3 messages moved$"):
        finish("moved", relay)


@pytest.mark.parametrize("url", ["", "x", "http://a", "amqp://a:b", "amqp://a:99999999"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="AMQP URL"):
        parameters(url)


def test_without_pika_its_extra_is_named() -> None:
    program = "import sys; sys.modules['pika'] = None; from ops.cli import main; main()"
    words = ("message", "move", "a", "b", "--url", "amqp://127.0.0.1")
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "penstock: pika is not installed: pip install 'penstock[client]'\n"

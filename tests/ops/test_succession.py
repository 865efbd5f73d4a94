"""What a supervisor leaves to the next one. Real successions are in tests/ops/upgrade."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.child import Child, State
from ops.forkserver import Forked
from ops.notify import Notifier
from ops.succession import ESTATE_FILE, FORMAT, TRIAL_LOG, Estate, Held, Occupant, Succession
from tests.twins import ROOT

EXECUTES = """
import os, sys
from ops.succession import _inherit_only

kept, other = os.open("/", os.O_RDONLY), os.open("/", os.O_RDONLY)
os.set_inheritable(other, True)
_inherit_only([kept])
program = f"import os\\nos.fstat({kept})\\ntry: os.fstat({other})\\nexcept OSError: os._exit(7)"
os.execv(sys.executable, [sys.executable, "-c", program])
"""


def estate() -> Estate:
    child = Child("acceptor", 1, 4)
    child.vain, child.started, child.started_us, child.process = 3, 1.5, 7, Forked(4711)
    places = [Occupant.of(child), Occupant.of(Child("router", 0))]
    return Estate(FORMAT, 2, [3, 4], [5], {"api": 6}, [7], 8, 4710, places)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    estate().store(tmp_path)
    found = Estate.load(tmp_path)
    assert found == estate()
    assert found.descriptors == [3, 4, 5, 6, 7, 8]


def test_places_have_their_processes_again() -> None:
    acceptor, router = (place.child() for place in estate().places)
    assert (acceptor.role, acceptor.index, acceptor.incarnation, acceptor.vain) == ("acceptor", 1, 4, 3)
    assert (acceptor.pid, acceptor.state, acceptor.started, acceptor.started_us) == (4711, State.READY, 1.5, 7)
    assert (router.pid, router.state, router.next_incarnation) == (0, State.WAITING, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not of format 1"),
        ('{"format": 2}', "not of format 1"),
        ('{"format": 1}', "incomplete"),
        ("{", "Expecting"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / ESTATE_FILE).write_text(text)
    with pytest.raises(ValueError, match=reason):
        Estate.load(tmp_path)


def test_the_last_words_of_a_trial(tmp_path: Path) -> None:
    succession = Succession(tmp_path, Held((), (), {}, ()), Notifier({}), 1)
    assert succession.reason() == ""
    (tmp_path / TRIAL_LOG).write_text("Traceback\n  more\nSyntaxError: invalid\n\n")
    assert succession.reason() == "SyntaxError: invalid"


def test_a_program_inherits_what_is_named_and_nothing_else() -> None:
    assert subprocess.run([sys.executable, "-c", EXECUTES], cwd=ROOT, check=False).returncode == 7


@pytest.mark.broker
def test_a_supervisor_without_an_estate_is_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "_PENSTOCK_RUNTIME": str(tmp_path)}
    command = [sys.executable, "-m", "ops", "serve", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("penstock: cannot go on with the node: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()

"""Work in a separate process: its result, its errors, its death."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from penstock.files.apart import EndedError, apart


def test_the_result() -> None:
    assert apart(os.getpid) != os.getpid()


def test_errors_that_are_told() -> None:
    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(FileNotFoundError):
        apart(lambda: fail(FileNotFoundError(2, "none")))
    with pytest.raises(KeyError):
        apart(lambda: fail(KeyError("x")), (KeyError,))


def test_other_errors_end_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EndedError, match="the work on it failed, as said above"):
        apart(lambda: {}["x"])
    assert "KeyError: 'x'" in capfd.readouterr().err


def test_its_death() -> None:
    with pytest.raises(EndedError, match="reading it ended in SIGBUS"):
        apart(lambda: os.kill(os.getpid(), signal.SIGBUS))


def test_the_reason_that_a_library_prints_before_it_aborts(capfd: pytest.CaptureFixture[str]) -> None:
    def abort() -> None:
        os.write(2, b"first\nmdb.c:1: Assertion 'IS_LEAF(mp)' failed\n")
        os.abort()

    with pytest.raises(EndedError, match=r"reading it ended in SIGABRT \(mdb.c:1: Assertion 'IS_LEAF\(mp\)' failed\)"):
        apart(abort)
    assert capfd.readouterr().err == ""


def test_what_it_prints_without_dying(capfd: pytest.CaptureFixture[str]) -> None:
    def print_twice() -> None:
        os.write(2, b"from C\n")
        print("from Python", file=sys.stderr)

    apart(print_twice)
    assert sorted(capfd.readouterr().err.splitlines()) == ["from C", "from Python"]


def test_who_is_killed_meanwhile_leaves_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    """The child has nobody to answer any more, and ends without a word."""
    working, works = os.pipe()
    gate, opens = os.pipe()

    def work() -> None:
        os.close(opens)
        os.write(works, b"!")
        os.read(gate, 1)

    caller = os.fork()
    if caller == 0:
        apart(work)
        os._exit(0)
    assert os.read(working, 1) == b"!"
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    for end in (works, gate, opens):
        os.close(end)
    assert os.read(working, 1) == b"", "the child has ended: nobody else has that end of the pipe"
    os.close(working)
    assert capfd.readouterr().err == ""

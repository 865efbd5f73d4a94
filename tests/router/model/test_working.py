"""Work that may pause, done at once."""

from __future__ import annotations

import pytest

from router.model.working import Working, at_once


def worker(pauses: int) -> Working[str]:
    for _ in range(pauses):
        yield
    return "done"


def test_work_that_does_not_pause_has_its_result() -> None:
    assert at_once(worker(0)) == "done"


def test_work_that_pauses_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="paused with work left"):
        at_once(worker(1))


def test_errors_of_the_work_come_through() -> None:
    def failing() -> Working[str]:
        raise LookupError("gone")
        yield

    with pytest.raises(LookupError, match="gone"):
        at_once(failing())

"""A bug in one client's work ends that client's connection."""

from __future__ import annotations

import pytest

from acceptor.contained import contained


class Work:
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    @contained
    def act(self, number: int, *, by: int) -> None:
        number / by

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


def test_who_calls_hears_nothing_of_it() -> None:
    work = Work()
    work.act(1, by=2)
    assert not work.errors
    work.act(1, by=0)
    assert [type(error) for error in work.errors] == [ZeroDivisionError]


def test_what_ends_the_process_is_not_kept() -> None:
    class Ends(Work):
        @contained
        def leave(self) -> None:
            raise SystemExit

    with pytest.raises(SystemExit):
        Ends().leave()

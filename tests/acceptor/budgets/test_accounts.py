"""Users' shares of the memory for bodies, unread answers and transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.budgets.accounts import Accounts
from penstock.settings import Settings
from penstock.settings.sections import MemorySettings


def accounts(limit: int = 1000, percent: int = 30, acceptors: int = 1) -> Accounts:
    memory = MemorySettings(process_limit=limit, user_percent=percent)
    return Accounts(Settings(data=Path(), acceptors=acceptors, memory=memory))


@pytest.mark.parametrize(("acceptors", "of_all", "of_user"), [(1, 500, 300), (4, 125, 75)])
def test_acceptors_have_equal_parts_of_the_limit(acceptors: int, of_all: int, of_user: int) -> None:
    made = accounts(acceptors=acceptors)
    assert (made.of_all, made.of_user) == (of_all, of_user)


def test_a_share_is_never_nothing() -> None:
    assert accounts(limit=10, percent=1).of_user == 1


def test_a_user_may_use_its_share_and_no_byte_more() -> None:
    made = accounts()
    made.charge("a", 300)
    assert not made.is_used_up("a")
    assert made.is_used_up("a", 1)
    assert not made.is_used_up("b", 200)


def test_once_the_users_together_exceed_their_share_each_has_an_equal_one() -> None:
    made = accounts()
    for user, nbytes in (("a", 200), ("b", 200), ("c", 101)):
        made.charge(user, nbytes)
    assert [made.is_used_up(user) for user in "abc"] == [True, True, False]
    made.charge("c", -1)
    assert not any(made.is_used_up(user) for user in "abc")
    assert made.is_used_up("a", 1)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_as_long_as_users_together_exceed_their_share_one_of_them_is_refused(charged: list[int]) -> None:
    made = accounts()
    for user, nbytes in enumerate(charged):
        made.charge(str(user), nbytes)
    used_up = [made.is_used_up(str(user)) for user in range(len(charged))]
    assert any(used_up) is (made.kept > made.of_all or max(charged) > made.of_user)

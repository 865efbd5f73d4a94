"""Amounts charged to users: their sum is `kept`, and a user with nothing has no entry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acceptor.budgets.charges import Charges, charge


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3))))
def test_the_sum_over_users_is_kept_and_only_charged_users_have_an_entry(charged: list[tuple[str, int]]) -> None:
    charges = Charges()
    for user, amount in charged:
        charges.charge(user, amount)
    owed = {user: sum(amount for name, amount in charged if name == user) for user in "abc"}
    assert charges.users == {user: amount for user, amount in owed.items() if amount}
    assert charges.kept == sum(owed.values())


def test_an_amount_that_is_given_back_leaves_no_entry() -> None:
    charged = {"a": 1}
    charge(charged, "b", 5)
    charge(charged, "b", -5)
    charge(charged, "c", 0)
    assert charged == {"a": 1}

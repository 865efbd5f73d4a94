"""`penstock flow hold-offs`: the users refused at the next connect, the time left, and their readmission."""

from __future__ import annotations

from ops.flow import hold_offs
from tests.ops.commanded import Commanded

APP = hold_offs.app


def hold_off(commanded: Commanded, user: str, host: str, seconds: float = 600.0) -> None:
    commanded.node.ask(
        "hold_off", user=user, host=host, seconds=seconds, most=7200.0, forget=36_000.0, reason="held for [too] long"
    )


def test_a_user_is_listed_with_the_time_that_is_left(commanded: Commanded) -> None:
    assert commanded.run(APP) == "no user is held off\n"
    hold_off(commanded, "ann", "10.0.0.1")
    assert commanded.rows(APP) == [["ann", "10.0.0.1", "1", "10 min", "10 h", "held for [too] long"]]


def test_one_that_is_over_stays_listed_until_it_is_forgotten(commanded: Commanded) -> None:
    hold_off(commanded, "ann", "10.0.0.1", 1e-9)
    ((_, _, times, left, forgotten_in, _),) = commanded.rows(APP)
    assert (times, left, forgotten_in) == ("1", "over", "10 h")


def test_they_are_readmitted_by_user_by_address_or_all(commanded: Commanded) -> None:
    for user, host in (("ann", "10.0.0.1"), ("ann", "10.0.0.2"), ("bob", "10.0.0.1"), ("eve", "10.0.0.3")):
        hold_off(commanded, user, host)
    assert [row[0] for row in commanded.rows(APP, "--where", "user!=ann", "--sort", "user")] == ["bob", "eve"]
    assert [row[:2] for row in commanded.rows(APP, "clear", "--user", "ann", "--host", "10.0.0.2")] == [
        ["ann", "10.0.0.2"]
    ]
    assert sorted(row[0] for row in commanded.rows(APP, "clear", "--host", "10.0.0.1")) == ["ann", "bob"]
    assert [row[0] for row in commanded.rows(APP, "clear")] == ["eve"]
    assert commanded.json(APP) == []


def test_none_of_that_name_is_an_error_but_none_at_all_is_not(commanded: Commanded) -> None:
    expected = "there is no such hold-off; `penstock flow hold-offs` lists them"
    assert commanded.refusal(APP, "clear", "--user", "ann") == expected
    assert commanded.refusal(APP, "clear", "--host", "10.0.0.1") == expected
    assert commanded.run(APP, "clear") == "no user is held off\n"

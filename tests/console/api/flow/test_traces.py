"""The request for traces; tests/console/tracing has those of their contents."""

from __future__ import annotations

import pytest

from tests.console.http.node import HttpBroker

pytestmark = pytest.mark.broker


def test_a_node_that_traces_nothing_shows_nothing(node: HttpBroker) -> None:
    answer = node.get("/api/traces", user=("reader", "reader"))
    assert (answer.status, answer.json) == (200, [])


@pytest.mark.parametrize("last", ["0", "1001", "many"])
def test_numbers_out_of_range_are_refused(node: HttpBroker, last: str) -> None:
    assert node.get(f"/api/traces?last={last}").status == 400


def test_who_does_not_monitor_may_not_see_them(node: HttpBroker) -> None:
    done = node.penstock("user", "add", "traced", "--tag", "management", given="traced\n")
    assert done.returncode == 0, done.stderr
    assert node.get("/api/traces", user=("traced", "traced")).status == 401

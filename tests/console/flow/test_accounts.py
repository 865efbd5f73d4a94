"""Accounts of held time, summed up over acceptors."""

from __future__ import annotations

from console.flow.accounts import summed


def test_accounts_of_a_kind_are_added_up_the_longest_first() -> None:
    entries = [
        {"by": "queue", "vhost": "/", "name": "a", "seconds": 1.0, "stops": 1},
        {"by": "queue", "vhost": "/", "name": "b", "seconds": 1.5, "stops": 2},
        {"by": "user", "vhost": "", "name": "a", "seconds": 9.0, "stops": 9},
        {"by": "queue", "vhost": "/", "name": "a", "seconds": 1.25, "stops": 3},
        {"by": "queue", "vhost": "eu", "name": "a", "seconds": 0.5, "stops": 1},
    ]
    assert [(each["vhost"], each["name"], each["seconds"], each["stops"]) for each in summed(entries, "queue")] == [
        ("/", "a", 2.25, 4), ("/", "b", 1.5, 2), ("eu", "a", 0.5, 1),
    ]  # fmt: skip
    assert summed([], "user") == []

"""Commands on shards: the list, and refusals of shards that do not exist.

tests/router/authority/test_shards.py tests what the commands do.
"""

from __future__ import annotations

import pytest

from penstock.control.control import Refusal
from tests.router.making import Asked


class Listed(Asked):
    """An authority whose shards are running, with a place for one more."""

    def __init__(self) -> None:
        super().__init__()
        self.authority.placing.places = 4
        self.authority.moves.incarnation_of = lambda shard: 1


def test_shards_are_listed_by_number_with_their_queues_and_moves() -> None:
    """A moving queue counts at both shards."""
    asked = Listed()
    for number, shard in enumerate((2, 2, 0)):
        asked.done("queue_place", name=f"q{number}", shard=shard)
        asked.done("queue_declare", name=f"q{number}", durable=True)
    asked.authority.moves.start("/", "q0", 1, None, None, lambda result: None)
    asked.command("shard_drain", shard=0)
    assert asked.command("shard_add") == 3
    assert asked.command("shard_list") == [
        {"shard": 0, "state": "draining", "queues": 1, "moves": 0},
        {"shard": 1, "state": "serving", "queues": 1, "moves": 1},
        {"shard": 2, "state": "serving", "queues": 2, "moves": 1},
        {"shard": 3, "state": "starting", "queues": 0, "moves": 0},
    ]
    asked.command("shard_undrain", shard=0)
    assert asked.command("shard_list")[0]["state"] == "serving"


@pytest.mark.parametrize("command", ["shard_drain", "shard_undrain", "shard_remove"])
def test_a_shard_that_does_not_exist_is_refused(command: str) -> None:
    with pytest.raises(Refusal, match="there is no shard 7"):
        Listed().command(command, shard=7)

"""Commands on the placement of queues: output and refusals."""

from __future__ import annotations

import pytest

from penstock.control.control import Refusal
from router.commands.registry import COMMANDS
from router.model.records import DRAINING, STARTING
from tests.router.making import Asked


class Placed(Asked):
    """An authority whose shards are running."""

    def __init__(self) -> None:
        super().__init__()
        self.authority.moves.incarnation_of = lambda shard: 1

    def move(self, name: str) -> int:
        """Start to move a queue to the next shard; return that shard."""
        queue = self.topology.queue("/", name)
        assert queue
        target = (queue.shard + 1) % 3
        self.authority.moves.start("/", name, target, None, "p", lambda result: None)
        return target


@pytest.fixture
def asked() -> Placed:
    return Placed()


def test_a_move_is_rolled_back_once(asked: Placed) -> None:
    asked.done("queue_declare", name="q", durable=True)
    assert asked.command("queue_move_abort", vhost="/", name="q") is False
    target = asked.move("q")
    (move,) = asked.command("placement", vhost="/")["moves"]
    assert (move["queue_id"], move["target"], move["plan"], move["outcome"]) == (1, target, "p", "")
    assert asked.command("queue_move_abort", vhost="/", name="q") is True
    assert asked.command("placement", vhost="/")["moves"] == []
    ((_, result),) = asked.authority.moves.take_answers()
    assert (result["result"], result["reason"]) == ("rolled-back", "aborted")
    assert asked.command("queue_move_abort", vhost="/", name="q") is False


def test_the_placement_is_that_of_a_vhost_or_of_all(asked: Placed) -> None:
    asked.command("vhost_add", name="v")
    home = asked.done("queue_declare", name="q", durable=True)["shard"]
    asked.done("queue_declare", name="mine", vhost="v", exclusive=True)
    (queue,) = asked.command("placement", vhost="/")["queues"]
    assert queue == {"vhost": "/", "name": "q", "id": 1, "shard": home, "durable": True, "immovable": ""}
    everything = asked.command("placement", vhost=None)
    assert [(each["vhost"], each["name"], bool(each["immovable"])) for each in everything["queues"]] == [
        ("/", "q", False),
        ("v", "mine", True),
    ]


def test_shards_on_which_no_queue_is_placed_are_closed(asked: Placed) -> None:
    asked.topology.apply(["shard", 5, STARTING])
    asked.topology.apply(["shard", 1, DRAINING])
    found = asked.command("placement", vhost=None)
    assert (found["shards"], found["closed"]) == ([0, 1, 2, 5], [1, 5])
    before = found["version"]
    asked.done("queue_place", name="q", shard=2)
    assert asked.command("placement", vhost=None)["version"] == before + 1


def test_a_vhost_that_does_not_exist_is_refused(asked: Placed) -> None:
    for command, arguments in (("queue_move_abort", {"name": "q"}), ("placement", {})):
        with pytest.raises(Refusal, match="there is no vhost 'none'"):
            asked.command(command, vhost="none", **arguments)


def test_the_core_carries_out_a_move() -> None:
    assert "queue_move" not in COMMANDS

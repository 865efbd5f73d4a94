"""What is done to a node: each process, several, all of them, at random moments."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.faults.node import PLACES

if TYPE_CHECKING:
    from penstock.node import Role
    from tests.faults.rounds import Rounds


def kill_one_of(*roles: Role) -> Callable[[Rounds], None]:
    """SIGKILL of a process of these roles."""
    places = [place for place in PLACES if place[0] in roles]

    def kill(rounds: Rounds) -> None:
        place = rounds.chance.choice(places)
        rounds.note(f"SIGKILL {place}")
        rounds.node.kill(place)
        rounds.node.wait_ready()
        rounds.note("all ready")

    return kill


kill_any = kill_one_of("acceptor", "shard", "router")


def kill_two(rounds: Rounds) -> None:
    """Two at once."""
    places = rounds.chance.sample(PLACES, 2)
    rounds.note(f"SIGKILL {places}")
    rounds.node.kill(*places)
    rounds.node.wait_ready()
    rounds.note("all ready")


def kill_again(rounds: Rounds) -> None:
    """One, then it or another while the first is coming back."""
    for _ in range(2):
        place = rounds.chance.choice(PLACES)
        rounds.note(f"SIGKILL {place}")
        rounds.node.kill(place)
        time.sleep(rounds.chance.uniform(0.0, 0.6))
    rounds.node.wait_ready()
    rounds.note("all ready")


def kill_all(rounds: Rounds) -> None:
    """The whole node, and a new one on its data."""
    rounds.note("SIGKILL of all")
    rounds.node.kill_all()
    rounds.note("all dead")
    rounds.node.start()
    rounds.note("all ready")


def stop(rounds: Rounds) -> None:
    """SIGTERM, and a new node on the data."""
    rounds.note("SIGTERM")
    rounds.node.stop()
    rounds.note("stopped")
    rounds.node.start()
    rounds.note("all ready")

"""Harms done to a node at random moments: to one process, to several, to all, or to the disk."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.faults.disk import Calls, Disk
from tests.faults.node import PLACES, SHARDS, Place

if TYPE_CHECKING:
    from penstock.node.node import Role
    from tests.faults.rounds import Rounds


def kill_now(rounds: Rounds, *places: Place) -> None:
    """Kill processes. Record a fault before, and another once they are dead, because clients work meanwhile."""
    names = " and ".join(f"{role} {index}" for role, index in places)
    shards = [index for role, index in places if role == "shard"]
    rounds.fault(f"SIGKILL {names}", shards)
    rounds.node.kill(*places)
    rounds.fault(f"{names} dead", shards)


def kill_one_of(*roles: Role) -> Callable[[Rounds], None]:
    """Return a harm that kills a process of one of these roles."""
    places = [place for place in PLACES if place[0] in roles]

    def kill(rounds: Rounds) -> None:
        place = rounds.chance.choice(places)
        kill_now(rounds, place)
        rounds.node.wait_ready()
        rounds.over("all ready")

    return kill


kill_any = kill_one_of("acceptor", "shard", "router")


def kill_two(rounds: Rounds) -> None:
    """Kill two processes at once."""
    places = rounds.chance.sample(PLACES, 2)
    kill_now(rounds, *places)
    rounds.node.wait_ready()
    rounds.over("all ready")


def kill_again(rounds: Rounds) -> None:
    """Kill a process, then the same or another one while the first is being replaced."""
    for _ in range(2):
        kill_now(rounds, rounds.chance.choice(PLACES))
        time.sleep(rounds.chance.uniform(0.0, 0.6))
    rounds.node.wait_ready()
    rounds.over("all ready")


def kill_all(rounds: Rounds) -> None:
    """Kill the whole node, and start a new one on its data."""
    rounds.fault("SIGKILL of all", range(SHARDS))
    rounds.node.kill_all()
    begin_again(rounds, "all dead", range(SHARDS))


def begin_again(rounds: Rounds, how: str, killed: Iterable[int] = ()) -> None:
    """Start a new node on the data of one that has ended, with these shards killed."""
    rounds.fault(how, killed)
    rounds.node.start()
    rounds.over("all ready")


def stop(rounds: Rounds) -> None:
    """Terminate the node, and start a new one on its data."""
    rounds.fault("SIGTERM")
    rounds.node.stop()
    begin_again(rounds, "stopped")


def cut_power(disk: Disk) -> Callable[[Rounds], None]:
    """Return a harm that kills the whole node and loses any part of the unflushed data."""

    def cut(rounds: Rounds) -> None:
        rounds.fault("power cut", range(SHARDS))
        rounds.node.kill_all()
        disk.cut(rounds.chance)
        begin_again(rounds, "all dead", range(SHARDS))

    return cut


ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)
CALLS = (Calls.WRITE, Calls.SYNC, Calls.RESIZE, Calls.WRITE | Calls.SHORT, Calls.WRITE | Calls.SYNC | Calls.RESIZE)


@contextmanager
def some_trouble(disk: Disk, rounds: Rounds) -> Iterator[None]:
    """Have the disk refuse calls of a random kind, all or some of them."""
    error, calls = rounds.chance.choice(ERRORS), rounds.chance.choice(CALLS)
    one_in = rounds.chance.choice([1, 1, 3, 20])
    before = disk.hits
    rounds.fault(f"disk: {errno.errorcode[error]} for {calls!r}, one in {one_in}")
    with disk.trouble(error, calls, one_in):
        yield
    rounds.over(f"disk: no trouble any more, {disk.hits - before} calls were refused")


def refuse(disk: Disk) -> Callable[[Rounds], None]:
    """Return a harm of temporary disk trouble that no process may die of."""

    def trouble(rounds: Rounds) -> None:
        incarnations = rounds.node.incarnations()
        with some_trouble(disk, rounds):
            time.sleep(rounds.chance.uniform(0.3, 1.5))
        assert rounds.node.incarnations() == incarnations, "a process died of it"

    return trouble


def refuse_and_kill(disk: Disk) -> Callable[[Rounds], None]:
    """Return a harm that kills a process while the disk refuses calls, so that the next may have no disk at first."""

    def trouble(rounds: Rounds) -> None:
        with some_trouble(disk, rounds):
            time.sleep(rounds.chance.uniform(0.1, 0.5))
            place = rounds.chance.choice([place for place in PLACES if place[0] != "acceptor"])
            kill_now(rounds, place)
            time.sleep(rounds.chance.uniform(0.3, 1.0))
        rounds.node.wait_ready()
        rounds.over("all ready")

    return trouble


def refuse_and_cut(disk: Disk) -> Callable[[Rounds], None]:
    """Return a harm that cuts power while the disk refuses calls: messages confirmed meanwhile must be there."""

    def trouble(rounds: Rounds) -> None:
        with some_trouble(disk, rounds):
            time.sleep(rounds.chance.uniform(0.3, 1.2))
            rounds.fault("power cut", range(SHARDS))
            rounds.node.kill_all()
        disk.cut(rounds.chance)
        begin_again(rounds, "all dead", range(SHARDS))

    return trouble

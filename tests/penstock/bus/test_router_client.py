"""A follower of the router: it misses no change, whatever is lost when the router dies."""

from __future__ import annotations

from typing import Any

from penstock import bus
from penstock.bus.router_client import Follower
from router.core import SNAPSHOT


class Followed:
    """A follower, its requests and their answers, and the changes that it knows."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []
        self.known: list[Any] = []
        self.answers: list[Any] = []
        self.follower = Follower(self.load, self.apply, lambda frame: self.asked.append(bus.unpack(frame)))

    def load(self, version: int, changes: list[Any]) -> None:
        self.known = changes

    def apply(self, version: int, changes: list[Any]) -> None:
        self.known += changes

    def ask(self, name: str) -> None:
        self.follower.request(name, {}, lambda result, error: self.answers.append((result, error)))

    def answer(self, asked: list[Any], version: int, result: Any) -> None:
        self.follower.on_reply(bus.pack([asked[0], version, result, None]))

    def answer_snapshot(self, asked: list[Any], version: int) -> None:
        assert asked[1] == SNAPSHOT
        self.answer(asked, version, {"changes": [*range(1, version + 1)]})

    def change(self, version: int) -> None:
        self.follower.on_change(bus.pack([version, [version]]))

    def say_version(self, version: int) -> None:
        """Publish a version, as the router does to all when somebody has subscribed."""
        self.follower.on_change(bus.pack([version, None]))


def test_a_snapshot_and_what_came_before_its_answer() -> None:
    followed = Followed()
    followed.follower.ask_for_snapshot()
    followed.change(2)
    followed.change(3)
    followed.answer_snapshot(followed.asked[0], 2)
    followed.change(4)
    assert followed.known == [1, 2, 3, 4]
    assert (followed.follower.version, followed.follower.loading) == (4, False)


def test_a_missed_change_is_asked_for() -> None:
    followed = Followed()
    followed.follower.ask_for_snapshot()
    followed.answer_snapshot(followed.asked[0], 1)
    followed.change(3)
    assert followed.follower.loading
    followed.change(4)
    assert len(followed.asked) == 2
    followed.answer_snapshot(followed.asked[1], 3)
    assert followed.known == [1, 2, 3, 4]


def test_what_a_dead_router_was_asked_is_asked_again_and_answered_once() -> None:
    followed = Followed()
    followed.ask("first")
    followed.follower.router_started()
    first = followed.asked[0]
    assert followed.asked[1] == first
    followed.answer(first, 1, "of the dead one")
    followed.answer(first, 1, "of the new one")
    assert followed.answers == [("of the dead one", None)]


def test_a_snapshot_of_the_dead_router_is_not_that_of_the_new_one() -> None:
    """A change that the dead router published after it and nobody received would be missed until the next one."""
    followed = Followed()
    followed.follower.ask_for_snapshot()
    followed.follower.router_started()
    of_the_dead, of_the_new = followed.asked
    followed.answer_snapshot(of_the_dead, 1)
    assert followed.follower.loading
    followed.answer_snapshot(of_the_new, 2)
    assert followed.known == [1, 2]
    assert (followed.follower.version, followed.follower.loading) == (2, False)


def test_what_was_missed_comes_without_the_rest() -> None:
    """The new router repeats changes that the dead one may have published unnoticed; later changes follow them."""
    followed = Followed()
    followed.follower.ask_for_snapshot()
    followed.answer_snapshot(followed.asked[0], 1)
    followed.follower.router_started()
    assert followed.asked[1][1:] == [SNAPSHOT, {"have": 1}]
    followed.change(3)
    followed.change(4)
    followed.answer(followed.asked[1], 3, {"turns": [bus.pack([2, [2]]), bus.pack([3, [3]])]})
    assert followed.known == [1, 2, 3, 4]
    assert (followed.follower.version, followed.follower.loading) == (4, False)


def test_a_version_that_is_said_is_asked_for_where_it_was_missed() -> None:
    followed = Followed()
    followed.follower.ask_for_snapshot()
    followed.say_version(2)
    followed.answer_snapshot(followed.asked[0], 1)
    assert followed.follower.loading
    followed.answer_snapshot(followed.asked[1], 2)
    assert followed.known == [1, 2]
    followed.say_version(2)
    followed.say_version(1)
    assert (followed.follower.version, followed.follower.loading) == (2, False)
    followed.change(3)
    followed.say_version(4)
    assert followed.asked[2][1:] == [SNAPSHOT, {"have": 3}]
    followed.change(5)
    followed.answer(followed.asked[2], 5, {"turns": [bus.pack([4, [4]]), bus.pack([5, [5]])]})
    assert followed.known == [1, 2, 3, 4, 5]
    assert (followed.follower.version, followed.follower.loading) == (5, False)

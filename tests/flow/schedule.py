"""A long run of the model's rules, chosen by a seed: deeper than a search that has to shrink what it finds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.flow.deaths import FlowAndDeath
from tests.flow.lives import FlowAndLives
from tests.flow.model import EXCHANGES, KINDS, POLICIES, SIZES, Flow

HOWS = ("ack", "ack", "ack", "requeue", "reject", "recover")


def actions(model: Flow, chance: Random) -> dict[Callable[[], None], float]:
    """The rules with arguments by chance, and how often each is chosen in proportion."""
    who, pick = lambda: chance.randrange(50), chance.choice
    weights: dict[Callable[[], None], float] = {
        lambda: model.publish(who(), pick([*EXCHANGES, *KINDS, "count", "some"]), pick([1, 5, 20]), pick(SIZES)): 8,
        lambda: model.move(who() * 1000 + who(), pick([3, 15, 40])): 40,
        lambda: model.consume(
            who(),
            pick([*KINDS]),
            pick([0, 1, 3, 10]),
            pick([True, False, False]),
            pick([None, None, 0, 1, 4]),
            pick([0, 0, 3]),
        ): 4,
        lambda: model.cancel(who()): 1,
        lambda: model.get(who(), pick([*KINDS]), pick([True, False, False])): 3,
        lambda: model.settle_some(who(), who(), pick([True, True, False]), pick(HOWS)): 10,
        lambda: model.close_channel(who()): 1,
        lambda: model.leave(who()): 1,
        lambda: model.delete(who(), pick([*KINDS])): 1,
        lambda: model.declare_again(pick([*KINDS])): 1,
        lambda: model.change_policy(pick([*KINDS]), pick(POLICIES)): 1,
        lambda: model.stray(who(), who(), pick([True, False])): 2,
        lambda: model.time_passes(who(), pick([0.01, 1.0])): 3,
        lambda: model.go_on(pick([None, 0, 1]), pick([1, 10])): 4,
        lambda: model.rest(): 1,
    }
    if isinstance(model, FlowAndLives):
        lives = model
        weights[lambda: lives.kill_shard(who(), chance.randrange(4), pick([True, False]))] = 1
        weights[lambda: lives.start_shard(who())] = 2
        weights[lambda: lives.commit(who())] = 8
    if isinstance(model, FlowAndDeath):
        death = model
        weights[lambda: death.kill_shard(who(), chance.randrange(4))] = 0.5
        weights[lambda: death.start_shard(who())] = 2
        weights[lambda: death.kill_acceptor(who())] = 0.3
        weights[lambda: death.start_acceptor(who())] = 1.5
    return weights


def run(model: Flow, seed: int, steps: int) -> None:
    """So many steps, then everything comes to its end. AssertionError where something did not hold."""
    chance = Random(seed)
    model.start(chance.choice([1, 2, 2]), chance.choice([1, 2, 2]), chance.choice([1 << 30, 1 << 30, 400_000]))
    weights = actions(model, chance)
    try:
        for _ in range(steps):
            chance.choices([*weights], [*weights.values()])[0]()
            model.nothing_breaks()
        model.everything_ends()
    finally:
        model.node.__exit__()

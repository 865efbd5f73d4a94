"""A long run of the model's rules, chosen by a seed: deeper than a search that has to shrink its examples."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.flow.attacks import CHANNELS
from tests.flow.deaths import FlowAndDeath
from tests.flow.lives import FlowAndLives
from tests.flow.model import Flow
from tests.flow.operators import POLICIES, STOPS
from tests.flow.router import FlowAndRouter
from tests.flow.world import EXCHANGES, KINDS, SIZES
from tests.simulator.policies import OWNERS, SHARED

HOWS = ("ack", "ack", "ack", "requeue", "reject", "recover")


INVARIANTS = (
    Flow.nothing_breaks, Flow.whoever_is_held_has_an_episode, Flow.shared_prefetch_holds,
    Flow.metered_gates_are_looked_at, Flow.unprivileged_queues_hold_nobody,
    Flow.what_is_kept_is_bounded,
)  # fmt: skip


def actions(model: Flow, chance: Random) -> dict[Callable[[], None], float]:
    """Return the rules with random arguments, and the relative frequency of each.

    Most actions concern a few kinds of queues, so that enough of them meet at each.
    """
    who, pick = lambda: chance.randrange(50), chance.choice
    some = chance.sample([*KINDS], 3)
    kind = lambda: pick(some if chance.random() < 0.6 else [*KINDS])  # noqa: E731
    target = lambda: pick([*EXCHANGES]) if chance.random() < 0.4 else kind()  # noqa: E731
    # A last resort takes its time; a shard that has died waits for its acceptors for a shorter one.
    seconds = [0.01, 1.0] if model.last_resort is None or isinstance(model, FlowAndLives) else [0.01, 1.0, 5.0]
    weights: dict[Callable[[], None], float] = {
        lambda: model.publish(who(), target(), pick([1, 5, 20]), pick(SIZES)): 8 if model.last_resort is None else 24,
        lambda: model.take_steps(who() * 1000 + who(), pick([3, 15, 40])): 40,
        lambda: model.consume(
            who(),
            kind(),
            pick([0, 1, 3, 10]),
            pick([True, False, False]),
            pick([None, None, 0, 1, 4]),
            pick([0, 0, 3]),
        ): 4,
        lambda: model.cancel(who()): 1,
        lambda: model.get(who(), kind(), pick([True, False, False])): 3,
        lambda: model.settle_some(who(), who(), pick([True, True, False]), pick(HOWS)): 10,
        lambda: model.commit_some(who()): 3,
        lambda: model.roll_back(who()): 0.7,
        lambda: model.close_channel(who()): 1,
        lambda: model.leave(who()): 1,
        lambda: model.delete(who(), kind()): 2,
        lambda: model.declare_again(kind()): 2,
        lambda: model.change_policy(kind(), pick(POLICIES)): 1,
        lambda: model.limit_together(pick([*OWNERS]), pick(SHARED)): 0.5,
        lambda: model.overtake(pick([True, False])): 0.5,
        lambda: model.reconnect(): 2,
        lambda: model.permit(pick([True, False, False])): 0.7,
        lambda: model.operator_stop(pick(STOPS)): 0.5,
        lambda: model.operator_start(who()): 1.5,
        lambda: model.move_queue(kind(), who()): 3,
        lambda: model.abort_move(kind()): 0.3,
        lambda: model.stray(who(), who(), pick([True, False])): 2,
        lambda: model.time_passes(who(), pick(seconds)): 3 if len(seconds) == 2 else 9,
        lambda: model.go_on(pick([None, 0, 1]), pick([1, 10])): 4,
        lambda: model.rest(): 1,
        lambda: model.publish_to_nobody(who(), pick([1, 10, 40]), pick([0, 9000, 40_000])): 4,
        lambda: model.begin_body(who(), pick(CHANNELS), pick([0, 1, 4])): 4,
        lambda: model.finish_body(who(), pick(CHANNELS)): 1,
        lambda: model.read_attacker(who(), pick([1, 5, 40])): 4,
        lambda: model.listen(who(), pick([1000, 300_000, 1 << 30])): 2,
        lambda: model.attacker_leaves(who()): 0.5,
    }
    if isinstance(model, FlowAndRouter):
        router = model
        weights[lambda: router.kill_router(chance.randrange(4))] = 1.5
        weights[router.start_router] = 2
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
    """Take this many steps, then end everything. AssertionError if an invariant does not hold."""
    chance = Random(seed)
    memory, share = chance.choice([1 << 30, 1 << 30, 400_000]), chance.choice([0, 50, None])
    last_resort = chance.choice([None, None, "close", "pause", "nack"])
    model.start(chance.choice([1, 2, 2]), chance.choice([1, 2, 2, 3]), memory, share, seed % 3 == 0, last_resort)
    weights = actions(model, chance)
    try:
        for _ in range(steps):
            chance.choices([*weights], [*weights.values()])[0]()
            for invariant in INVARIANTS:
                invariant(model)
        model.everything_ends()
    finally:
        model.node.__exit__()

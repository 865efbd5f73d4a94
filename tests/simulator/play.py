"""Plays one plan, and says how it ended."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

from tests.simulator.coverage import Coverage
from tests.simulator.plan import Plan
from tests.simulator.world import World


@dataclass
class Ending:
    """How a play ended: its `failure` in words, None if all promises were kept, and `where` it was noticed."""

    plan: Plan
    digest: str
    steps: int
    messages: int
    failure: str | None = None
    where: str = ""
    story: list[tuple[float, str]] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)


def play(plan: Plan, narrated: bool = False) -> Ending:
    """Play a plan. Whatever is raised meanwhile is its failure."""
    coverage = Coverage()
    failure, where = None, ""
    world = World(plan, narrated)
    try:
        with coverage.counting():
            world.play()
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failure, where = f"{type(error).__name__}: {error}", f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
    coverage.noted += world.promises.noted
    digest = "".join(person.digest.hexdigest() for _, person in sorted(world.clients.items()))
    return Ending(
        plan, digest, world.steps, len(world.truth.messages), failure, where, world.engine.story, coverage
    )  # fmt: skip

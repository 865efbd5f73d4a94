"""The simulator as a command: `python -m tests.simulator`, or `make simulate`."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from typing import Annotated

import typer

from tests.simulator.coverage import Coverage
from tests.simulator.drawing import draw
from tests.simulator.play import Ending, play
from tests.simulator.shrink import shrink

PIECE = 10
"""Seeds that a process plays at once."""


def main(
    seed: Annotated[int | None, typer.Option(help="play this seed alone, and print its story")] = None,
    first: Annotated[int, typer.Option(help="the first seed")] = 0,
    seconds: Annotated[float, typer.Option(help="for how long to play more seeds")] = 60.0,
    processes: Annotated[int, typer.Option(help="at the same time; 0: one on each core")] = 0,
    short: Annotated[bool, typer.Option("--short", help="only short seeds without a lull")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="with --seed: do not shrink it if it fails")] = False,
) -> None:
    """Play seeds until the time is up. The first failing one is shrunk, and its story printed."""
    if seed is not None:
        print_story(play(draw(seed), narrated=True), whole)
    else:
        play_many(first, seconds, processes or len(os.sched_getaffinity(0)), short)


def play_many(first: int, seconds: float, processes: int, short: bool) -> None:
    """Play seeds on several processes, and print a summary."""
    began = time.monotonic()
    coverage, played, virtual, steps, messages = Coverage(), 0, 0.0, 0, 0
    failures: list[Ending] = []
    for ending in endings(first, began + seconds, processes, short):
        played += 1
        virtual += ending.plan.duration
        steps += ending.steps
        messages += ending.messages
        coverage += ending.coverage
        if ending.failure is not None:
            failures.append(ending)
            print(f"seed {ending.plan.seed}: {ending.failure} ({ending.where})", flush=True)
    took = time.monotonic() - began
    print(f"{played} seeds in {took:.0f} s ({played / took * 60:.0f} a minute), {len(failures)} failed;")
    print(f"{messages:,} messages, {steps:,} steps, {virtual:,.0f} s of virtual time")
    for (event, how), times in sorted(coverage.noted.items()):
        print(f"happened {times} times: {event} {how}".rstrip())
    for name, state, event in coverage.missing():
        print(f"never happened: {name}: {event} in {state}")
    if failures:
        print_story(failures[0], whole=False)


def endings(first: int, until: float, processes: int, short: bool) -> Iterator[Ending]:
    """Yield the endings of seed after seed until a time of the monotonic clock."""
    seeds = count(first, PIECE)
    with ProcessPoolExecutor(processes, initializer=collect_seldom) as pool:
        under_way: set[Future[list[Ending]]] = set()
        while True:
            while len(under_way) < 2 * processes and time.monotonic() < until:
                under_way.add(pool.submit(play_piece, next(seeds), short))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()


def collect_seldom() -> None:
    """Have this process collect cyclic garbage after plays: nearly all of that is what a play leaves."""
    gc.freeze()
    gc.set_threshold(50_000)


def play_piece(first: int, short: bool) -> list[Ending]:
    """Play some seeds, one after the other; with `short`, those that are."""
    played = []
    for plan in map(draw, range(first, first + PIECE)):
        if plan.is_short or not short:
            played.append(play(plan))
            gc.collect()
    return played


def print_story(ending: Ending, whole: bool) -> None:
    """Print a story; a failing play is shrunk first unless it is wanted whole. Exit status 1 if it failed."""
    if ending.failure is not None and not whole:
        ending = shrink(ending)
    for at, words in ending.story:
        print(f"{at:10.4f} s  {words}")
    print(f"seed {ending.plan.seed}: {ending.messages} messages, {ending.steps} steps, digest {ending.digest}")
    if ending.failure is not None:
        print(f"{ending.failure} ({ending.where})")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

"""Claims in the gauges: of acceptors that claim at the same time, at least one sees the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from tests.penstock.memory.gauges_file import (
    ACCEPTORS,
)
from tests.waiting import PATIENCE


def test_what_others_claim(gauges: Gauges, path: Path) -> None:
    place = gauges.claim_place(7)
    assert (gauges.claim_place(7), gauges.claim_place(8)) == (place, place + 1)
    assert gauges.claim(place, 0, 1, 5, 500) == (0, 0)
    with Gauges.open(path) as other:
        assert other.claim_place(7) == place
        assert other.claim(place, 1, 3, 1, 10) == (5, 500)
        assert other.claim(place + 1, 1, 3, 2, 20) == (0, 0)
    assert gauges.claim(place, 0, 1, 4, 400) == (1, 10)
    assert gauges.claim(place, 0, 2, 1, 1) == (5, 410), "its successor"
    assert gauges.claim(place, ACCEPTORS - 1, 1, 0, 0) == (6, 411)
    gauges.claims_clear(1, 3)
    gauges.claims_clear(0, 2)
    assert gauges.claim(place, 0, 1, 4, 400) == (0, 0) == gauges.claim(place + 1, 0, 1, 0, 0)


def test_no_more_places_for_claims(gauges: Gauges) -> None:
    places = {gauges.claim_place(key) for key in range(1, 4097)}
    assert len(places) == 4096 and gauges.claim_place(5000) == -1
    assert gauges.claim_place(4000) in places


@pytest.mark.parametrize(
    "broken",
    [
        lambda g: g.claim(-1, 0, 1, 0, 0),
        lambda g: g.claim(4096, 0, 1, 0, 0),
        lambda g: g.claim(0, ACCEPTORS, 1, 0, 0),
        lambda g: g.claims_clear(-1, 1),
    ],
)
def test_claims_of_nobody(gauges: Gauges, broken: Callable[[Gauges], object]) -> None:
    with pytest.raises(IndexError):
        broken(gauges)


CLAIMANT = """
import sys
from penstock.memory.gauges import Gauges
with Gauges.open(sys.argv[1]) as gauges:
    writer, rounds = int(sys.argv[2]), int(sys.argv[3])
    place, got = gauges.claim_place(7), 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(rounds):
        if gauges.claim(place, writer, 1, 1, 0)[0] == 0:
            got += 1
            before = gauges.depth_count(50)
            gauges.queue_write(50, before + 1, *[0] * 17)
            assert gauges.depth_count(50) == before + 1
        gauges.claim(place, writer, 1, 0, 0)
    print(got)
"""


def test_two_that_claim_the_last_of_something_do_not_both_get_it(gauges: Gauges, path: Path) -> None:
    """The claimant that gets it increments a number, which would lose counts if two did so at a time."""
    gauges.queue_open(50, 9, "vhost", "queue", 33)
    command = [sys.executable, "-c", CLAIMANT, str(path)]
    both = [
        subprocess.Popen([*command, str(writer), "100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for writer in range(2)
    ]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    counts = []
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        counts.append(int(process.communicate(timeout=PATIENCE)[0]))
        assert process.returncode == 0
    assert sum(counts) == gauges.depth_count(50) > 0

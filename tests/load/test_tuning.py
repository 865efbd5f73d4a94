"""The comparison of variants: its table from real nodes, and what it asks of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from load.bench import ROWS, Client
from load.node import LocalNode
from load.processes import living
from load.tuning import HEADER, VARIANTS, main, pin
from penstock.settings.sources import load_settings
from tests.load.test_tls import run


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_has_settings_of_a_node_and_rows_of_the_benchmark(name: str) -> None:
    variant = VARIANTS[name]
    load_settings(None, {}, [f"{setting}={value}" for setting, value in variant.settings.items()])
    assert set(variant.rows) <= set(ROWS)


@pytest.mark.broker
def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["both-2", "huge-pages"], ["ack", "latency-p50"], 1, 0.3, Client.PYTHON)
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    assert head == list(HEADER)
    assert [line[:2] for line in lines] == [
        ["both-2", "ack"], ["both-2", "latency-p50"], ["huge-pages", "ack"], ["huge-pages", "latency-p50"],
    ]  # fmt: skip
    for _, _, default, spent, ratio, processor_time, memory in lines:
        assert float(default.replace(",", "")) > 0 and float(spent) > 0
        assert float(ratio) > 0 and float(processor_time) > 0
        assert memory[0] in "+-"


@pytest.mark.broker
def test_acceptors_and_shards_are_pinned(tmp_path: Path) -> None:
    with LocalNode(tmp_path, "--acceptors", "2", "--shards", "2") as node:
        pin(node.pid)
        pinned = {
            each.name(): {frozenset(os.sched_getaffinity(thread.id)) for thread in each.threads()}
            for each in living(node.pid)
            if each.name().startswith(("pstk-acceptor", "pstk-shard"))
        }
    assert len(pinned) == 4
    assert all(len(cores) == 1 and len(next(iter(cores))) == 1 for cores in pinned.values())


def test_what_is_unknown_is_refused_in_one_line() -> None:
    done = run("tuning", "fast", "--row", "slow")
    assert done.returncode == 2
    assert done.stderr == "tuning: nothing is called fast, slow; see --help\n"

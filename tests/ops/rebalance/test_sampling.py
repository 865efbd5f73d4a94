"""Rows from readings of the gauges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.rebalance.goals import Home
from ops.rebalance.rows import rows_of
from ops.rebalance.sampling import Samples, quantile, with_present_depths
from penstock.memory.gauges import QueueGauge
from tests.ops.rebalance.synthetic import row
from tests.penstock.memory.gauges_file import reading

HOMES = [Home("/", "q", 1, 2)]


def check(**fields: Any) -> QueueGauge:
    return reading(queue_id=1, **fields)


def test_rates_depths_and_how_long_it_was_stopped() -> None:
    samples = Samples()
    depths, published = [0, 10, 30, 20, 5], [0, 100, 300, 600, 600]
    for number in range(5):
        samples.add_reading(
            10.0 + 2 * number,
            [
                check(
                    published=published[number],
                    delivered=10 * number,
                    published_bytes=10 * published[number],
                    ready=depths[number],
                    whole_bytes=depths[number] * 7,
                    unacked=1,
                    saturated=number in (2, 3),
                )
            ],
        )
    (found,) = samples.rows(HOMES)
    assert (found.vhost, found.queue, found.shard) == ("/", "q", 2)
    assert found.p50_rate == pytest.approx((55 + 105) / 2)
    assert found.p95_rate == pytest.approx(105 + (155 - 105) * 0.85)
    assert found.p95_bytes_rate == pytest.approx(1000 + 500 * 0.85)
    assert (found.peak_depth, found.peak_bytes, found.backlog, found.backlog_bytes) == (31, 210, 6, 35)
    assert (found.stopped_share, found.coverage) == (0.4, 1.0)


def test_what_was_not_seen_lowers_the_coverage() -> None:
    samples = Samples()
    samples.add_reading(0.0, [])
    samples.add_reading(1.0, [check(published=5)])
    samples.add_reading(2.0, [check(torn=True)])
    samples.add_reading(3.0, [check(published=9)])
    samples.add_reading(4.0, [check(published=2)])  # its shard was restarted
    (found,) = samples.rows(HOMES)
    assert (found.p95_rate, found.coverage) == (2.0, 0.25)
    assert samples.rows([Home("/", "other", 7, 0)]) == []


def test_one_look_says_nothing_of_rates() -> None:
    samples = Samples()
    samples.add_reading(0.0, [check(ready=3)])
    (found,) = samples.rows(HOMES)
    assert (found.p95_rate, found.coverage, found.backlog) == (0.0, 0.0, 3)


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0, 1))
def test_quantiles_lie_between_the_least_and_the_most(values: list[float], share: float) -> None:
    ordered = sorted(values)
    assert ordered[0] <= quantile(ordered, share) <= ordered[-1]
    assert (quantile(ordered, 0.0), quantile(ordered, 1.0)) == (ordered[0], ordered[-1])


def test_rows_of_yesterday_with_what_queues_hold_today() -> None:
    rows = [row("q", 0, 100.0, backlog=5), row("gone", 0, 100.0), row("silent", 0, 1.0, backlog=4)]
    homes = [*HOMES, Home("/", "silent", 9, 1)]
    found = with_present_depths(rows, {1: check(ready=50, whole_bytes=5000, unacked=1)}, homes)
    assert [(each.queue, each.shard, each.backlog, each.peak_depth) for each in found] == [
        ("q", 2, 51, 51),
        ("silent", 1, 4, 4),
    ]
    assert found[0].p95_rate == 100.0
    assert rows_of([{name: getattr(each, name) for name in each.__slots__} for each in found]) == found

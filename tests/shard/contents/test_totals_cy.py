"""The totals of a queue: sums over its lines, compiled and plain alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twins import load_compiled, load_plain

NAME = "shard.contents.totals_cy"
FIELDS = ("published", "published_bytes", "delivered", "delivered_bytes", "acked", "redelivered", "dropped")


@pytest.mark.parametrize("module", [load_compiled(NAME), load_plain(NAME)], ids=["compiled", "plain"])
def test_totals_begin_at_nothing(module: Any) -> None:
    totals = module.Totals()
    assert {getattr(totals, field) for field in FIELDS} == {0}


def test_totals_are_added_and_subtracted_field_by_field() -> None:
    module = load_plain(NAME)
    total, one = module.Totals(), module.Totals()
    for number, field in enumerate(FIELDS, 1):
        setattr(one, field, number)
    total.add(one, 1)
    total.add(one, 1)
    total.add(one, -1)
    assert [getattr(total, field) for field in FIELDS] == [*range(1, 8)]

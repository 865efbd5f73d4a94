"""Lists: pages, order, filters and columns."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.http.errors import HttpError
from console.http.listing import Listing, chosen, listed, listed_with, sorted_by

VALUES = st.none() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("aAb", max_size=2) | st.booleans()
ROWS = st.lists(st.fixed_dictionaries({"name": st.text("abAB/", max_size=3)}, optional={"size": VALUES}), max_size=40)


def rows_of(rows: list[dict[str, Any]], **wanted: Any) -> Any:
    """Return the body of the answer with the rows, each with its place in `place`."""
    placed = [{**row, "place": place} for place, row in enumerate(rows)]
    return orjson.loads(listed(placed, Listing(**wanted)).body)


@given(ROWS, st.integers(1, 50), st.sampled_from(["", "size", "name", "nothing.at.all"]), st.booleans())
def test_pages_cover_everything_once_in_order(
    rows: list[dict[str, Any]], page_size: int, sort: str, reverse: bool
) -> None:
    order = {"sort": sort, "sort_reverse": reverse}
    first = rows_of(rows, page=1, page_size=page_size, **order)
    pages = [rows_of(rows, page=page, page_size=page_size, **order) for page in range(1, first["page_count"] + 1)]
    assert [row for page in pages for row in page["items"]] == rows_of(rows, **order)
    assert first["total_count"] == first["filtered_count"] == len(rows)
    assert all(page["item_count"] == len(page["items"]) <= page_size for page in pages)
    with pytest.raises(HttpError, match="does not exist"):
        rows_of(rows, page=max(first["page_count"], 1) + 1, page_size=page_size)


@given(ROWS, st.booleans())
def test_sorting_is_stable_and_puts_rows_without_a_value_last(rows: list[dict[str, Any]], reverse: bool) -> None:
    placed = [{**row, "place": place} for place, row in enumerate(rows)]
    found = sorted_by(placed, "size", reverse=reverse)
    assert sorted(each["place"] for each in found) == list(range(len(rows)))
    known = [each for each in found if each.get("size") is not None]
    assert found[: len(known)] == known
    for first, second in pairwise(known):
        if first["size"] == second["size"] and isinstance(first["size"], str) == isinstance(second["size"], str):
            assert first["place"] < second["place"]
    assert sorted_by(found, "size", reverse=reverse) == found


@given(ROWS, st.text("abAB/", max_size=2))
def test_a_filter_keeps_the_rows_with_the_text_in_their_names(rows: list[dict[str, Any]], part: str) -> None:
    found = rows_of(rows, page=1, page_size=500, name=part)
    expected = [place for place, row in enumerate(rows) if part.lower() in row["name"].lower()]
    assert [row["place"] for row in found["items"]] == expected
    assert (found["filtered_count"], found["total_count"]) == (len(expected), len(rows))


def test_an_expression_matches_names_in_any_case() -> None:
    rows = [{"name": name} for name in ("orders.new", "Orders", "stock")]
    assert [row["name"] for row in rows_of(rows, name="^ord.*s$", use_regex=True)] == ["Orders"]
    with pytest.raises(HttpError, match="not a regular expression"):
        rows_of(rows, name="(", use_regex=True)


@given(ROWS, st.lists(st.sampled_from(["name", "size", "a.b", "name.x", "a", ""]), max_size=5))
def test_chosen_columns_are_those_of_the_row(rows: list[dict[str, Any]], columns: list[str]) -> None:
    for row in rows:
        full = {**row, "a": {"b": 1, "c": 2}}
        found = chosen(full, Listing(columns=",".join(columns)).paths)
        paths = [column for column in columns if column]
        if not paths:
            assert found == full
            continue
        assert set(found) == {path.split(".")[0] for path in paths} & {"name", "size", "a"} & full.keys() - (
            {"name"} if "name" not in paths else set()
        )
        assert all(found[name] == full[name] for name in found if name != "a")


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"page": 2, "page_size": 3}, 3),
        ({"page": 2, "page_size": 3, "sort": "x"}, 3),
        ({"page": 2, "page_size": 3, "sort": "more"}, 10),
        ({}, 10),
    ],
)
def test_only_the_rows_that_are_shown_are_asked_about(wanted: dict[str, Any], count: int) -> None:
    """All of them where the order depends on what is asked."""
    rows = [{"name": f"n{number}", "x": -number} for number in range(10)]
    asked: list[str] = []

    async def more(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked.extend(row["name"] for row in found)
        return [{**row, "more": row["name"]} for row in found]

    body = orjson.loads(asyncio.run(listed_with(rows, Listing(**wanted), more)).body)
    items = body["items"] if wanted else body
    assert all(row["more"] == row["name"] for row in items)
    assert len(asked) == count

"""Lists as RabbitMQ's management gives them: chosen columns, sorted, filtered by name, in pages.

    ?columns=name,messages   only these fields; a dot leads into an object
    ?sort=messages&sort_reverse=true
    ?page=1&page_size=500&name=orders&use_regex=false
                             a page, as an object with counts; names are matched in any case

A regular expression is matched by RE2, whose time is bounded by its length and the text's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.broker import Facts
from console.http.answers import answer
from console.http.errors import HttpError
from penstock.text.patterns import PatternError, pattern

PAGE_SIZE = 100
PAGE_MOST = 500
COLUMNS_MOST = 100


class Listing(BaseModel):
    """The columns, order and page of a list that a client wants."""

    model_config = ConfigDict(extra="ignore")

    page: int | None = Field(default=None, ge=1, le=1_000_000)
    page_size: int = Field(default=PAGE_SIZE, ge=1, le=PAGE_MOST)
    name: str = Field(default="", max_length=1000)
    use_regex: bool = False
    sort: str = Field(default="", max_length=200)
    sort_reverse: bool = False
    columns: str = Field(default="", max_length=4000)

    @property
    def paths(self) -> list[list[str]]:
        """The chosen columns, as paths of keys; none for all."""
        return [path.split(".") for path in self.columns.split(",")[:COLUMNS_MOST] if path]


Listed = Annotated[Listing, Query()]


def listed(
    rows: Sequence[Facts], wanted: Listing, more: Callable[[list[Facts]], Iterable[Facts]] | None = None
) -> Response:
    """Answer with a list. `more` adds what is dear to the rows that are shown, once those are known; all rows need it
    if the order may depend on it. HttpError for a page that does not exist and an expression that is none.
    """
    found = list(filter(_matches(wanted), rows)) if wanted.name else list(rows)
    if more is not None and (wanted.page is None or not _is_known(found, wanted.sort)):
        found, more = list(more(found)), None
    if wanted.sort:
        found = sorted_by(found, wanted.sort, reverse=wanted.sort_reverse)
    if wanted.page is None:
        return answer([chosen(row, wanted.paths) for row in found])
    begin = (wanted.page - 1) * wanted.page_size
    if begin >= max(len(found), 1):
        raise HttpError(400, f"page {wanted.page} does not exist")
    page = found[begin : begin + wanted.page_size]
    items = list(more(page)) if more is not None else page
    return answer(
        {
            "filtered_count": len(found),
            "item_count": len(page),
            "items": [chosen(row, wanted.paths) for row in items],
            "page": wanted.page,
            "page_count": -(-len(found) // wanted.page_size),
            "page_size": wanted.page_size,
            "total_count": len(rows),
        }
    )


async def listed_with(
    rows: Sequence[Facts], wanted: Listing, more: Callable[[list[Facts]], Awaitable[list[Facts]]]
) -> Response:
    """The same, where `more` asks other processes."""
    shown: list[Facts] = []

    def note(found: list[Facts]) -> list[Facts]:
        shown.extend(found)
        return found

    listed(rows, wanted, note)
    complete = await more(shown)
    return listed(rows, wanted, lambda _: complete)


def _is_known(rows: Sequence[Facts], column: str) -> bool:
    """Whether rows can be sorted by a column as they are."""
    return not column or not rows or column in rows[0]


def chosen(row: Facts, paths: list[list[str]]) -> Facts:
    """Return the chosen columns of a row; all of them if none are."""
    if not paths:
        return row
    found: Facts = {}
    for path in paths:
        value: Any = row
        for key in path:
            value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
        if value is _MISSING:
            continue
        into = found
        for key in path[:-1]:
            into = into.setdefault(key, {})
            if not isinstance(into, dict):
                break
        else:
            into[path[-1]] = value
    return found


def sorted_by(rows: Iterable[Facts], column: str, *, reverse: bool) -> list[Facts]:
    """Return rows by a column, those without it last; numbers come before texts."""
    path = column.split(".")
    ranked = [(_rank(_value(row, path)), row) for row in rows]
    known = sorted((each for each in ranked if each[0] is not None), key=lambda each: each[0], reverse=reverse)
    return [row for _, row in known] + [row for rank, row in ranked if rank is None]


_MISSING = object()


def _value(row: Facts, path: list[str]) -> Any:
    value: Any = row
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _rank(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return 0, value, ""
    return None if value is None else (1, 0, str(value))


def _matches(wanted: Listing) -> Callable[[Facts], bool]:
    if not wanted.use_regex:
        part = wanted.name.casefold()
        return lambda row: part in str(row.get("name", "")).casefold()
    try:
        expression = pattern(f"(?i){wanted.name}")
    except PatternError as error:
        raise HttpError(400, f"name is not a regular expression: {error}") from None
    return lambda row: expression.matches(str(row.get("name", "")))

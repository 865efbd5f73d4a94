"""Which rows of a list are shown, and in which order: `--where` and `--sort`, for all lists alike.

    --where 'queue=eu.*' --where 'ready>0' --sort ready

Both name the fields that `--json` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from ops.errors import CommandError

Row = TypeVar("Row", bound=Mapping[str, Any])
CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="only rows of which this is true, such as ready>0 or name=eu.* (* and ? are wildcards); may be repeated",
        show_default=False,
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="FIELD",
        help="numbers from the largest, texts from A; -FIELD turns the order round",
        show_default=False,
    ),
]

COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
}


class Condition(NamedTuple):
    """One condition: a field, a comparison, and what the field is compared with."""

    field: str
    comparison: str
    wanted: str

    @classmethod
    def parsed(cls, text: str) -> Condition:
        """Parse a condition. CommandError if it is none."""
        found = CONDITION.fullmatch(text)
        if found is None:
            raise CommandError(f"--where: '{text}' is not FIELD=TEXT, FIELD!=TEXT, FIELD>NUMBER or FIELD<NUMBER")
        field, comparison, wanted = (part.strip() for part in found.groups())
        if comparison in COMPARED and not _is_number(wanted):
            raise CommandError(f"--where: {comparison} compares numbers, and '{wanted}' is none")
        return cls(field, comparison, wanted)

    def holds(self, value: Any) -> bool:
        """Return whether it is true of a row with this value of the field."""
        if self.comparison in COMPARED:
            return isinstance(value, int | float) and COMPARED[self.comparison](value, float(self.wanted))
        matches = any(fnmatchcase(text, self.wanted) for text in _texts(value))
        return matches == (self.comparison == "=")


def selected_rows(rows: Sequence[Row], where: Sequence[str] | None, sort: str | None) -> list[Row]:
    """Return the rows of which all conditions are true, in the order asked for. A row without a field has None.
    CommandError for a condition that is none, and for a field that no row has.
    """
    found, fields = list(rows), dict.fromkeys(field for row in rows for field in row)
    for condition in [Condition.parsed(text) for text in where or ()]:
        if rows:
            field = _field(fields, condition.field)
            found = [row for row in found if condition.holds(row.get(field))]
    if sort is not None and rows:
        reverse, field = sort.startswith("-"), _field(fields, sort.removeprefix("-"))
        found.sort(key=lambda row: _rank(row.get(field)))
        found = found[::-1] if reverse else found
    return found


def _field(fields: Collection[str], name: str) -> str:
    field = name.replace(" ", "_").replace("-", "_")
    if field not in fields:
        raise CommandError(f"there is no field '{name}'; the fields are {', '.join(fields)}")
    return field


def _rank(value: Any) -> tuple[int, float, str]:
    """Return the place of a value: numbers first, the largest before others; then texts; then nothing."""
    if isinstance(value, int | float):
        return 0, -value, ""
    return (2, 0, "") if value is None else (1, 0, ", ".join(_texts(value)).casefold())


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    if isinstance(value, bool):
        return ["yes" if value else "no", "true" if value else "false"]
    return ["" if value is None else str(value)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

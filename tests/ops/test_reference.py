"""Pages that are made from code, compared with the code."""

from __future__ import annotations

import pytest

from ops import reference
from penstock.settings import Settings
from penstock.settings.sources import known_keys
from penstock.telemetry.schema import TABLES


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (reference.DOCS / name).read_text() == reference.PAGES[name](), "run `make docs`"


def test_the_page_names_every_setting() -> None:
    page = reference.configuration_page()
    for key in known_keys(Settings):
        assert f"| `{key}` |" in page


def test_the_page_names_every_column() -> None:
    page = reference.telemetry_page()
    for table in TABLES.values():
        assert f"## `{table.name}`" in page
        for column in table.columns:
            assert f"| `{column.name}` |" in page

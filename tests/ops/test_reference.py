"""The configuration page is what the settings say."""

from __future__ import annotations

from ops import reference
from penstock.settings import Settings
from penstock.sources import known_keys


def test_the_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `make docs`"


def test_the_page_names_every_setting() -> None:
    page = reference.page()
    for key in known_keys(Settings):
        assert f"| `{key}` |" in page

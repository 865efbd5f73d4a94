"""Settings read without the machine's environment, and the refusal of a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.settings.errors import SettingsError
from penstock.settings.sources import load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("PENSTOCK_"):
            monkeypatch.delenv(name)


def complaint(*assignments: str, config: Path | None = None) -> str:
    """Return the one line that refuses a configuration."""
    with pytest.raises(SettingsError) as caught:
        load_settings(config, assignments=assignments)
    text = str(caught.value)
    assert "\n" not in text
    return text

"""Settings of the HTTP interface."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.settings import Settings
from penstock.settings.http import HTTP_PORT, METRICS_PORT, HttpSettings


def test_two_ports_are_served_by_default() -> None:
    assert HttpSettings().places == {"api": ("127.0.0.1", HTTP_PORT), "metrics": ("127.0.0.1", METRICS_PORT)}
    assert list(HttpSettings(metrics=False).places) == ["api"]
    assert HttpSettings(enabled=False).places == {}


def test_the_report_is_in_the_data_directory_unless_it_is_named() -> None:
    found = [
        Settings.from_resolved({"data": "/d", "http": http}).report_file for http in ({}, {"report": "/r/last.html"})
    ]
    assert found == [Path("/d/report.html"), Path("/r/last.html")]


def test_a_certificate_is_that_of_a_listener() -> None:
    assert HttpSettings().secured is None
    pairs = [
        HttpSettings.model_validate({"certificate": "/a.pem", **key}).secured.pairs  # type: ignore[union-attr]
        for key in ({}, {"key": "/b.pem"})
    ]
    assert pairs == [[(Path("/a.pem"), Path("/a.pem"))], [(Path("/a.pem"), Path("/b.pem"))]]
    with pytest.raises(ValidationError, match="key needs certificate"):
        HttpSettings.model_validate({"key": "/b.pem"})


@pytest.mark.parametrize("wrong", [{"port": -1}, {"idle_seconds": 0}, {"connections": 0}, {"host": ""}, {"other": 1}])
def test_values_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HttpSettings.model_validate(wrong)

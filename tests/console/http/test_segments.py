"""Names in paths."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.http.segments import decoded


@given(st.binary())
def test_any_name_can_be_sent(name: bytes) -> None:
    assert decoded(quote_from_bytes(name, safe="")).encode("utf-8", "surrogateescape") == name


@pytest.mark.parametrize(
    ("segment", "name"), [("%2F", "/"), ("%2f%2F", "//"), ("a+b", "a+b"), ("%", "%"), ("%zz", "%zz")]
)
def test_only_whole_escapes_are_decoded(segment: str, name: str) -> None:
    assert decoded(segment) == name

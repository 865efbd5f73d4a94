"""Input of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.administration.input import json_object, url_in
from ops.errors import CommandError


def test_a_url_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("amqp://ann:secret@old/shop\n")
    assert url_in(f"@{file}") == "amqp://ann:secret@old/shop"
    assert url_in("amqp://old/shop") == "amqp://old/shop"
    assert url_in(None) is None


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot read the URL in .*missing: No such file or directory"):
        url_in(f"@{tmp_path / 'missing'}")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(CommandError, match="it is no text"):
        url_in(f"@{tmp_path / 'binary'}")


@pytest.mark.parametrize(("text", "problem"), [("{", "is not JSON"), ("[]", "is not a JSON object")])
def test_json_that_is_no_object(text: str, problem: str) -> None:
    with pytest.raises(CommandError, match=f"the definition {problem}"):
        json_object(text, "the definition")

"""The lines of exported messages, there and back."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.errors import CommandError
from ops.relay import export_file
from ops.relay.delivery import Delivery
from ops.relay.export_file import PERSISTENT, deliveries_in, line_of, lines_in
from penstock.amqp.properties import PROPERTIES_AT, encode_properties
from penstock.amqp.values import ByteArray, Float32, Timestamp


def browsed(body: bytes, properties: bytes, exchange: str = "", routing_key: str = "q") -> dict[str, object]:
    header = base64.b64encode(bytes(PROPERTIES_AT) + properties).decode()
    return {
        "exchange": exchange, "routing_key": routing_key, "header": header,
        "body": base64.b64encode(body).decode(), "size": len(body),
    }  # fmt: skip


def read(file: Path, skip: int = 0) -> list[Delivery]:
    return list(deliveries_in(file, skip))


@given(st.binary())
def test_every_body_comes_back(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    file = tmp_path_factory.mktemp("bodies") / "f"
    file.write_bytes(line_of(browsed(body, b"\x00\x00")))
    (found,) = read(file)
    assert found.body == body


def test_properties_come_back_with_their_types(tmp_path: Path) -> None:
    headers = {"f": Float32(0.5), "x": ByteArray(b"\xff"), "t": Timestamp(7), "n": None, "l": [1, 2**40]}
    properties = encode_properties({"headers": headers, "content_type": "text/plain"})
    file = tmp_path / "f"
    file.write_bytes(line_of(browsed(b"b", properties, "events", "k")))
    (found,) = read(file)
    assert (found.exchange, found.routing_key, found.properties, found.body) == ("events", "k", properties, b"b")
    assert json.loads(file.read_bytes())["properties"]["content_type"] == "text/plain"


def test_a_line_needs_no_more_than_a_body(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text('{"body": "ü"}\n{"body": "/w==", "body_encoding": "base64"}\n{"body": ""}')
    assert [(each.body, each.properties) for each in read(file)] == [
        ("ü".encode(), PERSISTENT), (b"\xff", PERSISTENT), (b"", PERSISTENT),
    ]  # fmt: skip
    assert lines_in(file) == 3 and [each.body for each in read(file, 2)] == [b""]


@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[]", "7", "{}", '{"body": 7}', '{"body": "x", "body_encoding": "base64"}',
        '{"body": "x", "body_encoding": "latin-1"}', '{"body": "x", "encoded_properties": "?"}',
        '{"body": "x", "routing_key": 7}', json.dumps({"body": "x", "routing_key": "k" * 256}),
    ],
)  # fmt: skip
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "f"
    file.write_text(f'{{"body": "x"}}\n{line}\n')
    with pytest.raises(CommandError, match=r"f, line 2: not an exported message$"):
        read(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for reading in (lines_in, read):
        with pytest.raises(CommandError, match="No such file"):
            reading(tmp_path / "none")


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_file, "LINE_BYTES", 100)
    file = tmp_path / "messages.jsonl"
    file.write_text('{"body": "1"}\n' + "x" * 1000)
    with pytest.raises(CommandError, match="line 2: longer than 100 bytes"):
        lines_in(file)
    deliveries = deliveries_in(file, 0)
    assert next(deliveries).body == b"1"
    with pytest.raises(CommandError, match="line 2: longer than 100 bytes"):
        next(deliveries)

"""The tables of the specification, compared with another library's."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pika.spec
import pytest

from penstock.amqp.spec import (
    BY_NAME,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_MIN_SIZE,
    HARD_CODES,
    METHODS,
    PROTOCOL_HEADER,
    REPLY_NAMES,
    SOFT_CODES,
    MethodSpec,
)

THEIRS: dict[tuple[int, int], Any] = {(index >> 16, index & 0xFFFF): each for index, each in pika.spec.methods.items()}


def test_methods_are_those_that_others_know() -> None:
    """1.4 onwards, and the extensions."""
    assert METHODS.keys() == THEIRS.keys()


@pytest.mark.parametrize("spec", METHODS.values(), ids=lambda spec: spec.amqp_name)
def test_names_and_fields_are_those_that_others_know(spec: MethodSpec) -> None:
    peer = THEIRS[spec.class_id, spec.method_id]
    assert spec.amqp_name == re.sub(r"(?<=[a-z])([A-Z])", r"-\1", peer.__qualname__).lower()
    fields = [name for name, _ in spec.fields if not name.startswith("reserved")]
    theirs = [name.replace("global_qos", "global_") for name in inspect.signature(peer.__init__).parameters][1:]
    without_meaning = {"capabilities", "insist", "known_hosts", "out_of_band", "channel_id", "cluster_id"}
    assert fields == [name for name in theirs if name not in without_meaning]


def test_names_in_both_spellings() -> None:
    assert BY_NAME["queue_declare"].amqp_name == "queue.declare"
    assert BY_NAME["basic_recover_async"].amqp_name == "basic.recover-async"
    assert BY_NAME["connection_update_secret_ok"].amqp_name == "connection.update-secret-ok"


def test_a_method_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        BY_NAME["queue_declare"].class_id = 1  # type: ignore[misc]


def test_a_ticket_means_something_only_where_it_is_handed_out() -> None:
    assert "ticket" in BY_NAME["queue_declare"].ignored
    assert "ticket" not in BY_NAME["access_request_ok"].ignored


def test_frame_constants() -> None:
    """2.3.5 and 4.2.3."""
    assert (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT) == (1, 2, 3, 8)
    assert (FRAME_END, FRAME_MIN_SIZE, PROTOCOL_HEADER) == (206, 4096, b"AMQP\x00\x00\x09\x01")


def test_every_error_is_either_soft_or_hard() -> None:
    """1.2."""
    assert REPLY_NAMES.keys() - {200} == SOFT_CODES | HARD_CODES
    assert not SOFT_CODES & HARD_CODES
    assert sorted(SOFT_CODES) == [311, 312, 313, 403, 404, 405, 406]


@pytest.mark.parametrize(("code", "name"), REPLY_NAMES.items())
def test_reply_codes_are_those_that_others_know(code: int, name: str) -> None:
    assert getattr(pika.spec, name, code) == code

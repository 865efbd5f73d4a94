"""ZMTP without I/O, compiled and plain: for any bytes, cut anywhere."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import load_compiled, load_plain

NAME = "penstock.bus.zmtp_cy"
COMPILED = load_compiled(NAME)
PLAIN = load_plain(NAME)
FRAME_MAX, GREETING, LARGE, SCRATCH_BYTES = (
    COMPILED.FRAME_MAX,
    COMPILED.GREETING,
    COMPILED.LARGE,
    COMPILED.SCRATCH_BYTES,
)
ready = COMPILED.ready

Messages = list[list[bytes]]

FRAMES = st.one_of(
    st.binary(max_size=300),
    st.integers(LARGE - 2, LARGE + 2).map(lambda size: b"l" * size),
    st.just(b"x" * (SCRATCH_BYTES + LARGE)),
)


def message(frames: list[Any]) -> list[Any]:
    """Return the buffers of a message, which both modules make alike."""
    buffers: list[Any] = COMPILED.message(frames)
    assert buffers == PLAIN.message(frames)
    return buffers


def receiver(module: ModuleType = COMPILED) -> Any:
    return module.Receiver(bytearray(SCRATCH_BYTES + LARGE + module.HEAD_MAX))


def feed(receiver: Any, data: bytes, most: int = SCRATCH_BYTES) -> Messages:
    """Return the messages received if each read has at most `most` bytes."""
    messages: Messages = []
    at = 0
    while at < len(data):
        room = receiver.room()
        count = min(most, len(room), len(data) - at)
        room[:count] = data[at : at + count]
        at += count
        messages += [[bytes(frame) for frame in frames] for frames in receiver.received(count)]
        receiver.room()[: 1 << 10] = bytes(min(1 << 10, len(receiver.room())))  # receivers share the scratch
    return messages


def test_the_greeting_is_that_of_version_3() -> None:
    assert len(GREETING) == 64
    assert GREETING[:12] == b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0"
    assert GREETING[12:32].rstrip(b"\0") == b"NULL"


@given(st.lists(st.lists(FRAMES, min_size=1, max_size=4), max_size=4), st.sampled_from((1, 7, 9999, SCRATCH_BYTES)))
def test_messages_come_whole_however_they_are_cut(messages: Messages, most: int) -> None:
    data = GREETING + ready("DEALER", b"acceptor.0.1") + b"".join(b"".join(message(list(m))) for m in messages)
    if most < 1000:
        data = data[:3000]  # this many reads take long
        messages = whole_in(data, messages)
    for module in COMPILED, PLAIN:
        taken = receiver(module)
        assert feed(taken, data, most) == messages
        assert taken.peer == b"acceptor.0.1"


def whole_in(data: bytes, messages: Messages) -> Messages:
    """Return the messages that are whole in the data."""
    left = len(data) - len(GREETING + ready("DEALER", b"acceptor.0.1"))
    whole = []
    for frames in messages:
        left -= sum(len(buffer) for buffer in message(list(frames)))
        if left < 0:
            break
        whole.append(frames)
    return whole


def test_the_frames_of_a_message_are_not_copied() -> None:
    part = bytearray(b"part")
    assert message([b"head", part])[3] is part


def test_a_peer_without_an_identity() -> None:
    taken = receiver()
    assert taken.peer is None
    feed(taken, GREETING + ready("ROUTER"))
    assert taken.peer == b""


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"GET / HTTP/1.1\r\n".ljust(64), "does not speak ZMTP"),
        (GREETING[:10] + b"\x01" + GREETING[11:], "version 1"),
        (GREETING[:12] + b"PLAIN".ljust(20, b"\0") + GREETING[32:], "PLAIN"),
        (GREETING + b"\0\4turn", "before the handshake"),
        (GREETING + b"\x04\x0f\x05ERROR\x08too many", "too many"),
        (GREETING + b"\x04\x0a\x05READY\x0bSock", "cut off"),
        (GREETING + b"\x02" + (FRAME_MAX + 1).to_bytes(8, "big"), "a frame of"),
        (GREETING + b"\x06" + LARGE.to_bytes(8, "big"), "a command of"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, problem: str) -> None:
    for module in COMPILED, PLAIN:
        with pytest.raises(module.ZmtpError, match=problem):
            feed(receiver(module), data)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_end_in_messages_or_an_error(data: bytes, greeted: bool) -> None:
    said = []
    for module in COMPILED, PLAIN:
        taken = receiver(module)
        try:
            said.append((feed(taken, (GREETING + ready("DEALER", b"x") if greeted else b"") + data, 3), None))
        except module.ZmtpError as error:
            said.append(([], str(error)))
        else:
            assert taken.peer == (b"x" if greeted else None)
    assert said[0] == said[1]


def test_more_bytes_than_there_was_room_for() -> None:
    for module in COMPILED, PLAIN:
        for count in -1, SCRATCH_BYTES + LARGE + module.HEAD_MAX + 1:
            with pytest.raises(ValueError, match="than there was room for"):
                receiver(module).received(count)


def test_commands_of_later_versions_are_passed_over() -> None:
    taken = receiver()
    ping = b"\x04\x07\x04PING\0\0"
    assert feed(taken, GREETING + ready("DEALER") + ping + b"".join(message([b"turn"]))) == [[b"turn"]]
    assert ready("DEALER")[2:8] == b"\x05READY"

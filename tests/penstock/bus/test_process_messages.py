"""Messages about processes: read as they were written; any other frame is an error."""

from __future__ import annotations

import pytest

from penstock.bus import pack
from penstock.bus.process_messages import ProcessMessage

DIED = ProcessMessage("died", "shard", 3, 7, 4711)


def test_a_message_is_read_as_it_was_written() -> None:
    assert ProcessMessage.read(pack(DIED)) == DIED


@pytest.mark.parametrize("frame", [b"", b"\xc1", pack(7), pack([*DIED[:4]]), pack([*DIED, 1])])
def test_anything_else_is_an_error(frame: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        ProcessMessage.read(frame)

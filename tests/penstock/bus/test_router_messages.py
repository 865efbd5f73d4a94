"""Messages to and from the router are lists of their fields, in order."""

from __future__ import annotations

import pytest

from penstock.bus import pack, unpack
from penstock.bus.router_messages import Published, RouterReply, RouterRequest


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (RouterRequest(1, "queue_lookup", {"name": "q"}), [1, "queue_lookup", {"name": "q"}]),
        (RouterReply(1, 9, None, [404, "no queue"]), [1, 9, None, [404, "no queue"]]),
        (Published(9, None), [9, None]),
    ],
)
def test_a_message_is_a_list_of_its_fields(message: tuple[object, ...], fields: list[object]) -> None:
    assert unpack(pack(message)) == fields
    assert type(message)(*fields) == message

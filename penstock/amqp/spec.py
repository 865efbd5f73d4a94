"""AMQP 0-9-1 as data: frame types, reply codes, and every method with the extensions that RabbitMQ's clients use.

Sources: the specification's sections 1.2 (reply codes), 1.4 ff. (classes and methods) and 4.2 (wire format); the
extensions are exchange.bind, basic.nack, confirm.select, connection.blocked and connection.update-secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE

FRAME_OVERHEAD = 8
"""Bytes around a payload: type, channel, size, end. `frame_max` includes them."""

FRAME_MIN_SIZE = 4096
"""The smallest `frame_max` that may be negotiated."""

BASIC_CLASS = 60
"""The only class whose methods carry content."""


class ReplyCode(IntEnum):
    """Reply codes by name; `name` is the word that begins a reply text."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


REPLY_NAMES: dict[int, str] = {code.value: code.name for code in ReplyCode}

SOFT_CODES: frozenset[int] = frozenset({311, 312, 313, 403, 404, 405, 406})
"""Errors that close the channel."""

HARD_CODES: frozenset[int] = frozenset({320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541})
"""Errors that close the connection."""


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One method: its ids, its name in snake form and its fields as (name, domain) in wire order.

    Domains: octet, short, long, longlong (unsigned, 1, 2, 4, 8 bytes), bit, shortstr, longstr, table. Consecutive bits
    share bytes, lowest bit first (4.2.5.2).
    """

    class_id: int
    method_id: int
    name: str
    fields: tuple[tuple[str, str], ...]

    @property
    def amqp_name(self) -> str:
        """The name as the specification and reply texts write it: `queue.declare-ok`."""
        class_name, _, method_name = self.name.partition("_")
        return f"{class_name}.{method_name.replace('_', '-')}"

    @property
    def ignored(self) -> frozenset[str]:
        """Fields without meaning: read and dropped, written as zero. Only in access.request-ok has a ticket
        a meaning.
        """
        return frozenset() if self.name == "access_request_ok" else _WITHOUT_MEANING


_WITHOUT_MEANING = frozenset({"ticket", "reserved_1", "reserved_2"})

# One method a line: name, class id, method id, fields in wire order.
_TABLE = """
connection.start            10  10  version_major:octet version_minor:octet server_properties:table
                                    mechanisms:longstr locales:longstr
connection.start-ok         10  11  client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure           10  20  challenge:longstr
connection.secure-ok        10  21  response:longstr
connection.tune             10  30  channel_max:short frame_max:long heartbeat:short
connection.tune-ok          10  31  channel_max:short frame_max:long heartbeat:short
connection.open             10  40  virtual_host:shortstr reserved_1:shortstr reserved_2:bit
connection.open-ok          10  41  reserved_1:shortstr
connection.close            10  50  reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok         10  51
connection.blocked          10  60  reason:shortstr
connection.unblocked        10  61
connection.update-secret    10  70  new_secret:longstr reason:shortstr
connection.update-secret-ok 10  71

channel.open                20  10  reserved_1:shortstr
channel.open-ok             20  11  reserved_1:longstr
channel.flow                20  20  active:bit
channel.flow-ok             20  21  active:bit
channel.close               20  40  reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok            20  41

access.request              30  10  realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
access.request-ok           30  11  ticket:short

exchange.declare            40  10  ticket:short exchange:shortstr type:shortstr passive:bit durable:bit
                                    auto_delete:bit internal:bit nowait:bit arguments:table
exchange.declare-ok         40  11
exchange.delete             40  20  ticket:short exchange:shortstr if_unused:bit nowait:bit
exchange.delete-ok          40  21
exchange.bind               40  30  ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit
                                    arguments:table
exchange.bind-ok            40  31
exchange.unbind             40  40  ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit
                                    arguments:table
exchange.unbind-ok          40  51

queue.declare               50  10  ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit
                                    nowait:bit arguments:table
queue.declare-ok            50  11  queue:shortstr message_count:long consumer_count:long
queue.bind                  50  20  ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit
                                    arguments:table
queue.bind-ok               50  21
queue.purge                 50  30  ticket:short queue:shortstr nowait:bit
queue.purge-ok              50  31  message_count:long
queue.delete                50  40  ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
queue.delete-ok             50  41  message_count:long
queue.unbind                50  50  ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok             50  51

basic.qos                   60  10  prefetch_size:long prefetch_count:short global_:bit
basic.qos-ok                60  11
basic.consume               60  20  ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit
                                    exclusive:bit nowait:bit arguments:table
basic.consume-ok            60  21  consumer_tag:shortstr
basic.cancel                60  30  consumer_tag:shortstr nowait:bit
basic.cancel-ok             60  31  consumer_tag:shortstr
basic.publish               60  40  ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return                60  50  reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver               60  60  consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr
                                    routing_key:shortstr
basic.get                   60  70  ticket:short queue:shortstr no_ack:bit
basic.get-ok                60  71  delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
                                    message_count:long
basic.get-empty             60  72  reserved_1:shortstr
basic.ack                   60  80  delivery_tag:longlong multiple:bit
basic.reject                60  90  delivery_tag:longlong requeue:bit
basic.recover-async         60 100  requeue:bit
basic.recover               60 110  requeue:bit
basic.recover-ok            60 111
basic.nack                  60 120  delivery_tag:longlong multiple:bit requeue:bit

confirm.select              85  10  nowait:bit
confirm.select-ok           85  11

tx.select                   90  10
tx.select-ok                90  11
tx.commit                   90  20
tx.commit-ok                90  21
tx.rollback                 90  30
tx.rollback-ok              90  31
"""


def _specs() -> list[MethodSpec]:
    specs: list[MethodSpec] = []
    for line in _TABLE.splitlines():
        words = line.split()
        if words and ":" in words[0]:
            last = specs.pop()
            specs.append(MethodSpec(last.class_id, last.method_id, last.name, last.fields + _fields(words)))
        elif words:
            name = words[0].replace(".", "_").replace("-", "_")
            specs.append(MethodSpec(int(words[1]), int(words[2]), name, _fields(words[3:])))
    return specs


def _fields(words: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, domain) for name, _, domain in (word.partition(":") for word in words))


BY_NAME: dict[str, MethodSpec] = {spec.name: spec for spec in _specs()}
METHODS: dict[tuple[int, int], MethodSpec] = {(spec.class_id, spec.method_id): spec for spec in BY_NAME.values()}

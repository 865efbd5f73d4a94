"""The keys of a policy's definition: penstock's own, and those of other brokers that mean the same.

`spelled_out` translates a definition into penstock's keys. Other brokers' names are accepted for limits, marks and
overflow; a definition that sets the same key under two names is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from penstock.amqp.values import type_name
from penstock.text.amounts import AmountError, percentage, size
from router.model.delaying import DELAY_QUEUE

EXCHANGE: Literal["exchange"] = "exchange"
VHOST, NODE, USER, ROUTING_KEY = "vhost", "node", "user", "routing_key"
APPLY_TO: dict[str, frozenset[str]] = {
    "all": frozenset({EXCHANGE, "classic", "quorum", "stream"}),
    "queues": frozenset({"classic", "quorum", "stream"}),
    "classic_queues": frozenset({"classic"}),
    "quorum_queues": frozenset({"quorum"}),
    "streams": frozenset({"stream"}),
    "delay_queues": frozenset({DELAY_QUEUE}),
    "exchanges": frozenset({EXCHANGE}),
    "routing_keys": frozenset({ROUTING_KEY}),
    "users": frozenset({USER}),
    "vhosts": frozenset({VHOST}),
    "node": frozenset({NODE}),
}
"""The values of apply-to: exchanges and types of queue, as in RabbitMQ; delay queues, which a policy has to mean
expressly; and whatever publishes may have in common.
"""

RABBITMQ_APPLY_TO = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")
OF_THE_NODE = ("vhosts", "node")
"""Policies that apply to these belong to no vhost."""

_QUEUES = APPLY_TO["queues"]
_HOLDING = _QUEUES | APPLY_TO["delay_queues"]
_SHARED = frozenset({EXCHANGE, ROUTING_KEY, USER, VHOST, NODE})
_ALSO = frozenset({ROUTING_KEY, USER})


class Key(NamedTuple):
    """A key of definitions.

    `argument` is the equivalent argument of a declaration ("": merged into no queue), `governs` the sorts (`APPLY_TO`)
    that the key affects. Where `smaller`, the smallest of several values counts: of numbers, sizes and percentages, not
    of durations. `operator`: allowed in operator policies. An `inherited` key may also be set for the queues of an
    exchange, a vhost or the node. A key `from_rabbitmq` is accepted without effect where RabbitMQ accepts it.
    """

    argument: str
    governs: frozenset[str]
    smaller: bool = False
    operator: bool = False
    inherited: bool = False
    from_rabbitmq: bool = True


def _limit(argument: str, governs: frozenset[str] = _QUEUES, inherited: bool = False) -> Key:
    return Key(argument, governs, smaller=True, operator=True, inherited=inherited)


LIMITS: dict[str, str] = {
    "length": "x-max-length",
    "length-bytes": "x-max-length-bytes",
    "stop-count": "x-flow-stop-count",
    "resume-count": "x-flow-resume-count",
    "stop-size": "x-flow-stop-size",
    "resume-size": "x-flow-resume-size",
}
RATES: dict[str, str] = {
    "max-rate": "x-max-rate",
    "max-rate-bytes": "x-max-rate-bytes",
    "rate-burst": "x-rate-burst",
}
"""Messages and bytes a second, and for how long an unused rate may be saved up for a burst."""
WEIGHT = "weight"
"""The fair share weight of a user: its number of shares of the room in a full queue."""
FAIR_BY = ("connection", "channel", "user", "key")
"""The units among which the room in a full queue is shared: connection, channel, user, routing key."""
FLOW_SHARE = "flow-share"
"""The percentage of a publish's queues that must lag before they hold its producer; 0: any one of them."""
OVERTAKING, BY_DESTINATION = "overtaking", "destination"
"""The key, and its one value, by which a user's publishes for free queues overtake those parked on the channel."""
LAST_RESORT, LAST_RESORTS = "last-resort", ("close", "pause", "nack")
"""The treatment of a user's connections once no more of their publishes can be parked."""
GUARANTEE = "guarantee"
"""The percentage of all queues' contents that a vhost may have before it is stopped ahead of others."""
SHARED = ("sum", "deepest")
"""How the depths of several queues become one: their sum, or the deepest."""

KEYS: dict[str, Key] = {
    "message-ttl": _limit("x-message-ttl"),
    "expires": _limit("x-expires"),
    "max-length": _limit("x-max-length", _HOLDING, inherited=True),
    "max-length-bytes": _limit("x-max-length-bytes", _HOLDING, inherited=True),
    "delivery-limit": _limit("x-delivery-limit", APPLY_TO["quorum_queues"]),
    "consumer-timeout": _limit("x-consumer-timeout"),
    "flow-stop-count": _limit("qpid.flow_stop_count", _HOLDING, inherited=True),
    "flow-resume-count": _limit("qpid.flow_resume_count", _HOLDING, inherited=True),
    "flow-stop-size": _limit("qpid.flow_stop_size", _HOLDING, inherited=True),
    "flow-resume-size": _limit("qpid.flow_resume_size", _HOLDING, inherited=True),
    "flow": Key("x-flow", _HOLDING, operator=True, inherited=True),
    "overflow": Key("x-overflow", _HOLDING, operator=True, inherited=True),
    "deadlock": Key("x-deadlock", _QUEUES, operator=True),
    "essential": Key("x-essential", _QUEUES, operator=True, inherited=True),
    "tx-when-full": Key("x-tx-when-full", _QUEUES, operator=True),
    "throttle": Key("x-throttle", _HOLDING | _ALSO, operator=True, inherited=True),
    "hold": Key("x-hold", _HOLDING | _ALSO, operator=True, inherited=True),
    "dead-letter-exchange": Key("x-dead-letter-exchange", _QUEUES),
    "dead-letter-routing-key": Key("x-dead-letter-routing-key", _QUEUES),
    "alternate-exchange": Key("alternate-exchange", APPLY_TO["exchanges"]),
    **{
        f"{shared}-{name}": Key(argument, _SHARED, from_rabbitmq=False)
        for shared in SHARED
        for name, argument in LIMITS.items()
    },
    **{
        key: Key(argument, _SHARED | _QUEUES, smaller=key != "rate-burst", from_rabbitmq=False)
        for key, argument in RATES.items()
    },
    OVERTAKING: Key("", APPLY_TO["users"], from_rabbitmq=False),
    LAST_RESORT: Key("", APPLY_TO["users"], from_rabbitmq=False),
    WEIGHT: Key("", APPLY_TO["users"], from_rabbitmq=False),
    "pace-depth": Key("x-pace-depth", _QUEUES, smaller=True, from_rabbitmq=False),
    "pace-wait": Key("x-pace-wait", _QUEUES, from_rabbitmq=False),
    "lane-priority": Key("x-lane-priority", _QUEUES, from_rabbitmq=False),
    "lane-key": Key("x-lane-key", _QUEUES, from_rabbitmq=False),
    "lane-reserve": Key("x-lane-reserve", _QUEUES, from_rabbitmq=False),
    "fair-by": Key("x-fair-by", _QUEUES, from_rabbitmq=False),
    FLOW_SHARE: Key("", APPLY_TO["exchanges"], from_rabbitmq=False),
    GUARANTEE: Key("", APPLY_TO["vhosts"], from_rabbitmq=False),
    "routing-key": Key("", APPLY_TO["routing_keys"], from_rabbitmq=False),
}
"""The keys that have an effect."""

IGNORED = (
    *("dead-letter-strategy", "queue-mode", "queue-version", "queue-master-locator", "queue-leader-locator"),
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure"),
    *("initial-cluster-size", "max-age", "stream-max-segment-size-bytes", "max-in-memory-length"),
    *("max-in-memory-bytes", "federation-upstream", "federation-upstream-set"),
)
"""RabbitMQ's keys about replicas, other nodes, memory or streams: accepted, without effect."""


class KeyProblem(ValueError):
    """An invalid key or value; the text says why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


# Names of other brokers

Meaning: TypeAlias = Callable[[Any], dict[str, Any]]
"""Translates a value into penstock's keys. ValueError for a value without a meaning."""


def _same(key: str) -> Meaning:
    return lambda value: {key: value}


def _threshold(*keys: str) -> Meaning:
    """A whole number of percent, for each of the keys."""

    def meaning(value: Any) -> dict[str, Any]:
        number = value if isinstance(value, str) else f"{value} %"
        if isinstance(value, bool) or percentage(number) is None:
            raise ValueError(f"{value!r} is not a percentage")
        return dict.fromkeys(keys, number)

    return meaning


def _one_of(meanings: Mapping[Any, dict[str, Any]]) -> Meaning:
    def meaning(value: Any) -> dict[str, Any]:
        found = next((said for word, said in meanings.items() if type(word) is type(value) and word == value), None)
        if found is None:
            raise ValueError(f"{value!r} is not one of {', '.join(str(word).lower() for word in meanings)}")
        return found

    return meaning


_switch = _one_of({True: {"flow": "on"}, False: {"flow": "off"}})
_ring = {"overflow": "ring"}

FOREIGN: dict[str, Meaning] = {
    # Qpid Java
    "capacity": _same("flow-stop-size"),
    "x-qpid-capacity": _same("flow-stop-size"),
    "flowResumeCapacity": _same("flow-resume-size"),
    "x-qpid-flow-resume-capacity": _same("flow-resume-size"),
    "maximumQueueDepthMessages": _same("max-length"),
    "maximumQueueDepthBytes": _same("max-length-bytes"),
    "queue.queueFlowResumeLimit": _threshold("flow-resume-count", "flow-resume-size"),
    "overflowPolicy": _one_of(
        {
            "NONE": {"flow": "off"},
            "RING": _ring,
            "PRODUCER_FLOW_CONTROL": {"overflow": "flow"},
            "FLOW_TO_DISK": {"overflow": "spill"},
            "REJECT": {"overflow": "reject-publish"},
        }
    ),
    # Qpid C++
    "qpid.max_count": _same("max-length"),
    "qpid.max_size": _same("max-length-bytes"),
    "default-queue-limit": _same("max-length-bytes"),
    "qpid.flow_stop_count": _same("flow-stop-count"),
    "qpid.flow_resume_count": _same("flow-resume-count"),
    "qpid.flow_stop_size": _same("flow-stop-size"),
    "qpid.flow_resume_size": _same("flow-resume-size"),
    "flow_stop_threshold": _threshold("flow-stop-count", "flow-stop-size"),
    "default-flow-stop-threshold": _threshold("flow-stop-count", "flow-stop-size"),
    "flow_resume_threshold": _threshold("flow-resume-count", "flow-resume-size"),
    "default-flow-resume-threshold": _threshold("flow-resume-count", "flow-resume-size"),
    "qpid.policy_type": _one_of(
        {
            "reject": {"overflow": "reject-publish"},
            "ring": _ring,
            "ring_strict": {"overflow": "ring-strict"},
            "flow_to_disk": {"overflow": "spill"},
        }
    ),
    # ActiveMQ
    "memoryLimit": _same("max-length-bytes"),
    "cursorMemoryHighWaterMark": _threshold("flow-stop-size"),
    "producerFlowControl": _switch,
    "sendFailIfNoSpace": _one_of({True: {"overflow": "reject-publish"}, False: {"overflow": "flow"}}),
    "sendFailIfNoSpaceAfterTimeout": lambda value: {"hold": f"park {value} ms, reject"},
    "pendingMessageLimitStrategy": lambda value: {"max-length": value, **_ring},
}
"""Other brokers' keys, each with its translation."""

_FLOWS = frozenset({"memoryLimit", "qpid.max_count", "qpid.max_size", "default-queue-limit",
                    "maximumQueueDepthMessages", "maximumQueueDepthBytes"})  # fmt: skip
"""Limits at which those brokers hold producers unless configured otherwise."""

NAMES = (*KEYS, *IGNORED, *FOREIGN)


def spelled_out(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition in penstock's keys, with sizes as numbers. KeyProblem if it is invalid."""
    ours: dict[str, Any] = {}
    set_by: dict[str, str] = {}
    for name, value in definition.items():
        for key, meant in _meaning(name, value).items():
            if key in set_by:
                raise KeyProblem(name, f"'{set_by[key]}' sets that already")
            set_by[key] = name
            ours[key] = _in_bytes(name, key, meant)
    if "overflow" not in ours and not _FLOWS.isdisjoint(definition):
        ours["overflow"] = "flow"
    return ours


def written_names(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return penstock's keys that a valid definition sets, each with the name that sets it there."""
    return {key: name for name, value in definition.items() for key in _meaning(name, value)}


def _meaning(name: str, value: Any) -> dict[str, Any]:
    if name not in FOREIGN:
        return {name: value}
    try:
        return FOREIGN[name](value)
    except ValueError as problem:
        raise KeyProblem(name, str(problem)) from None


def _in_bytes(name: str, key: str, value: Any) -> Any:
    if not key.endswith(("length-bytes", "rate-bytes")) or type_name(value) != "longstr":
        return value
    try:
        return size(value)
    except AmountError as problem:
        raise KeyProblem(name, str(problem)) from None

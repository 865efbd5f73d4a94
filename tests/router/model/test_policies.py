"""Policies by themselves: what is accepted, which one governs, what they make of a declaration's arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.watermarks import FlowDefaults
from router.authority.policy_checks import PolicyError, check
from router.model.policies import combined, effective, governing
from router.model.policy_keys import APPLY_TO, IGNORED, KEYS, OF_THE_NODE, spelled_out
from router.model.records import Policy


def policy(name: str = "p", pattern: str = ".*", apply_to: str = "all", priority: int = 0, operator: bool = False,
           **definition: Any) -> Policy:  # fmt: skip
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy("/", operator, name, pattern, apply_to, priority, spelled or {"max-length": 5})


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 0, "expires": 1, "max-length": 0, "max-length-bytes": 2**62, "overflow": "reject-publish"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "k", "alternate-exchange": "x"},
        {"dead-letter-routing-key": "the exchange is the queue's to name"},
        {"delivery-limit": 3, "consumer-timeout": 60000, "tx-when-full": "wait"},
        {"flow-stop-count": 10, "flow-resume-count": 5, "flow-stop-size": 10, "flow-resume-size": 0},
        {"flow-resume-count": 5},
        {"flow-resume-count": "90 %"},
        {"max-length-bytes": "10 MB", "flow-stop-size": "8 MB", "flow-resume-size": "50 %", "overflow": "flow"},
        {"flow-stop-count": "50 %", "flow-resume-count": "30 %", "flow-resume-size": "20 %"},
        {"flow-stop-count": 5, "flow-resume-count": "30 %"},
        {"flow": "off"},
        {"throttle": "auto", "hold": "forever"},
        *(
            {"apply_to": what, "throttle": "blocked, park", "hold": "park 5 s, reject"}
            for what in ("queues", "exchanges", "users", "routing_keys")
        ),
        {"operator": True, "throttle": "park", "hold": "reject"},
        {"apply_to": "exchanges", "sum-length": 5, "deepest-length-bytes": "1 MiB", "deepest-stop-size": "50 %"},
        {"apply_to": "routing_keys", "routing-key": "wildcard:PRICES.>", "sum-stop-count": 9, "sum-resume-count": 9},
        {"apply_to": "users", "deepest-stop-count": 9},
        {"max-length": 10, "overflow": "flow", "flow-stop-count": 10},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "queue-mode": "lazy"},
        {"ha-mode": "nodes", "ha-params": ["a@b", "c@d"], "federation-upstream-set": "all", "max-age": "7D"},
    ],
    ids=str,
)
def test_accepted(definition: dict[str, Any]) -> None:
    check(policy(**definition))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max-lenght": 5}, "there is no key 'max-lenght'; did you mean 'max-length'?"),
        ({"zzz": 5}, "there is no key 'zzz'"),
        ({"capacty": 5}, "there is no key 'capacty'; did you mean 'capacity'?"),
        ({"memoryLimit": "64 mb"},
         "key 'memoryLimit': the unit of '64 mb' can be mistaken: write 64 MB (1000^2) or MiB (1024^2)"),
        ({"throttle": "blockd, park"},
         "key 'throttle': 'blockd' is not a means to hold a producer; did you mean 'blocked'?"),
        ({"throttle": 5}, "key 'throttle': {unacceptable_type,signedint}"),
        ({"hold": "park 5 s, rejct"}, "key 'hold': 'rejct' is not a rung; did you mean 'reject'?"),
        ({"sendFailIfNoSpaceAfterTimeout": "x"},
         "key 'sendFailIfNoSpaceAfterTimeout': 'x ms' is not a time: give a number and one of ms, s, m, min, h, d"),
        ({"producerFlowControl": "yes"}, "key 'producerFlowControl': 'yes' is not one of true, false"),
        ({"capacity": 5, "flow-stop-size": 6}, "key 'flow-stop-size': 'capacity' sets that already"),
        ({"capacity": 5, "flowResumeCapacity": 6},
         "key 'flowResumeCapacity': resume mark 6 is above the stop mark 5 (capacity)"),
        ({"flow-stop-size": "50 %", "queue.queueFlowResumeLimit": 60},
         "key 'queue.queueFlowResumeLimit': resume mark 60 is above the stop mark 50 (flow-stop-size)"),
        ({"memoryLimit": 5, "flow-stop-size": 6},
         "key 'flow-stop-size': stop mark 6 is above the limit 5 (memoryLimit)"),
        ({"max-length": 100, "overflow": "flow", "flow-resume-count": 90},
         "key 'flow-resume-count': resume mark 90 is above the stop mark 80 (80 % of max-length 100)"),
        ({"maximumQueueDepthBytes": -5}, "key 'maximumQueueDepthBytes': {value_negative,-5}"),
        ({"overflowPolicy": "RING", "capacity": 5},
         "key 'capacity': a mark needs overflow (overflowPolicy) 'flow', not 'ring'"),
        ({"producerFlowControl": False, "capacity": 5},
         "key 'capacity': a mark needs flow (producerFlowControl) 'on'"),
        ({"flow": "off", "flow-stop-count": 5}, "key 'flow-stop-count': a mark needs flow 'on'"),
        ({"flow-stop-count": "50 %", "flow-resume-count": "60 %"},
         "key 'flow-resume-count': resume mark 60 is above the stop mark 50 (flow-stop-count)"),
        ({"flow": "of"}, "key 'flow': invalid_flow"),
        ({"apply_to": "exchanges", "sum-length": 5, "sum-stop-count": 6},
         "key 'sum-stop-count': stop mark 6 is above the limit 5 (sum-length)"),
        ({"apply_to": "users", "deepest-stop-size": 5, "deepest-resume-size": 6},
         "key 'deepest-resume-size': resume mark 6 is above the stop mark 5 (deepest-stop-size)"),
        ({"apply_to": "users", "memoryLimit": 6}, "key 'memoryLimit' does not apply to users"),
        ({"operator": True, "overflowPolicy": "RING", "lane-key": "a"}, "key 'lane-key' is not for operator policies"),
        ({"lane-reserve": 0}, "key 'lane-reserve': {value_zero,0}"),
        ({"pace-wait": "2 h"}, "key 'pace-wait': '2 h' is not between 1 ms and 1 h"),
        ({"apply_to": "queues", "sum-length": 5}, "key 'sum-length' does not apply to queues"),
        ({"apply_to": "users", "max-length": 5}, "key 'max-length' does not apply to users"),
        ({"apply_to": "routing_keys", "routing-key": "("},
         "key 'routing-key': '(' is not a regular expression: missing ): ("),
        ({"apply_to": "vhosts"}, "a policy that applies to vhosts belongs to the node, not to a vhost"),
        (
            {"max-priority": 5},
            "there is no key 'max-priority'; it is an argument of queue declarations, x-max-priority",
        ),
        ({"max-length": "5"}, "key 'max-length': expected integer, got longstr"),
        ({"max-length": -1}, "key 'max-length': {value_negative,-1}"),
        ({"max-length": 2**70}, "key 'max-length': {value_too_large,1180591620717411303424}"),
        ({"message-ttl": True}, "key 'message-ttl': expected integer, got bool"),
        ({"message-ttl": 10**12}, "key 'message-ttl': {value_too_large,1000000000000}"),
        ({"expires": 0}, "key 'expires': {value_zero,0}"),
        ({"overflow": "burst"}, "key 'overflow': invalid_overflow"),
        ({"tx-when-full": "refuse"}, "key 'tx-when-full': invalid_tx_when_full"),
        ({"dead-letter-exchange": 5}, "key 'dead-letter-exchange': {unacceptable_type,signedint}"),
        ({"alternate-exchange": ["x"]}, "key 'alternate-exchange': expected longstr, got array"),
        ({"ha-params": {"a": 1}}, "key 'ha-params': expected text, a number, true, false or a list of them"),
        ({"ha-params": 2**64}, "key 'ha-params': a number of more than 64 bits"),
        ({"ha-mode": "a" * 5000}, "key 'ha-mode': longer than 4096 characters"),
        (
            {"max-length": 5, "flow-stop-count": 6},
            "key 'flow-stop-count': stop mark 6 is above the limit 5 (max-length)",
        ),
        (
            {"flow-stop-count": 6, "overflow": "drop-head"},
            "key 'flow-stop-count': a mark needs overflow 'flow', not 'drop-head'",
        ),
        (
            {"flow-stop-size": 5, "flow-resume-size": 6},
            "key 'flow-resume-size': resume mark 6 is above the stop mark 5 (flow-stop-size)",
        ),
        ({"operator": True, "dead-letter-exchange": "x"}, "key 'dead-letter-exchange' is not for operator policies"),
        ({"operator": True, "ha-mode": "all"}, "key 'ha-mode' is not for operator policies"),
        ({"pattern": "("}, "'(' is not a regular expression: missing ): ("),
        ({"apply_to": "topics"}, f"apply-to 'topics' is not one of {', '.join(APPLY_TO)}"),
        ({"priority": 2**31}, "priority 2147483648 is not between -2147483647 and 2147483647"),
        ({"priority": True}, "priority True is not between -2147483647 and 2147483647"),
    ],
)  # fmt: skip
def test_refused(fields: dict[str, Any], reason: str) -> None:
    wrong = policy(**fields)
    with pytest.raises(PolicyError) as refused:
        check(wrong)
    assert str(refused.value) == f"invalid {wrong}: {reason}"


@pytest.mark.parametrize("apart", ["", "sum-"])
def test_marks_are_compared_with_those_that_the_node_gives(apart: str) -> None:
    """A policy that names one mark has the other from the settings of its node."""
    limit, overflow = ("sum-length", {}) if apart else ("max-length", {"overflow": "flow"})
    resume, stop = ("sum-resume-count", "sum-stop-count") if apart else ("flow-resume-count", "flow-stop-count")
    sort = "users" if apart else "all"
    high = Policy("/", False, "p", ".*", sort, 0, {limit: 100, resume: 90, **overflow})
    low = Policy("/", False, "p", ".*", sort, 0, {limit: 100, resume: 60, **overflow})
    check(high, FlowDefaults(stop_percent=95))
    with pytest.raises(PolicyError, match=r"resume mark 90 is above the stop mark 80 \(80 % of"):
        check(high, FlowDefaults())
    check(low, FlowDefaults())
    with pytest.raises(PolicyError, match=r"resume mark 60 is above the stop mark 50 \(50 % of"):
        check(low, FlowDefaults(stop_percent=50, resume_percent=40))
    only_stop = Policy("/", False, "p", ".*", sort, 0, {stop: 5, **overflow})
    check(only_stop, FlowDefaults(max_count=3, max_bytes=3))  # a limit of its own takes the place of the node's


@pytest.mark.parametrize(
    ("definition", "ours"),
    [
        ({"capacity": "1 MiB", "flowResumeCapacity": 5}, {"flow-stop-size": "1 MiB", "flow-resume-size": 5}),
        ({"maximumQueueDepthMessages": 5}, {"max-length": 5, "overflow": "flow"}),
        ({"maximumQueueDepthBytes": 5, "overflowPolicy": "RING"}, {"max-length-bytes": 5, "overflow": "ring"}),
        ({"qpid.max_size": "1 KiB", "qpid.policy_type": "reject"},
         {"max-length-bytes": 1024, "overflow": "reject-publish"}),
        ({"default-flow-stop-threshold": 60}, {"flow-stop-count": "60 %", "flow-stop-size": "60 %"}),
        ({"flow_resume_threshold": "40 %"}, {"flow-resume-count": "40 %", "flow-resume-size": "40 %"}),
        ({"memoryLimit": "64 MiB"}, {"max-length-bytes": 64 * 1024**2, "overflow": "flow"}),
        ({"memoryLimit": 9, "producerFlowControl": False}, {"max-length-bytes": 9, "flow": "off", "overflow": "flow"}),
        ({"memoryLimit": 9, "sendFailIfNoSpace": True}, {"max-length-bytes": 9, "overflow": "reject-publish"}),
        ({"sendFailIfNoSpaceAfterTimeout": 3000}, {"hold": "park 3000 ms, reject"}),
        ({"pendingMessageLimitStrategy": 50}, {"max-length": 50, "overflow": "ring"}),
        ({"max-length-bytes": "2 KB"}, {"max-length-bytes": 2000}),
    ],
    ids=str,
)  # fmt: skip
def test_names_of_other_brokers(definition: dict[str, Any], ours: dict[str, Any]) -> None:
    check(Policy("/", False, "p", ".*", "all", 0, definition))
    assert spelled_out(definition) == ours


@pytest.mark.parametrize("value", [101, "x", True, [], None])
def test_thresholds_are_percentages(value: Any) -> None:
    with pytest.raises(PolicyError, match="invalid policy 'p' in vhost '/': key 'flow_stop_threshold': "):
        check(Policy("/", False, "p", ".*", "all", 0, {"flow_stop_threshold": value}))


@pytest.mark.parametrize("apply_to", OF_THE_NODE)
def test_policies_of_the_node(apply_to: str) -> None:
    given = {
        "max-length": 5,
        "flow": "on",
        "throttle": "park",
        "hold": "reject",
        "sum-length": 9,
        "qpid.max_size": "1 MB",
    }
    check(Policy("", False, "p", ".*", apply_to, 0, given))
    with pytest.raises(PolicyError, match="invalid policy 'p' of the node: key 'message-ttl' does not apply to"):
        check(Policy("", False, "p", ".*", apply_to, 0, {"message-ttl": 5}))
    with pytest.raises(PolicyError, match="a policy that applies to queues belongs to a vhost"):
        check(Policy("", False, "p", ".*", "queues", 0, given))


def test_an_empty_definition_is_refused() -> None:
    with pytest.raises(PolicyError, match="its definition is empty"):
        check(Policy("/", False, "p", ".*", "all", 0, {}))


@pytest.mark.parametrize("key", IGNORED)
def test_what_has_no_effect_is_let_pass(key: str) -> None:
    check(policy(**{key: "anything"}))
    assert effective({"x-max-length": 1}, "classic", policy(**{key: "anything"}), None) == {"x-max-length": 1}


@pytest.mark.parametrize(
    ("apply_to", "sorts"),
    [
        ("all", {"exchange", "classic", "quorum"}), ("queues", {"classic", "quorum"}), ("exchanges", {"exchange"}),
        ("classic_queues", {"classic"}), ("quorum_queues", {"quorum"}), ("streams", set()),
    ],
)  # fmt: skip
def test_applies_to(apply_to: str, sorts: set[str]) -> None:
    found = {sort for sort in ("exchange", "classic", "quorum") if governing([policy(apply_to=apply_to)], sort, "n")}
    assert found == sorts


def test_the_highest_priority_governs_and_of_equals_the_first_by_name() -> None:
    policies = [
        policy("b", priority=1),
        policy("c", "^x", priority=9),
        policy("a", priority=1),
        policy("d", priority=-1),
    ]
    for name, expected in (("x", "c"), ("y", "a")):
        found = governing(policies, "classic", name)
        assert found and found.name == expected
    assert governing(policies[1:2], "classic", "y") is None


def merged(arguments: dict[str, Any], sort: str = "classic", operator: dict[str, Any] | None = None,
           **definition: Any) -> dict[str, Any]:  # fmt: skip
    bounds = policy(operator=True, **operator) if operator else None
    return effective(arguments, sort, policy(**definition) if definition else None, bounds)


def test_of_numbers_the_smallest_counts() -> None:
    assert merged({"x-max-length": 5}, max_length=9) == {"x-max-length": 5}
    assert merged({"x-max-length": 5}, max_length=2, expires=7) == {"x-max-length": 2, "x-expires": 7}
    assert merged({"x-message-ttl": 5}, message_ttl=0) == {"x-message-ttl": 0}
    assert merged({}, message_ttl=9, operator={"message-ttl": 3, "expires": 1}) == {"x-message-ttl": 3, "x-expires": 1}
    assert merged({"x-expires": 1}, operator={"expires": 3}) == {"x-expires": 1}
    assert merged({"qpid.flow_stop_count": "20"}, flow_stop_count=9) == {"qpid.flow_stop_count": 9}
    assert merged({"qpid.flow_stop_size": "1 MB"}, flow_stop_size="1 KiB") == {"qpid.flow_stop_size": "1 KiB"}
    assert merged({"qpid.flow_stop_count": "9 %"}, flow_stop_count="5 %") == {"qpid.flow_stop_count": "5 %"}
    assert merged({"qpid.flow_stop_count": "9 %"}, flow_stop_count=5) == {"qpid.flow_stop_count": "9 %"}


def test_numbers_that_are_no_limit() -> None:
    assert merged({"x-delivery-limit": -1}, "quorum", delivery_limit=3) == {"x-delivery-limit": 3}
    assert merged({"qpid.flow_stop_count": 0}, flow_stop_count=9) == {"qpid.flow_stop_count": 9}
    assert merged({"qpid.flow_resume_count": 0}, flow_resume_count=9) == {"qpid.flow_resume_count": 0}


def test_of_all_else_the_argument_counts_before_the_operator_before_the_policy() -> None:
    assert merged({"x-overflow": "drop-head"}, overflow="flow") == {"x-overflow": "drop-head"}
    assert merged({}, overflow="flow") == {"x-overflow": "flow"}
    assert merged({}, overflow="flow", operator={"overflow": "reject-publish"}) == {"x-overflow": "reject-publish"}
    said = {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"}
    assert merged({"x-dead-letter-exchange": "a"}, dead_letter_exchange="b", dead_letter_routing_key="k") == said


def test_keys_that_are_for_others_are_left_out() -> None:
    assert merged({}, delivery_limit=3, alternate_exchange="x", max_length=1) == {"x-max-length": 1}
    assert merged({}, "quorum", delivery_limit=3) == {"x-delivery-limit": 3}
    assert merged({}, "exchange", max_length=1, alternate_exchange="x") == {"alternate-exchange": "x"}


numbers = {key: st.integers(0, 9) for key, meaning in KEYS.items() if meaning.smaller}


@given(st.fixed_dictionaries({}, optional=numbers), st.fixed_dictionaries({}, optional=numbers))
def test_an_operator_s_policy_only_ever_lowers(ours: dict[str, int], theirs: dict[str, int]) -> None:
    both = combined(policy(**ours) if ours else None, policy(operator=True, **theirs) if theirs else None)
    assert both.keys() == ours.keys() | theirs.keys()
    for key, value in both.items():
        given = [definition[key] for definition in (ours, theirs) if key in definition]
        unlimited = key.startswith("flow-stop") and any(given)
        assert value == min(number for number in given if number or not unlimited)

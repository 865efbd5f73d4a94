"""Accepted policies, and the texts of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.watermarks import OVERFLOWS, FlowDefaults
from router.authority.policy_checks import PolicyError, check
from router.model.policy_keys import APPLY_TO, IGNORED, OF_THE_NODE
from router.model.records import Policy
from tests.router.making import policy


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
        ({"throttle": 5}, "key 'throttle': expected text, got a whole number"),
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
        ({"maximumQueueDepthBytes": -5}, "key 'maximumQueueDepthBytes': -5 is negative"),
        ({"overflowPolicy": "RING", "capacity": 5},
         "key 'capacity': a mark needs overflow (overflowPolicy) 'flow', not 'ring'"),
        ({"producerFlowControl": False, "capacity": 5},
         "key 'capacity': a mark needs flow (producerFlowControl) 'on'"),
        ({"flow": "off", "flow-stop-count": 5}, "key 'flow-stop-count': a mark needs flow 'on'"),
        ({"flow-stop-count": "50 %", "flow-resume-count": "60 %"},
         "key 'flow-resume-count': resume mark 60 is above the stop mark 50 (flow-stop-count)"),
        ({"flow": "of"}, "key 'flow': expected one of on, off"),
        ({"apply_to": "exchanges", "sum-length": 5, "sum-stop-count": 6},
         "key 'sum-stop-count': stop mark 6 is above the limit 5 (sum-length)"),
        ({"apply_to": "users", "deepest-stop-size": 5, "deepest-resume-size": 6},
         "key 'deepest-resume-size': resume mark 6 is above the stop mark 5 (deepest-stop-size)"),
        ({"apply_to": "users", "memoryLimit": 6}, "key 'memoryLimit' does not apply to users"),
        ({"operator": True, "overflowPolicy": "RING", "lane-key": "a"}, "key 'lane-key' is not for operator policies"),
        ({"lane-reserve": 0}, "key 'lane-reserve': 0 is too small"),
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
        ({"max-length": "5"}, "key 'max-length': expected a whole number, got text"),
        ({"max-length": -1}, "key 'max-length': -1 is negative"),
        ({"max-length": 2**70}, "key 'max-length': 1180591620717411303424 is too large"),
        ({"message-ttl": True}, "key 'message-ttl': expected a whole number, got true or false"),
        ({"message-ttl": 10**12}, "key 'message-ttl': 1000000000000 is too large"),
        ({"expires": 0}, "key 'expires': 0 is too small"),
        ({"overflow": "burst"}, f"key 'overflow': expected one of {', '.join(OVERFLOWS)}"),
        ({"tx-when-full": "refuse"}, "key 'tx-when-full': expected one of wait, reject"),
        ({"dead-letter-exchange": 5}, "key 'dead-letter-exchange': expected text, got a whole number"),
        ({"alternate-exchange": ["x"]}, "key 'alternate-exchange': expected text, got a list"),
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
    """A policy that names one mark gets the other from the settings of its node."""
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
    check(only_stop, FlowDefaults(max_count=3, max_bytes=3))  # a limit of its own replaces the node's


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
def test_keys_without_effect_are_let_pass(key: str) -> None:
    check(policy(**{key: "anything"}))

"""The keys of policy definitions: penstock's own, and their names in other brokers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.authority.policy_checks import check
from router.authority.queue_arguments import problem
from router.model.policy_keys import (
    APPLY_TO,
    FOREIGN,
    IGNORED,
    KEYS,
    LIMITS,
    NAMES,
    SHARED,
    KeyProblem,
    spelled_out,
    written_names,
)
from router.model.records import Policy

OWN = st.dictionaries(st.sampled_from(sorted({*KEYS, *IGNORED})), st.integers(0, 9), max_size=6)


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


def test_each_key_has_one_meaning() -> None:
    assert len(NAMES) == len(set(NAMES))
    sorts = frozenset[str]().union(*APPLY_TO.values())
    for name, key in KEYS.items():
        assert key.governs and key.governs <= sorts, name


def test_the_values_of_keys_for_queues_are_checked_as_those_of_arguments() -> None:
    for name, key in KEYS.items():
        if key.governs & APPLY_TO["queues"]:
            assert problem(key.argument, {}) is not None, name
    assert {f"{shared}-{name}" for shared in SHARED for name in LIMITS} <= KEYS.keys()


@given(OWN)
def test_penstocks_own_keys_are_left_as_they_are(definition: dict[str, int]) -> None:
    assert spelled_out(definition) == definition
    assert written_names(definition) == {key: key for key in definition}


def test_the_name_that_sets_a_key_is_known() -> None:
    definition = {"flow_stop_threshold": 60, "max-length": 5, "overflowPolicy": "RING"}
    assert written_names(definition) == {
        "flow-stop-count": "flow_stop_threshold",
        "flow-stop-size": "flow_stop_threshold",
        "max-length": "max-length",
        "overflow": "overflowPolicy",
    }


@pytest.mark.parametrize(
    ("definition", "key", "reason"),
    [
        ({"capacity": 5, "flow-stop-size": 6}, "flow-stop-size", "'capacity' sets that already"),
        ({"flow-stop-size": 6, "capacity": 5}, "capacity", "'flow-stop-size' sets that already"),
        ({"flow_stop_threshold": 101}, "flow_stop_threshold", "'101 %' is not between 0 % and 100 %"),
        ({"flow_stop_threshold": True}, "flow_stop_threshold", "True is not a percentage"),
        ({"producerFlowControl": 1}, "producerFlowControl", "1 is not one of true, false"),
        ({"qpid.policy_type": "RING"}, "qpid.policy_type",
         "'RING' is not one of reject, ring, ring_strict, flow_to_disk"),
        ({"max-rate-bytes": "5 mb"}, "max-rate-bytes",
         "the unit of '5 mb' can be mistaken: write 5 MB (1000^2) or MiB (1024^2)"),
    ],
    ids=str,
)  # fmt: skip
def test_definitions_without_a_meaning_are_refused(definition: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(KeyProblem) as refused:
        spelled_out(definition)
    assert (refused.value.key, str(refused.value)) == (key, reason)


def test_a_limit_of_a_broker_that_holds_producers_holds_them_here() -> None:
    held = {name for name in FOREIGN if name != "pendingMessageLimitStrategy" and _overflow(name) == "flow"}
    assert held == {
        *("memoryLimit", "qpid.max_count", "qpid.max_size", "default-queue-limit"),
        *("maximumQueueDepthMessages", "maximumQueueDepthBytes"),
    }
    assert spelled_out({"max-length": 5}) == {"max-length": 5}


def _overflow(name: str) -> Any:
    try:
        return spelled_out({name: 5}).get("overflow")
    except KeyProblem:
        return None

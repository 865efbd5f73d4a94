"""The output of flow commands."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def set_policy(asked: Asked, name: str, apply_to: str = "queues", vhost: str = "/", operator: bool = False,
               **definition: Any) -> None:  # fmt: skip
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    asked.command("policy_set", vhost=vhost, operator=operator, name=name, pattern=".*", apply_to=apply_to,
                  priority=0, definition=spelled)  # fmt: skip


def settings(asked: Asked, name: str = "q") -> dict[str, tuple[Any, str]]:
    reported = asked.command("flow_explain", vhost="/", name=name)
    return {each["setting"]: (each["value"], each["source"]) for each in reported["settings"]}


DECLARED = {"x-max-length": 100, "x-flow-resume-count": "30 %", "x-throttle": "blocked, park"}


def test_a_queue_without_anything(asked: Asked) -> None:
    asked.done("queue_declare", name="q", durable=True)
    assert settings(asked) == {
        "flow": ("on", "the default"),
        "overflow": ("flow", "the default"),
        **dict.fromkeys(("max-length", "flow-stop-count", "flow-resume-count"), (None, "")),
        **dict.fromkeys(("max-length-bytes", "flow-stop-size", "flow-resume-size"), (None, "")),
        "throttle": ("auto", "the default"),
        "hold": ("forever", "the default"),
        "stops-producers": ("yes", "durable and named"),
    }


def test_declaration_and_policies(asked: Asked) -> None:
    asked.done("queue_declare", name="q", arguments=DECLARED)
    set_policy(asked, "ours", overflow="flow", throttle="auto", flow_stop_count=90, max_length_bytes="1 MiB")
    set_policy(asked, "bound", operator=True, flow_stop_count=60)
    set_policy(asked, "base", "node", vhost="", flow_stop_size="50 %", max_length=5, hold="park 1 s, reject")
    found = settings(asked)
    assert found == {
        "flow": ("on", "the default"),
        "overflow": ("flow", "policy 'ours': overflow"),
        "max-length": (100, "declaration: x-max-length"),
        "flow-stop-count": (60, "operator policy 'bound': flow-stop-count"),
        "flow-resume-count": (30, "declaration: x-flow-resume-count"),
        "max-length-bytes": (1 << 20, "policy 'ours': max-length-bytes"),
        "flow-stop-size": (1 << 19, "policy 'base' of the node: flow-stop-size"),
        "flow-resume-size": (1 << 19, "the node's resume_percent"),
        "throttle": ("blocked, park", "declaration: x-throttle"),
        "hold": ("park 1 s, reject", "policy 'base' of the node: hold"),
        "stops-producers": ("yes", "it has limits of its own"),
    }


def test_settings_that_are_told_where_they_are_said(asked: Asked) -> None:
    declared = {"x-pace-depth": 50, "x-lane-key": "^control", "x-max-rate": 9}
    asked.done("queue_declare", name="q", durable=True, arguments=declared)
    set_policy(asked, "ours", max_rate=5, fair_by="user", pace_depth=100)
    found = settings(asked)
    assert {setting: found[setting] for setting in ("pace-depth", "lane-key", "max-rate", "fair-by")} == {
        "pace-depth": (50, "declaration: x-pace-depth"),
        "lane-key": ("^control", "declaration: x-lane-key"),
        "max-rate": (5, "policy 'ours': max-rate"),
        "fair-by": ("user", "policy 'ours': fair-by"),
    }
    assert "pace-wait" not in found


def test_inherited(asked: Asked) -> None:
    asked.done("exchange_declare", name="x")
    asked.done("queue_declare", name="q")
    asked.done("queue_bind", queue="q", source="x")
    set_policy(asked, "vhosts", "vhosts", vhost="", max_length=50, flow="off")
    assert settings(asked)["flow"] == ("off", "policy 'vhosts' of vhost '/': flow")
    set_policy(asked, "of x", "exchanges", max_length=70, flow="on")
    found = settings(asked)
    assert found["flow"] == ("on", "policy 'of x' of exchange 'x': flow")
    assert found["max-length"] == (70, "policy 'of x' of exchange 'x': max-length")
    assert found["flow-stop-count"] == (56, "the node's stop_percent")


def test_shared_limits(asked: Asked) -> None:
    asked.done("exchange_declare", name="x")
    for name in ("q", "other"):
        asked.done("queue_declare", name=name)
    asked.done("queue_bind", queue="q", source="x", key="k.a")
    set_policy(asked, "sum", "exchanges", sum_length=100)
    set_policy(asked, "keys", "routing_keys", routing_key="wildcard:k.>", deepest_stop_size="1 KiB")
    set_policy(asked, "others", "routing_keys", routing_key="^z", deepest_stop_size="1 KiB")
    set_policy(asked, "all", "node", vhost="", sum_stop_count=1000, sum_resume_count=10)
    reported = asked.command("flow_explain", vhost="/", name="q")["shared"]
    slots = [asked.topology.queue("/", name).slot for name in ("q", "other")]  # type: ignore[union-attr]
    assert [(each["limit"], each["how"], each["policy"], each["slots"]) for each in reported] == [
        ("exchange 'x' in vhost '/'", "sum", "sum", slots[:1]),
        ("routing keys wildcard:k.> of exchange 'x' in vhost '/'", "deepest", "keys", slots[:1]),
        ("the node", "sum", "all", slots),
    ]
    assert [(reported[0][f"{mark}_count"], reported[2][f"{mark}_count"]) for mark in ("stop", "resume")] == [
        (80, 1000),
        (70, 10),
    ]


def test_there_is_no_such_queue(asked: Asked) -> None:
    with pytest.raises(Refusal, match="there is no queue 'q' in vhost '/'"):
        asked.command("flow_explain", vhost="/", name="q")

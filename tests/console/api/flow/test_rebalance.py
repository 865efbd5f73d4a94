"""Plans over HTTP: made, applied and aborted, on a real node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.api.flow.rebalance import PLAN_ID
from tests.console.http.node import BASIC, Answer, HttpBroker, connected
from tests.console.planned import declare
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

READER = ("reader", "reader")
PATH = "/api/rebalance"
UNKNOWN = "20260101-000000-00000000"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    """A node whose queues are on both shards, started with a variable that no command takes for granted."""
    environment = {"PENSTOCK_REBALANCE__LOOP_LAG_MS": "0"}
    with HttpBroker(tmp_path_factory.mktemp("own"), shards=2, environment=environment) as node:
        assert node.penstock("user", "add", "reader", "--tag", "monitoring", given="reader\n").returncode == 0
        declare(node, messages=1)
        yield node


def post(node: HttpBroker, action: str, content: Any = None, **how: Any) -> Answer:
    return node.request("POST", f"{PATH}/{action}", content, **how)


def made(node: HttpBroker, shard: int) -> dict[str, Any]:
    """Return a plan that empties a shard."""
    found = post(node, "plan", {"window": 1, "leave": [shard]})
    assert found.status == 200, found.body
    plan: dict[str, Any] = found.json
    return plan


def shards(node: HttpBroker) -> dict[str, int]:
    return {each["name"]: each["shard"] for each in node.call("placement", vhost="/")["queues"]}


def wait_ended(node: HttpBroker, plan: str) -> dict[str, Any]:
    """Return the outcome of a plan that was applied."""

    def ended() -> dict[str, Any] | None:
        last: dict[str, Any] | None = node.get(PATH).json["last"]
        return last if last is not None and last["plan"] == plan else None

    return wait_for(ended, 2 * PATIENCE, f"the end of plan {plan}")


def audited(node: HttpBroker) -> list[tuple[str, str, str]]:
    written = [
        json.loads(line)
        for path in Path(node.directory / "data" / "audit").glob("console.*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return [(each["command"], each["who"]["http_user"], each["outcome"]) for each in written]


def test_a_plan_is_made_and_applied(own: HttpBroker) -> None:
    plan = made(own, 0)
    here = {name for name, shard in shards(own).items() if shard == 0}
    assert here and re.match(PLAN_ID, plan["id"])
    assert {each["queue"] for each in plan["moves"]} == here
    assert {(each["from"], each["to"]) for each in plan["moves"]} == {(0, 1)}
    assert (plan["before"]["queues"]["shards"]["0"], plan["after"]["queues"]["shards"]["0"]) == (len(here), 0)
    begun = post(own, "apply", {"plan": plan["id"]})
    assert (begun.status, begun.json["plan"], begun.json["user"]) == (202, plan["id"], "guest")
    last = wait_ended(own, plan["id"])
    assert (last["state"], last["moved"], last["moves"], last["user"]) == ("applied", len(here), len(here), "guest")
    assert set(shards(own).values()) == {1}
    after = own.get(PATH, user=READER).json
    assert (after["lease"], after["applying"], after["planning"], after["moves"]) == (None, None, None, [])
    records = audited(own)
    assert ("rebalance_plan", "guest", "done") in records and ("rebalance_apply", "guest", "done") in records


def test_the_lease_is_shown_and_the_plan_aborted(own: HttpBroker) -> None:
    assert post(own, "abort").status == 404
    plan = made(own, min(shards(own).values()))
    assert post(own, "apply", {"plan": plan["id"]}).status == 202
    wait_ended(own, plan["id"])
    back = made(own, min(shards(own).values()))
    hold = {"plan": back["id"], "holder": "an operator", "seconds": 600, "limits": {"moves": 1}}
    own.call("rebalance_hold", **hold, progress={"moves": 9, "done": 2, "waits_for": "the rate limits"})
    lease = own.get(PATH, user=READER).json["lease"]
    assert (lease["plan"], lease["holder"], lease["abort"]) == (back["id"], "an operator", False)
    assert lease["progress"] == {"moves": 9, "done": 2, "waits_for": "the rate limits"}
    assert post(own, "apply", {"plan": back["id"]}).status == 202
    refused = wait_ended(own, back["id"])
    assert (refused["state"], "is being applied by an operator" in refused["reason"]) == ("refused", True)
    assert post(own, "abort", {"plan": UNKNOWN}).status == 404
    assert post(own, "abort", {"plan": back["id"]}).json["abort"] is True
    assert own.get(PATH).json["lease"]["abort"] is True
    assert own.call("rebalance_release", plan=back["id"], holder="an operator")
    assert ("rebalance_abort", "guest", "done") in audited(own)


@pytest.mark.parametrize(
    ("action", "content", "status", "reason"),
    [
        ("plan", {"window": 1, "leave": [99]}, 400, "there is no shard 99"),
        ("plan", {"window": 0}, 400, "window: "),
        ("plan", {"window": 301}, 400, "window: "),
        ("plan", {"window": 1, "moves_max": 0}, 400, "moves_max: "),
        ("plan", {"window": 1, "leave": [-1]}, 400, "leave.0: "),
        ("plan", {"window": 1, "pin": ["*"]}, 400, "pin: "),
        ("apply", {"plan": "/etc/passwd"}, 400, "plan: "),
        ("apply", {"plan": f"../{UNKNOWN}"}, 400, "plan: "),
        ("apply", {"plan": f"{UNKNOWN}\n"}, 400, "plan: "),
        ("apply", {}, 400, "plan: "),
        ("plan", {"window": 1, "leave": [10**30]}, 400, "leave.0: "),
        ("abort", {"plan": 7}, 400, "plan: "),
        ("abort", {"plan": "x" * 201}, 400, "plan: "),
    ],
)
def test_odd_requests_are_refused(own: HttpBroker, action: str, content: Any, status: int, reason: str) -> None:
    refused = post(own, action, content)
    assert refused.status == status and refused.json["reason"].startswith(reason), refused.body


def test_a_plan_that_does_not_exist_is_not_applied(own: HttpBroker) -> None:
    assert post(own, "apply", {"plan": UNKNOWN}).status == 202
    last = wait_ended(own, UNKNOWN)
    assert last["state"] == "refused" and last["reason"].startswith(f"there is no plan '{UNKNOWN}'")


@pytest.mark.parametrize("action", ["plan", "apply", "abort"])
def test_it_takes_an_administrator(own: HttpBroker, action: str) -> None:
    content = {"plan": UNKNOWN} if action == "apply" else {"window": 1} if action == "plan" else None
    assert post(own, action, content, user=READER).status == 401


def test_the_children_of_a_console_end_with_it(tmp_path: Path) -> None:
    content = b'{"window": 300}'
    head = b"POST %s/plan HTTP/1.1\r\nhost: x\r\n%scontent-length: %d\r\n\r\n" % (PATH.encode(), BASIC, len(content))
    with HttpBroker(tmp_path, shards=2) as node:
        (console,) = node.children("console")
        with connected(node) as client:
            client.sendall(head + content)
            (child,) = wait_for(lambda: psutil.Process(console).children())
            wait_for(lambda: child.cmdline()[-2:] == ["--window", "300 s"])
            planning = node.get(PATH).json["planning"]
            assert (planning["user"], planning["window"]) == ("guest", 300)
            assert post(node, "plan", {"window": 1}).status == 409
    assert not child.is_running()


def test_a_plan_goes_on_after_the_death_of_the_console(tmp_path: Path) -> None:
    with HttpBroker(tmp_path, "rebalance.messages_per_second=1", shards=2) as node:
        declare(node, messages=2)
        plan = made(node, 0)
        assert post(node, "apply", {"plan": plan["id"]}).status == 202
        wait_for(lambda: (node.call("rebalance_lease") or {"progress": {"done": 0}})["progress"]["done"])
        pid = node.kill("console")
        wait_for(lambda: node.call("rebalance_lease") is None, what="the end of the command")
        node.wait_replaced("console", pid)
        (ended,) = json.loads(node.penstock("rebalance", "history", "--json").stdout)
        assert (ended["state"], ended["reason"]) == ("stopped", "interrupted")
        assert 0 < ended["moved"] < ended["moves"]
        assert node.get(PATH).json["last"] is None
        done = node.penstock("rebalance", "apply", plan["id"], "--messages-per-second", "0")
        assert done.returncode == 0, done.stderr
        assert set(shards(node).values()) == {1}

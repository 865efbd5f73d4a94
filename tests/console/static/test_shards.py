"""A plan of moves in the console: made, looked at, applied and aborted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.console.http.node import BASIC, HttpBroker, connected
from tests.console.planned import declare
from tests.console.static.console import Console

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PANEL = "[aria-label=Rebalance]"
PROGRESS = f"{PANEL} [aria-label=Progress]"
WIDE = 1280
TABLE = "[aria-label='Shards before and after']"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HttpBroker]:
    """A node whose shard 1 is to be emptied, slowly."""
    with HttpBroker(tmp_path, "rebalance.messages_per_second=1", shards=2) as node:
        declare(node, messages=10)
        node.call("shard_drain", shard=1)
        assert node.penstock("user", "add", "reader", "--tag", "monitoring", given="reader\n").returncode == 0
        yield node


def opened(chromium: Browser, node: HttpBroker, user: str) -> Console:
    console = Console(chromium, f"http://{node.http().host}:{node.http().port}")
    console.log_in(user, user)
    console.wait_for_text("live", ".age")
    console.go("shards")
    console.wait_for_text("No queue is being moved", PANEL)
    return console


def test_a_plan_is_made_applied_and_aborted(chromium: Browser, node: HttpBroker) -> None:
    console = opened(chromium, node, "guest")
    console.wait_for_text("draining", "[aria-label='Shard 1']")
    console.click_button("Make a plan", PANEL)
    console.wait("document.querySelector('dialog[open] input[name=window]')")
    console.page.click("dialog[open] input[name=window]")
    console.click_button("Watch", "dialog[open]")
    console.wait_for_text("→ 0", f"{TABLE} tbody tr:last-child")
    console.wait_for_text("planned.", "[aria-label='Planned moves']")
    for width in (360, WIDE):  # a toast covers half of a phone
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        console.page.call("Emulation.setDeviceMetricsOverride", **size)
        console.wait(f"document.documentElement.scrollWidth === {width}")
    console.click_button("Apply", "main")
    console.click_button("Make ", "dialog[open]")
    console.wait_for_text("By guest, as ", PROGRESS)
    console.click_button("Abort", PROGRESS)
    console.wait("document.querySelector('dialog[open] .danger')")
    console.click_button("Abort", "dialog[open]")
    console.wait_for_text("aborted", f"{PANEL} .badge")
    assert console.page.evaluate(f"document.querySelectorAll({json.dumps(TABLE)}).length") == 0
    console.check_clean()
    watching = opened(chromium, node, "reader")
    watching.wait_for_text("aborted", f"{PANEL} .badge")
    assert watching.page.evaluate(f"document.querySelector('{PANEL} button').title") == "needs tag administrator"
    watching.page.click(f"{PANEL} button")
    assert watching.page.evaluate("document.querySelectorAll('dialog').length") == 0
    watching.check_clean()


def test_a_plan_that_somebody_makes_is_named_and_moves_nothing_under_the_cursor(
    chromium: Browser, node: HttpBroker
) -> None:
    console = opened(chromium, node, "guest")
    place = f"document.querySelector('{PANEL} .empty').getBoundingClientRect().top"
    before = console.page.evaluate(place)
    content = b'{"window": 300}'
    head = b"POST /api/rebalance/plan HTTP/1.1\r\nhost: x\r\n%scontent-length: %d\r\n\r\n" % (BASIC, len(content))
    with connected(node) as planning:
        planning.sendall(head + content)
        console.wait_for_text("guest makes a plan from the load of 300 s", PANEL)
        assert console.page.evaluate(place) == before

"""All pages of the console: hostile names are text, nothing is wider than a phone, nothing keeps anybody out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.clients import amqplib
from tests.console.static.conftest import HOSTILE, Scene
from tests.console.static.console import PAGES, Console

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PLACES = (*PAGES, "queue/%2F/orders", "connections?kind=channels", "flow?view=graph", "flow?view=list")
VIOLATIONS = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(
    it => `${it.id}: ${it.nodes.map(node => node.html.slice(0, 200)).join(' ')}`))"""


def test_hostile_names_are_text(console: Console) -> None:
    for place in ("queues", "overview"):
        console.go(place)
        console.wait_for_text(HOSTILE[0], "main")
        console.wait_for_text("evil\\u202etxt.exe", "main")
        assert console.page.evaluate("document.images.length + document.querySelectorAll('main script').length") == 0
    for name in HOSTILE:
        console.go("queues")
        console.wait_for_text("a/b?c#d%2e", "main")
        shown = json.dumps(name.replace("\u202e", "\\u202e"))
        console.page.evaluate(f"[...document.querySelectorAll('main a')].find(it => it.innerText === {shown}).click()")
        console.wait(f"document.querySelector('main h1')?.innerText === {shown}")
        console.wait_for_text("no marks", "[aria-label=Now]")
    console.check_clean()


@pytest.mark.parametrize("place", PLACES)
def test_a_phone_never_scrolls_sideways(phone: Console, place: str) -> None:
    phone.go(place)
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 360
    phone.check_clean()


def test_a_row_stays_under_the_pointer_while_the_order_changes(console: Console, scene: Scene) -> None:
    console.go("queues?sort=messages&reverse=yes")
    console.wait_for_text("orders", ".grid-row[data-row='0']")
    console.page.evaluate("document.querySelector('.grid-row[data-row=\"1\"] a').focus()")
    before = console.page.evaluate("document.activeElement.innerText")
    for _ in range(2000):
        scene.channel.basic_publish("", HOSTILE[3], b"")
    console.wait_for_text("The order has changed", ".grid-foot")
    assert console.page.evaluate("document.activeElement.innerText") == before
    console.press(".")
    console.wait_for_text(HOSTILE[3], ".grid-row[data-row='0']")
    scene.channel.queue_purge(HOSTILE[3])


def test_what_the_node_does_not_answer_takes_nothing_else_with_it(console: Console) -> None:
    console.go("queue/%2F/nowhere")
    console.wait_for_text("Not Found", "[aria-label=Now]")
    console.wait_for_text("0 channels", "[aria-label='Held by this queue']")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_objects_to_nothing(chromium: Browser, scene: Scene, dark: bool) -> None:
    environment = amqplib.environment(Path(__file__).parent / "axe")
    axe = Path(environment["NODE_PATH"], "axe-core/axe.min.js").read_text()
    console = Console(chromium, scene.url, dark=dark)
    console.page.call("Page.setBypassCSP", enabled=True)
    console.log_in()
    console.wait_for_text("held", ".pill")
    console.page.evaluate(f"{axe}; 0")
    found = {}
    for place in PLACES:
        console.go(place)
        found[place] = console.page.evaluate(VIOLATIONS)
    assert not {place: problems for place, problems in found.items() if problems}

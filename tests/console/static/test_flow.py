"""Held producers in the console, and stops by hand."""

from __future__ import annotations

import pytest

from penstock.control.passwords import hashed
from tests.browser import Browser
from tests.console.static.conftest import PRODUCERS, Scene
from tests.console.static.console import Console

pytestmark = [pytest.mark.broker, pytest.mark.slow]

ROWS = "document.querySelectorAll('[aria-label=\"Held channels\"] tbody tr').length"
REASON = "the shelves are moved <b>"


def test_held_producers_are_seen_with_their_cause(console: Console) -> None:
    console.wait_for_text(f"{PRODUCERS} channels held", ".headline")
    console.wait_for_text("of 800 messages", ".headline")
    console.page.click(".headline")
    console.wait_for_text("Flow", "main h1")
    console.wait(f"{ROWS} === {PRODUCERS}")
    console.wait_for_text("Pika Python Client Library", "[aria-label='Held channels']")
    console.wait_for_text("orders", "[aria-label='Held channels']")
    console.check_clean()


def test_the_page_of_a_queue_says_whom_it_holds(console: Console) -> None:
    console.go("queue/%2F/orders")
    console.wait_for_text("held", "main .badge")
    console.wait(f"{ROWS} === {PRODUCERS}")
    console.wait_for_text("resumes at 700, stops at 800", "[aria-label=Now]")
    console.check_clean()


def test_producers_are_stopped_and_started_by_keyboard(console: Console) -> None:
    console.go("flow")
    console.wait("document.querySelector('button.by-hand')")
    console.page.evaluate("document.querySelector('button.by-hand').focus()")
    console.press("s")
    console.wait("document.querySelector('dialog[open] input[name=exchange]')")
    console.write("input[name=exchange]", "shop")
    console.write("input[name=reason]", REASON)
    console.wait_for_text("Dry run:", "dialog .outcome")
    console.press("Enter")
    console.wait_for_text(REASON, "[aria-label='Stops by hand']")
    console.wait_for_text("1 stop", ".pill")
    assert console.page.evaluate("document.activeElement.className") == "by-hand"
    console.page.evaluate("document.querySelector('button.start').focus()")
    console.press("Enter")
    console.wait("document.querySelector('dialog[open] .primary')")
    console.page.evaluate("document.querySelector('dialog[open] .primary').focus()")
    console.press("Enter")
    console.wait_for_text("Nobody has been stopped by hand", "[aria-label='Stops by hand']")
    console.wait_for_text(f"{PRODUCERS} held", ".pill")
    console.check_clean()


def test_who_only_watches_cannot_stop_anybody(chromium: Browser, scene: Scene) -> None:
    scene.broker.call("user_add", name="watch", password_hash=hashed("watch"), tags=["monitoring"])
    console = Console(chromium, scene.url)
    console.log_in("watch", "watch")
    console.wait_for_text(f"{PRODUCERS} held", ".pill")
    console.go("flow")
    console.wait("document.querySelector('button.by-hand[aria-disabled=true]')")
    assert console.page.evaluate("document.querySelector('button.by-hand').title") == "needs tag administrator"
    console.page.click("button.by-hand")
    console.press("s")
    console.go("queues")
    assert console.page.evaluate("document.querySelectorAll('dialog').length") == 0
    console.check_clean()


def test_keys_lead_to_pages_but_not_while_one_writes(console: Console) -> None:
    console.press("g")
    console.press("q")
    console.wait_for_text("Queues", "main h1")
    console.press("/")
    console.press("g")
    console.press("f")
    console.wait("document.querySelector('.find input').value === 'gf'")
    assert console.page.evaluate("document.querySelector('main h1').innerText") == "Queues"
    console.press("Escape")
    console.press("/")
    console.write(".find input", "orders")
    console.wait_for_text("1 of", ".grid-foot")
    console.press("Escape")
    console.press("j")
    console.wait("document.activeElement.closest('.grid-row')?.dataset.row === '0'")
    console.press("Enter")
    console.wait_for_text("orders", "main h1")
    console.press("?")
    console.wait("document.querySelector('dialog[open] kbd')")

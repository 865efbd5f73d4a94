"""Logging in to the console, and out."""

from __future__ import annotations

import pytest

from tests.browser import Browser
from tests.console.static.conftest import Scene
from tests.console.static.console import Console

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_wrong_password_is_refused_and_the_right_one_is_not(chromium: Browser, scene: Scene) -> None:
    console = Console(chromium, scene.url)
    console.log_in(password="wrong")
    console.wait_for_text("not accepted", "[role=alert]")
    console.write("input[name=password]", "guest")
    console.press("Enter")
    console.wait_for_text("Overview", "main h1")
    console.check_clean()


def test_who_logs_out_sees_the_form_and_the_cookie_is_worth_nothing(console: Console) -> None:
    console.page.click("button[aria-label='Log out']")
    console.wait("document.querySelector('.login form')")
    assert console.page.evaluate("fetch('/api/whoami').then(it => it.status)") == 401
    console.open("flow")
    console.wait("document.querySelector('.login form')")

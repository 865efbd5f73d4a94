"""The console while the node is away, and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import Broker
from tests.browser import Browser
from tests.console.static.console import Console
from tests.ports import free_port

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_an_open_page_says_how_old_it_is_and_comes_back(chromium: Browser, tmp_path: Path) -> None:
    port = free_port()
    with Broker(tmp_path, f"http.port={port}", "http.metrics_port=0") as broker:
        console = Console(chromium, f"http://127.0.0.1:{port}")
        console.log_in()
        console.wait_for_text("live", ".age")
        console.wait_for_text("Overview", "main h1")
        broker.stop()
        console.wait_for_text("old", ".age")
        console.wait_for_text("not reached", "main")
        broker.start()
        console.wait("document.querySelector('.login form')")
        console.write("input[name=username]", "guest")
        console.write("input[name=password]", "guest")
        console.press("Enter")
        console.wait_for_text("Overview", "main h1")
        console.check_clean()

"""The web console of a real node in a real browser, as a reader uses it."""

from __future__ import annotations

import json
from typing import Any

from tests.browser import Browser, Page
from tests.waiting import wait_for

PAGES = (
    "overview", "flow", "queues", "exchanges", "connections", "shards", "incidents", "policies", "users", "definitions",
    "pipeline",
)  # fmt: skip
WATCH = """
window.violations = []; window.failures = [];
document.addEventListener('securitypolicyviolation', it => violations.push(`${it.violatedDirective} ${it.blockedURI}`));
addEventListener('error', it => failures.push(String(it.message)));
addEventListener('unhandledrejection', it => failures.push(String(it.reason)));
"""
CODES = {"Enter": 13, "Escape": 27, "Tab": 9}


class Console:
    """A page of the console in a browser."""

    def __init__(self, chromium: Browser, url: str, *, width: int = 1280, dark: bool = False) -> None:
        self.url = url
        self.page: Page = chromium.open(f"{url}/icon.svg", width, dark=dark)
        self.page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.page.call("Network.enable")
        self.page.call("Network.clearBrowserCookies")

    def open(self, place: str = "") -> None:
        """Open the console anew at one of its pages."""
        self.page.call("Page.navigate", url=f"{self.url}/icon.svg")
        self.page.call("Page.navigate", url=f"{self.url}/#/{place}")
        self.wait("document.querySelector('main')")

    def go(self, place: str) -> None:
        """Go to a page as a link does, and wait for it."""
        self.page.evaluate(f"location.hash = {json.dumps('#/' + place)}")
        self.wait("document.querySelector('main h1') && !document.querySelector('main > .skeleton')")

    def log_in(self, name: str = "guest", password: str = "guest") -> None:
        """Log in with the form."""
        self.open()
        self.wait("document.querySelector('.login form')")
        self.write("input[name=username]", name)
        self.write("input[name=password]", password)
        self.page.click(".login button")

    def write(self, selector: str, text: str) -> None:
        """Write into a field."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.page.evaluate(f"{field}.focus(), {field}.select()")
        self.page.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = CODES.get(key, ord(key[0].upper()))
        self.page.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.page.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        return wait_for(lambda: self.page.evaluate(f"(() => {{ const it = {expression}; return it || null; }})() && 1"),
                        what=expression)  # fmt: skip

    def wait_for_text(self, text: str, selector: str = "#app") -> None:
        """Wait until an element has a text."""
        self.wait(f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})")

    def click_button(self, text: str, within: str = "#app") -> None:
        """Click the first button whose text, or name for those who do not see, begins with a text."""
        find = (
            f"[...document.querySelectorAll({json.dumps(within + ' button')})]"
            f".find(it => (it.getAttribute('aria-label') ?? it.innerText).startsWith({json.dumps(text)}))"
        )
        self.wait(find)
        self.page.click_element(find)

    def check_clean(self) -> None:
        """Check that the browser had nothing to object to, and that all files came from the node."""
        assert self.page.evaluate("window.violations") == []
        assert self.page.evaluate("window.failures") == []
        sources = self.page.evaluate("performance.getEntriesByType('resource').map(it => new URL(it.name).origin)")
        assert set(sources) == {self.url}

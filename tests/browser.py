"""A real Chromium without a window, driven over a pipe by the DevTools protocol: nothing has to be installed for it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

Facts = dict[str, Any]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TO_BROWSER, FROM_BROWSER = 3, 4
"""Descriptors at which a browser with --remote-debugging-pipe reads commands and writes answers."""
OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip
CHUNK = 1 << 20


class BrowserError(AssertionError):
    """The browser refused a command, or did not answer in time."""


def program() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser. Messages are JSON, each ended by a zero byte."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._unread = b""
        self._events: list[Facts] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Facts:
        """Send a command, and return its result. BrowserError if it is refused."""
        self._number += 1
        message: Facts = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: Facts = answer["result"]
        return result

    def wait(self, method: str, session: str) -> Facts:
        """Wait for an event of a page that has not been waited for."""
        while True:
            for event in self._events:
                if event["method"] == method and event.get("sessionId") == session:
                    self._events.remove(event)
                    return event
            self._events.append(self._read())

    def seen(self, method: str, session: str) -> list[Facts]:
        """Return the events of a page that have come and have not been waited for."""
        return [event for event in self._events if event["method"] == method and event.get("sessionId") == session]

    def open(self, url: str, width: int, *, height: int = 900, dark: bool = False) -> Page:
        """Open a page at a width, in CSS pixels."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        self.call("Page.enable", session)
        page = Page(self, session)
        page.load(url)
        return page

    def _read(self) -> Facts:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(self._answers, CHUNK) if ready else b""
            if not data:
                raise BrowserError("the browser has ended" if ready else "the browser does not answer")
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        found: Facts = json.loads(message)
        return found


class Page:
    """A page in a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> Facts:
        """Send a command for this page."""
        return self._browser.call(method, self._session, **parameters)

    def load(self, url: str) -> None:
        """Go to an address, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self._browser.wait("Page.loadEventFired", self._session)

    def seen(self, method: str) -> list[Facts]:
        """Return the events of this page that have come, up to the last command, and have not been waited for."""
        return self._browser.seen(method, self._session)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in JavaScript. BrowserError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"].get("description", "exception"))
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        self.click_element(f"document.querySelector({json.dumps(selector)})")

    def click_element(self, element: str) -> None:
        """Click the middle of the element that an expression in JavaScript finds."""
        box = self.evaluate(
            f"(it => (it.scrollIntoView({{block: 'center'}}), it.getBoundingClientRect().toJSON()))({element})"
        )
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def upload(self, selector: str, file: Path) -> None:
        """Choose a file in a field for files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)

    def edit(self, command: str) -> None:
        """Do what a key of an editor does: `copy` or `paste`."""
        key = {"copy": "c", "paste": "v"}[command]
        event = {"key": key, "code": f"Key{key.upper()}", "modifiers": 2, "windowsVirtualKeyCode": ord(key.upper())}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", commands=[command], **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path: Path) -> None:
        """Write a PNG of the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """Run a browser that keeps its files in a directory. BrowserError if none is installed."""
    path = program()
    if path is None:
        raise BrowserError("no Chromium is installed")
    pipes = [_high(end) for end in (*os.pipe(), *os.pipe())]
    commands_out, commands_in, answers_out, answers_in = pipes

    def attach() -> None:
        os.dup2(commands_out, TO_BROWSER)
        os.dup2(answers_in, FROM_BROWSER)

    command = [path, *OPTIONS, f"--user-data-dir={directory}", "about:blank"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=attach,
            pass_fds=(TO_BROWSER, FROM_BROWSER),
        )  # fmt: skip
    os.close(commands_out)
    os.close(answers_in)
    try:
        yield Browser(commands_in, answers_out)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(commands_in)
        os.close(answers_out)


def _high(descriptor: int) -> int:
    """Move a descriptor above those of the browser's pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved

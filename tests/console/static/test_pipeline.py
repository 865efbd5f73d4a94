"""The pipeline's last report in the console."""

from __future__ import annotations

import pytest

from tests.browser import Browser
from tests.console.static.conftest import Scene
from tests.console.static.console import Console
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PAGE = (
    "<!doctype html><title>r</title><style>p {{ color: rgb(1, 2, 3) }}</style><p id=p>{text}<script>alert(1)</script>"
)
FRAME = "document.querySelector('iframe.report')"


def frame_text(chromium: Browser, url: str) -> str:
    """Return the colour and text of the frame, which has a process of its own; "" until it is there."""
    targets = chromium.call("Target.getTargets")["targetInfos"]
    frames = [each["targetId"] for each in targets if each["url"] == f"{url}/api/report"]
    if not frames:
        return ""
    session = chromium.call("Target.attachToTarget", targetId=frames[0], flatten=True)["sessionId"]
    expression = "getComputedStyle(document.body.firstElementChild).color + document.body.innerText"
    answer = chromium.call("Runtime.evaluate", session, expression=expression, returnByValue=True)
    return str(answer["result"].get("value"))


def test_the_last_report_is_shown_in_a_frame_that_can_do_nothing(
    chromium: Browser, console: Console, scene: Scene
) -> None:
    path = scene.broker.directory / "data" / "report.html"
    console.go("pipeline")
    console.wait_for_text(f"--html {path} writes one", "[aria-label='Last report']")
    path.write_text(PAGE.format(text="what held producers"))
    console.go("overview")
    console.go("pipeline")
    console.wait(FRAME)
    console.wait_for_text("written ", "[aria-label='Last report']")
    wait_for(
        lambda: frame_text(chromium, scene.url) == "rgb(1, 2, 3)what held producers", what="the report in its frame"
    )
    assert console.page.evaluate(f"{FRAME}.getAttribute('sandbox')") == ""
    assert console.page.evaluate(f"{FRAME}.contentDocument") is None
    console.check_clean()
    console.page.call("Emulation.setDeviceMetricsOverride", width=360, height=900, deviceScaleFactor=1, mobile=False)
    console.wait("document.documentElement.scrollWidth === 360")
    path.unlink()

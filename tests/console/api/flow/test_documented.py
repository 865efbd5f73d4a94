"""docs/flow-api.md names each request of penstock's own part of the API, and no other."""

from __future__ import annotations

import re

from console.api.flow import ROUTERS
from tests.house import ROOT

ROW = re.compile(r"^\| (GET|POST|DELETE|PUT) `([^`?]+)", re.MULTILINE)


def test_each_request_is_named() -> None:
    text = (ROOT / "docs" / "flow-api.md").read_text()
    named = {(method, path) for method, path in ROW.findall(text)}
    served = {
        (method, route.path)  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    assert named == served

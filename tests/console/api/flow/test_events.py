"""Changes of flow control as they happen, on a real node."""

from __future__ import annotations

import pytest

from tests.console.api.flow.courses import Events, Held
from tests.console.http.node import HttpBroker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_changes_are_told_as_they_happen(node: HttpBroker) -> None:
    with Events(node) as events:
        snapshot = events.take("snapshot")
        assert all(each["causes"] for each in snapshot["held"])
        with Held(node, "live") as course:
            reported = events.take("held", exchange="x.live")
            events.take("queue", name="live", saturated=True)
            course.drain(course.channel)
            events.take("released", connection=reported["connection"])
            events.take("queue", name="live", saturated=False)

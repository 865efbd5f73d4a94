"""Flow control, whatever the order in which things happen (see `tests.flow.model`)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.flow.model import Flow

TestFlow = Flow.TestCase
TestFlow.settings = settings(
    deadline=None, max_examples=30, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)

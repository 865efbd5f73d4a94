"""The lease on applying a plan, which lasts until its time is over.

tests/router/commands/test_rebalancing.py tests who may have it, and what operators may change.
"""

from __future__ import annotations

from structlog.testing import capture_logs

from router.authority.rebalancing import Lease, Rebalancing


def lease(until: float) -> Lease:
    return Lease("p", "ann", 0.0, until, {"moves": 1}, {})


def test_at_first_there_is_none() -> None:
    assert Rebalancing().current_lease(0) is None


def test_it_lasts_until_its_end_and_its_expiry_is_logged_once() -> None:
    held = lease(100)
    rebalancing = Rebalancing(held)
    assert rebalancing.current_lease(99.9) is held
    with capture_logs() as logs:
        assert rebalancing.current_lease(100) is None
        assert rebalancing.current_lease(100) is None
    assert [(line["event"], line["plan"], line["holder"]) for line in logs] == [
        ("rebalancing: the lease has expired", "p", "ann")
    ]
    assert rebalancing.current_lease(0) is None, "it does not come back"

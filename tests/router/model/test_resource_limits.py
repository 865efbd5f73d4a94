"""Limits on the resources of vhosts and users: a limit that is set goes before the node's default."""

from __future__ import annotations

import pytest

from penstock.settings.limits import LimitSettings
from router.model.resource_limits import LIMITS, Counted, Holder, ResourceLimits, Scope, default
from router.model.topology import Topology
from tests.router.making import Asked

VHOST, USER = Holder("vhost", "/"), Holder("user", "ann")


def limits(asked: Asked, holder: Holder, **numbers: int) -> ResourceLimits:
    named = {f"max-{counted}": number for counted, number in numbers.items()}
    asked.topology.apply(["limits", *holder, named])
    return asked.topology.limits


@pytest.mark.parametrize(("scope", "counted"), [(scope, counted) for scope in LIMITS for counted in LIMITS[scope]])
def test_each_limit_has_a_default_among_the_settings(scope: Scope, counted: Counted) -> None:
    settings = LimitSettings(**{f"{scope}_{counted.name.lower()}": 7})
    assert default(settings, scope, counted) == 7
    others = {(s, c): default(settings, s, c) for s in LIMITS for c in LIMITS[s] if (s, c) != (scope, counted)}
    assert 7 not in others.values()
    assert Topology().limits.limit(Holder(scope, "x"), counted, settings) == 7


def test_a_set_limit_goes_before_the_default_and_minus_one_is_none() -> None:
    defaults = LimitSettings(vhost_queues=5, user_queues=-1)
    found = limits(Asked(), VHOST, queues=0)
    assert found.limit(VHOST, Counted.QUEUES, defaults) == 0
    assert found.limit(Holder("vhost", "v"), Counted.QUEUES, defaults) == 5
    assert found.limit(USER, Counted.QUEUES, defaults) is None
    asked = Asked()
    assert limits(asked, VHOST, queues=-1).limit(VHOST, Counted.QUEUES, defaults) is None
    assert limits(asked, VHOST).limit(VHOST, Counted.QUEUES, defaults) == 5


def test_a_change_replaces_all_limits_of_its_holder_and_an_empty_one_removes_it() -> None:
    asked = Asked()
    limits(asked, USER, queues=1, channels=2)
    limits(asked, Holder("vhost", "ann"), queues=9)
    found = limits(asked, USER, channels=3)
    assert found.of(USER) == {Counted.CHANNELS: 3}
    limits(asked, USER)
    assert found.all() == {Holder("vhost", "ann"): {Counted.QUEUES: 9}} and found.of(USER) == {}


def test_a_snapshot_makes_the_same_limits() -> None:
    asked = Asked()
    found = limits(asked, VHOST, queues=1, connections=2)
    limits(asked, USER, channels=3)
    copy = Topology(1, asked.topology.changes())
    assert copy.limits.all() == found.all() != {}
    copy.reset()
    assert copy.limits.all() == {}


def test_a_holder_reads_as_what_it_is() -> None:
    assert (str(VHOST), str(USER)) == ("vhost '/'", "user 'ann'")

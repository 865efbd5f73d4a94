"""The section of limits: of a node, a vhost, a user and an address."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.settings import Settings
from penstock.settings.limits import LimitSettings

NAMES = sorted(LimitSettings.model_fields)


@pytest.mark.parametrize("name", NAMES)
def test_each_limit_is_off_by_default_and_0_is_a_limit(name: str) -> None:
    assert getattr(LimitSettings(), name) == -1
    assert getattr(LimitSettings.model_validate({name: 0}), name) == 0
    with pytest.raises(ValidationError, match="greater than or equal to -1"):
        LimitSettings.model_validate({name: -2})


@pytest.mark.parametrize("name", NAMES)
def test_each_description_says_what_no_limit_is(name: str) -> None:
    description = LimitSettings.model_fields[name].description
    assert description is not None and "-1 is " in description


def test_a_limit_in_bytes_may_have_a_unit_or_none() -> None:
    limits = LimitSettings.model_validate({"user_unacked_bytes": "64 MiB"})
    assert limits.user_unacked_bytes == 64 << 20
    assert LimitSettings.model_validate({"user_unacked_bytes": "-1"}).user_unacked_bytes == -1


@pytest.mark.parametrize(("given", "resolved"), [(-1, 90), (0, 0), (95, 95)])
def test_a_user_may_declare_nine_tenths_of_the_queues_by_default(given: int, resolved: int) -> None:
    settings = Settings.from_resolved({"max_queues": 100, "limits": {"user_queues": given, "channels": 5}})
    assert settings.resolved_limits.user_queues == resolved
    assert settings.resolved_limits.channels == 5

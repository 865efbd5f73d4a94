"""The section of the first user."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.settings.first_user import FirstUserSettings


@pytest.mark.parametrize("half", [{"name": "app"}, {"password_file": "/run/password"}])
def test_a_name_needs_a_password_and_the_other_way_round(half: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="needs both name and password_file"):
        FirstUserSettings.model_validate(half)


def test_an_empty_name_is_none_of_a_user() -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        FirstUserSettings.model_validate({"name": "", "password_file": "/run/password"})

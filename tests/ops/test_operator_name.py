"""The name of an operator, who may be a user that the system has no name for."""

from __future__ import annotations

import os
import pwd

import pytest

from ops.operator_name import operator_name

VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_it_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "operator")
    assert operator_name() == "operator"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    nobody = next(uid for uid in range(60_000, 70_000) if uid not in taken)
    monkeypatch.setattr(os, "getuid", lambda: nobody)
    assert operator_name() == f"uid {nobody}"

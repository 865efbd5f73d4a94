"""Questions that a process answers about itself: their arguments, and the answers to wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.control.questions import answer


def fail() -> None:
    raise KeyError("a bug")


QUESTIONS: dict[str, Any] = {
    "add": (lambda one, other: one + other, {"one": int, "other": int}),
    "echo": (lambda text: text, {"text": str}),
    "depth": (lambda: 5, {}),
    "fail": (fail, {}),
}


def test_a_question_is_answered_from_its_arguments() -> None:
    assert answer(QUESTIONS, "add", {"other": 2, "one": 1}) == {"result": 3}
    assert answer(QUESTIONS, "depth", {}) == {"result": 5}


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("sing", {}, "unknown command 'sing'"),
        ("add", {"one": 1}, "add takes one, other"),
        ("add", {"one": 1, "other": "2"}, "add takes one, other"),
        ("add", {"one": 1, "other": 2, "third": 3}, "add takes one, other"),
        ("echo", {"text": None}, "echo takes text"),
        ("depth", {"queue": "q"}, "depth takes no arguments"),
    ],
)
def test_what_is_no_question_is_refused(name: str, arguments: dict[str, Any], text: str) -> None:
    assert answer(QUESTIONS, name, arguments) == {"error": text, "kind": "invalid"}


def test_a_bug_is_answered_and_logged() -> None:
    with capture_logs() as lines:
        assert answer(QUESTIONS, "fail", {}) == {"error": "fail failed, the log has more", "kind": "failed"}
    assert [(each["event"], each["question"], each["log_level"]) for each in lines] == [
        ("question failed", "fail", "error")
    ]

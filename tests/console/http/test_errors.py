"""Errors in RabbitMQ's form."""

from __future__ import annotations

from typing import get_args

from console.http.errors import STATUS_OF_REFUSAL, HttpError, not_found, of_refusal
from penstock.control.control import Kind, Refusal


def test_each_kind_of_refusal_has_a_status() -> None:
    assert set(STATUS_OF_REFUSAL) == set(get_args(Kind))
    error = of_refusal(Refusal("not_found", "there is no queue 'q'"))
    assert (error.status, error.body) == (404, {"error": "not_found", "reason": "there is no queue 'q'"})


def test_errors_say_what_they_are() -> None:
    assert not_found().body == {"error": "Object Not Found", "reason": "Not Found"}
    assert HttpError(500, "x").body == HttpError(599, "x").body == {"error": "internal_server_error", "reason": "x"}
    assert HttpError(401, "no", {"a": "b"}).headers == {"a": "b"}


def test_bytes_that_are_no_text_can_be_answered() -> None:
    assert HttpError(400, "\udcff").body["reason"].encode()

"""Errors by reply code (AMQP 0-9-1, 1.2)."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import AMQPError, FrameSyntaxError, HardError, SoftError, amqp_error
from penstock.amqp.spec import BY_NAME, HARD_CODES, REPLY_NAMES, SOFT_CODES


@pytest.mark.parametrize("code", sorted(SOFT_CODES))
def test_soft_codes_close_the_channel(code: int) -> None:
    error = amqp_error(code, "why")
    assert type(error) is SoftError and not error.hard


@pytest.mark.parametrize("code", sorted(HARD_CODES))
def test_hard_codes_close_the_connection(code: int) -> None:
    error = amqp_error(code, "why")
    assert type(error) is HardError and error.hard


@pytest.mark.parametrize("code", [0, 200, 404.5, 999])
def test_other_codes_are_no_errors(code: int) -> None:
    with pytest.raises(ValueError, match="not an error's reply code"):
        amqp_error(code, "why")


def test_it_names_the_method_that_failed() -> None:
    error = amqp_error(404, "no queue 'q' in vhost '/'", BY_NAME["queue_bind"])
    assert (error.code, error.class_id, error.method_id) == (404, 50, 20)
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"


def test_without_a_method_it_names_none() -> None:
    error = amqp_error(541, "")
    assert (error.class_id, error.method_id, error.reply_text) == (0, 0, "INTERNAL_ERROR")


def test_what_the_codec_raises_is_hard() -> None:
    assert issubclass(FrameSyntaxError, HardError)
    assert FrameSyntaxError(502, "why").hard


def test_an_error_survives_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(amqp_error(404, "no queue", BY_NAME["queue_bind"])))
    assert (type(error), error.code, error.text, error.method_id) == (SoftError, 404, "no queue", 20)


def test_a_long_text_is_cut_between_characters() -> None:
    text = amqp_error(404, "é" * 200).reply_text
    assert text == "NOT_FOUND - " + "é" * 121
    assert len(text.encode()) == 254


@given(st.sampled_from(sorted(REPLY_NAMES)), st.text(max_size=300) | st.text(st.characters(categories=["Cs"])))
def test_every_reply_text_is_a_short_string(code: int, text: str) -> None:
    reply_text = AMQPError(code, text).reply_text
    assert len(reply_text.encode("utf-8")) <= 255
    assert reply_text.startswith(REPLY_NAMES[code])

"""Limits on the number of bindings and the length of their patterns: the cost of matching grows with both.

Bindings beyond a limit that was lowered, or from an older data directory, stay and work; new ones are refused.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.amqp.errors import AMQPError, amqp_error
from router.model.hashing import CONSISTENT_HASH, weight_of
from router.model.matching import headers_pattern
from router.model.records import Binding, described
from router.model.topics_cy import words_of
from router.model.topology import Topology


class BindingLimits(NamedTuple):
    """The most bindings from an exchange and to a queue, words of a topic pattern, and headers that a binding asks for.
    0 is no limit.
    """

    per_exchange: int = 0
    per_queue: int = 0
    words: int = 0
    headers: int = 0


def check(binding: Binding, exchange_type: str, topology: Topology, limits: BindingLimits) -> None:
    """AMQPError (406) unless a new binding, from an exchange of that type, is within the limits."""
    check_pattern(binding, exchange_type, limits)
    vhost, source, destination = binding.vhost, binding.source, binding.destination
    there = len(topology.bindings_from(vhost, source))
    if limits.per_exchange and there >= limits.per_exchange:
        raise full(binding, described("exchange", source, vhost), there, "amqp.bindings_per_exchange")
    there = len(topology.bindings_to(vhost, "queue", destination)) if binding.kind == "queue" else 0
    if limits.per_queue and there >= limits.per_queue:
        raise full(binding, described("queue", destination, vhost), there, "amqp.bindings_per_queue")


def full(binding: Binding, whose: str, there: int, setting: str) -> AMQPError:
    """Return the error for a binding of an exchange or a queue that has as many as it may: `there`."""
    return amqp_error(406, f"cannot make {binding}: {whose} has {there} bindings, its limit ({setting})")


def check_pattern(binding: Binding, exchange_type: str, limits: BindingLimits) -> None:
    """AMQPError (406) if the pattern of a binding is too long or invalid, or its weight."""
    if exchange_type == "headers":
        try:
            headers = len(headers_pattern(binding.arguments).wanted)
        except ValueError as error:
            raise amqp_error(406, str(error)) from None
        if limits.headers and headers > limits.headers:
            raise amqp_error(
                406, f"{binding} asks for {headers} headers, more than {limits.headers} (amqp.binding_headers)"
            )
    if exchange_type == CONSISTENT_HASH:
        try:
            weight_of(binding.key)
        except ValueError as error:
            raise amqp_error(406, str(error)) from None
    if exchange_type == "topic":
        words = len(words_of(binding.key))
        if limits.words and words > limits.words:
            raise amqp_error(
                406, f"{binding} has a pattern of {words} words, more than {limits.words} (amqp.pattern_words)"
            )

"""Bindings: their listing, and the keys that name them."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.api.properties_key import properties_key
from router.model.records import Binding
from tests.console.api.conftest import Connect
from tests.management import Api

KEYS = st.text(max_size=8)
TABLES = st.dictionaries(st.text(max_size=3), st.integers(0, 2) | st.booleans() | st.text(max_size=2), max_size=3)


def bound(key: str, arguments: dict[str, object]) -> Binding:
    return Binding("/", "x", "queue", "q", key, arguments)


@given(KEYS, TABLES, KEYS, TABLES)
def test_two_bindings_have_the_same_key_only_if_they_are_equal(
    key: str, arguments: dict[str, object], other: str, others: dict[str, object]
) -> None:
    first, second = bound(key, arguments), bound(other, others)
    assert (properties_key(first) == properties_key(second)) == (first == second)


@given(KEYS, TABLES)
def test_a_key_is_one_segment_of_a_path(key: str, arguments: dict[str, object]) -> None:
    found = properties_key(bound(key, arguments))
    assert found and quote(found, safe="~%") == found


def test_a_key_of_bytes_that_are_not_utf8_is_encoded() -> None:
    assert properties_key(bound("\udcff", {})) == "%FF"


@pytest.mark.broker
def test_bindings_are_listed_and_found_by_their_keys(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("q/1")
    channel.exchange_bind("amq.topic", "amq.direct", "to")
    for key, arguments in (("a.#", {}), ("a.#", {"n": 1}), ("", {})):
        channel.queue_bind("q/1", "amq.topic", key, arguments)
    found = api.get(f"bindings/{vhost}/e/amq.topic/q/q%2F1")
    assert [(each["routing_key"], each["arguments"]) for each in found] == [("", {}), ("a.#", {}), ("a.#", {"n": 1})]
    for each in found:
        path = f"bindings/{vhost}/e/amq.topic/q/q%2F1/{quote(each['properties_key'], safe='')}"
        assert api.get(path) == each
    assert found[0]["properties_key"] == "~"
    assert [each["source"] for each in api.get(f"queues/{vhost}/q%2F1/bindings")] == ["", *["amq.topic"] * 3]
    assert len(api.get(f"bindings/{vhost}")) == 5
    (between,) = api.get(f"bindings/{vhost}/e/amq.direct/e/amq.topic")
    assert between["destination_type"] == "exchange"
    assert api.get(f"exchanges/{vhost}/amq.direct/bindings/source") == [between]
    for source in ("", "amq.default"):
        (implied,) = api.get(f"bindings/{vhost}/e/{source}/q/q%2F1")
        assert (implied["source"], implied["routing_key"]) == ("", "q/1")
        assert api.get(f"bindings/{vhost}/e/{source}/q/q%2F1/q%252F1") == implied
    assert api.get(f"bindings/{vhost}/e/nothing/q/q%2F1") == []
    assert api.status("GET", f"bindings/{vhost}/e/amq.topic/q/q%2F1/nothing") == 404
    assert api.status("GET", f"bindings/{vhost}/e/amq.topic/x/q%2F1") == 404

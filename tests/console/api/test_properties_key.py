"""Properties keys of bindings, compared with those of RabbitMQ 3.10."""

from __future__ import annotations

import pytest

from console.api.properties_key import is_named, properties_key
from router.model.records import Binding

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t"
QUOTED = "%21%22%23%24%25%26%27%28%29%2A%2B%2C-.%2F%3A%3B%3C%3D%3E%3F%40%5B%5C%5D%5E_%60%7B%7C%7D%7E+%09"


def binding(key: str, **arguments: object) -> Binding:
    return Binding("/", "x", "queue", "q", key, arguments)


@pytest.mark.parametrize(("key", "expected"), [("a.b", "a.b"), ("", "~"), (PUNCTUATION, QUOTED), ("\udcff", "%FF")])
def test_a_routing_key_is_quoted(key: str, expected: str) -> None:
    assert properties_key(binding(key)) == expected
    assert is_named(binding(key), expected)


def test_arguments_are_part_of_it() -> None:
    plain, one, two = binding("k"), binding("k", a=1, b="\udcff"), binding("k", a=2, b=b"\xff")
    keys = [properties_key(each) for each in (plain, one, two)]
    assert len(set(keys)) == 3
    assert [[is_named(each, key) for key in keys] for each in (plain, one, two)] == [
        [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    assert properties_key(binding("k", b="\udcff", a=1)) == keys[1]


def test_a_routing_key_may_be_given_as_it_is() -> None:
    assert is_named(binding("order.*"), "order.*")
    assert not is_named(binding("a+b"), "a+b")

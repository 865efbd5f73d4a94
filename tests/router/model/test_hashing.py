"""The index of a consistent hash exchange: weights, shares, movement, and the values that it hashes."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.values import Timestamp
from router.model.hashing import HashIndex, PropertyHashIndex, check_hashed, hash_index, hash_of, weight_of
from router.model.index import match
from router.model.records import Binding
from router.model.topics_cy import Work
from tests.router.naive_choice import naive_choice
from tests.router.strategies import field_values
from tests.twins import ROOT


def bound(name: str, weight: object = 1, kind: Any = "queue", **arguments: object) -> Binding:
    return Binding("/", "x", kind, name, str(weight), arguments)


def filled(*bindings: Binding, index: HashIndex | None = None) -> HashIndex:
    index = HashIndex() if index is None else index
    for binding in bindings:
        index.add(binding)
    return index


def of(index: HashIndex, key: str = "", **properties: object) -> str | None:
    """Return the name of the destination of a message."""
    found = [name for _, name in match(index, key, properties)]
    assert len(found) <= 1
    return found[0] if found else None


hash_bindings = st.builds(
    bound, st.sampled_from(["a", "b", "c"]), st.integers(1, 30), st.sampled_from(["queue", "exchange"]),
    n=st.integers(0, 1),
)  # fmt: skip
bindings_lists = st.lists(hash_bindings, unique=True)
keys = st.lists(st.text(max_size=5), min_size=1)


@given(added=bindings_lists, removed=st.randoms(use_true_random=False), keys=keys)
def test_a_message_goes_where_the_definition_says(added: list[Binding], removed: Any, keys: list[str]) -> None:
    index, kept = filled(*added), list(added)
    for binding in removed.sample(added, len(added) // 2):
        index.remove(binding)
        kept.remove(binding)
    assert all(set(match(index, key, {})) == naive_choice(kept, key) for key in keys)


@given(added=bindings_lists.filter(len), keys=keys, data=st.data())
def test_only_keys_of_the_binding_that_goes_move(added: list[Binding], keys: list[str], data: st.DataObject) -> None:
    """Of several bindings to one destination as well: then some of its keys stay."""
    index, gone = filled(*added), data.draw(st.sampled_from(added))
    before = {key: set(match(index, key, {})) for key in keys}
    index.remove(gone)
    assert all(before[key] in (set(match(index, key, {})), {gone.target}) for key in keys)


@given(
    weights=st.lists(st.integers(1, 50), min_size=2, max_size=8),
    seed=st.integers(0, 2**32),
    values=st.sampled_from(["{}", "user-{}", "a.b.{}", "00000000{}"]),
)
def test_shares_are_in_proportion_to_weights(weights: list[int], seed: int, values: str) -> None:
    """Five standard deviations of independent draws: beyond it, one of 200,000 shares is."""
    index = filled(*(bound(f"q{seed}-{number}", weight) for number, weight in enumerate(weights)))
    count, first = 3000, random.Random(seed).randrange(10**6)
    found = Counter(of(index, values.format(number)) for number in range(first, first + count))
    for number, weight in enumerate(weights):
        share = weight / sum(weights)
        deviation = math.sqrt(count * share * (1 - share))
        assert abs(found[f"q{seed}-{number}"] - count * share) < 5 * deviation + 3


def test_a_binding_takes_its_share_from_all_others() -> None:
    index = filled(*(bound(f"q{number}") for number in range(9)))
    texts = [str(number) for number in range(10_000)]
    before = {text: of(index, text) for text in texts}
    index.add(bound("new"))
    moved = [text for text in texts if of(index, text) != before[text]]
    assert all(of(index, text) == "new" for text in moved)
    assert 850 < len(moved) < 1150
    assert all(60 < count < 170 for count in Counter(before[text] for text in moved).values())


def test_a_weight_is_not_paid_for() -> None:
    index = filled(bound("heavy", 10**254), bound("light"))
    assert {of(index, str(number)) for number in range(1000)} == {"heavy"}
    assert index.cost() == 1


def test_a_choice_costs_the_more_the_more_destinations_there_are() -> None:
    index = filled(*(bound(f"q{number}") for number in range(8000)))
    walk, work = index.walk("k", {}), Work(0)
    assert not walk.advance(work) and walk.found is None
    work.left = 1
    assert walk.advance(work) and walk.found
    assert work.visited == 1001


@pytest.mark.parametrize("key", ["1", "+1", "01", "10", str(10**253)])
def test_a_weight(key: str) -> None:
    assert weight_of(key) == int(key)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        *((key, f'The binding key must be an integer: <<"{key}">>') for key in ("a", " 1", "1 ", "1.0", "1_0", "١")),
        ("1\n", 'The binding key must be an integer: <<"1\n">>'),
        *((key, "The binding key must be greater than 0") for key in ("0", "-1", "-0")),
    ],
)
def test_no_weight(key: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        weight_of(key)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "b"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": ""}, "Unsupported property: "),
        ({"hash-property": 7}, "hash-property must be a string, not 7"),
        ({"hash-header": None}, "hash-header must be a string, not undefined"),
    ],
)
def test_arguments_that_no_exchange_can_have(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        check_hashed(arguments)


BOTH = [bound(f"q{number}") for number in range(16)]


def test_a_header_decides() -> None:
    check_hashed({"hash-header": "h"})
    index = filled(*BOTH, index=hash_index({"hash-header": "h"}))
    assert isinstance(index, PropertyHashIndex) and index.reads == ("headers",)
    by_key = filled(*BOTH)
    for text in ("a", "b", "", "ü"):
        assert of(index, "any", headers={"h": text, "other": 1}) == of(by_key, text)
    assert len({of(index, str(number), headers={"h": 1}) for number in range(50)}) == 1
    absent = {of(index, "k"), of(index, "l", headers={}), of(index, "m", headers={"g": 1})}
    assert len(absent) == 1 and None not in absent


@pytest.mark.parametrize("name", ["correlation_id", "message_id", "timestamp"])
def test_a_property_decides(name: str) -> None:
    check_hashed({"hash-property": name})
    index = filled(*BOTH, index=hash_index({"hash-property": name}))
    assert isinstance(index, PropertyHashIndex) and index.reads == (name,)
    by_key = filled(*BOTH)
    for number in range(20):
        value: object = Timestamp(number) if name == "timestamp" else str(number)
        properties: dict[str, Any] = {name: value}
        assert of(index, "any", **properties) == of(by_key, str(number))
        assert {*index.traits(properties)} == {*match(index, "", properties)}
    assert of(index, "k", headers={name: "1"}) == of(index, "l")


@given(value=field_values)
def test_every_value_of_a_header_can_be_hashed(value: object) -> None:
    assert 0 <= hash_of(value) < 2**64 and hash_of(value) == hash_of(value)


def test_values_that_are_written_alike_have_the_same_hash() -> None:
    assert hash_of("7") == hash_of(7) == hash_of(Timestamp(7)) == hash_of(b"7")
    assert hash_of({"a": 1, "b": [2]}) == hash_of({"b": [2], "a": 1})
    different = [None, "", "None", True, 1, 1.5, [1], [[1]], {"a": 1}, {"a": "1"}, b"\xff"]
    assert len({hash_of(value) for value in different if value != ""}) == len(different) - 1


def test_another_process_hashes_alike() -> None:
    """With other seeds of Python's own hashes, which decide the order of sets."""
    program = (
        "from router.model.hashing import hash_of\n"
        "print([hash_of(value) for value in ('k', 7, None, {'a': {'b': 1, 'c': 2.5}, 'd': [True]})])"
    )
    found = {
        subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert len(found) == 1
    # Fixed for all time: messages of one key must not go to another queue after an upgrade.
    assert found.pop().startswith(b"[%d, " % hash_of("k"))
    assert hash_of("k") == 12417210735682507875

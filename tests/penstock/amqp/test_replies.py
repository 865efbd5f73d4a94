"""Names of reply consumers: writing, reading, and the shard that carries a consumer's answers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.replies import PSEUDO_QUEUE, Home, carrier, home_of, new_name

NAME = f"{PSEUDO_QUEUE}.3.14.AAECAwQFBgcICQoLDA0ODw=="

numbers = st.integers(0, 999_999_999)
names = st.builds(new_name, numbers, numbers) | st.text(max_size=20)
shard_sets = st.lists(st.integers(0, 254), min_size=1, max_size=8, unique=True)


@given(numbers, numbers)
def test_a_name_leads_back_to_its_home(acceptor: int, incarnation: int) -> None:
    assert home_of(new_name(acceptor, incarnation)) == Home(acceptor, incarnation)


def test_names_of_one_home_differ_in_all_their_secret() -> None:
    secrets = [new_name(3, 14).rpartition(".")[2] for _ in range(100)]
    assert all(len(set(letters)) > 1 for letters in zip(*(secret[:21] for secret in secrets), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "", PSEUDO_QUEUE, f"{PSEUDO_QUEUE}.", "x" + NAME, NAME + "x", NAME + "\n", NAME[:-1], NAME.upper(),
        NAME.replace("AAEC", "A.EC"), NAME.replace(".3.", ".-3."), NAME.replace(".3.", "."),
        NAME.replace(".3.", ".1000000000."), NAME.replace(".3.", ".\N{ARABIC-INDIC DIGIT THREE}."),
    ],
)  # fmt: skip
def test_other_names_have_no_home(name: str) -> None:
    assert home_of(NAME) == Home(3, 14)
    assert home_of(name) is None


def test_all_processes_compute_the_same_carrier() -> None:
    """Otherwise answers would go to a shard that does not know the consumer; Python's hash varies by process."""
    assert [carrier(f"{NAME}{number}", range(4)) for number in range(8)] == [2, 0, 1, 3, 0, 2, 3, 1]


@given(names, shard_sets, st.randoms(use_true_random=False))
def test_the_order_of_the_shards_does_not_matter(name: str, shards: list[int], random: Random) -> None:
    shuffled = random.sample(shards, len(shards))
    assert carrier(name, shuffled) == carrier(name, shards) in shards


@given(names, shard_sets, st.data())
def test_a_carrier_changes_only_if_it_leaves_or_to_a_new_shard(
    name: str, shards: list[int], data: st.DataObject
) -> None:
    before = carrier(name, shards)
    if len(shards) > 1:
        gone = data.draw(st.sampled_from([shard for shard in shards if shard != before]))
        assert carrier(name, [shard for shard in shards if shard != gone]) == before
    new = data.draw(st.integers(0, 254))
    assert carrier(name, [*shards, new]) in (before, new)


def test_the_names_are_shared_out_among_all_shards() -> None:
    counts = [0] * 4
    for number in range(400):
        counts[carrier(f"{NAME}{number}", range(4))] += 1
    assert min(counts) > 50

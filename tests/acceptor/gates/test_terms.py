"""The terms on which a channel is held: a gate's own, a user's by policy, and which of them counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.gates.terms import STANDARD, Terms, UserTerms, terms_of
from penstock.limits.ladder import FOREVER, Ladder, ladder_of
from penstock.limits.means import ALL, AUTO, means_of
from tests.simulator.joined.node import Node

PARKS, PAUSES = "park, confirms", "pause"
REJECTS, CLOSES = "park 5 s, reject", "pause 1 s, close-connection"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def policy(node: Node, **definition: str) -> None:
    """Set the policy for guest, or delete it."""
    node.policy("p", "^guest$", definition or None, "users")
    node.settle()


def test_texts_are_parsed_and_the_common_ones_share_their_terms() -> None:
    assert terms_of(AUTO, FOREVER) is STANDARD == Terms(ALL, Ladder())
    assert terms_of(PARKS, FOREVER) == Terms(means_of(PARKS), Ladder())
    assert terms_of(AUTO, REJECTS) == Terms(ALL, ladder_of(REJECTS))


def test_without_a_policy_for_the_user_those_of_the_gate_count(node: Node) -> None:
    terms = UserTerms(node.core(0).topology)
    own = terms_of(PARKS, REJECTS)
    assert terms.at("/", "guest", own) == own
    assert terms.at("/", "guest", None) == STANDARD


def test_a_policy_for_the_user_precedes_in_what_it_says(node: Node) -> None:
    terms, own = UserTerms(node.core(0).topology), terms_of(PARKS, REJECTS)
    policy(node, throttle=PAUSES)
    assert terms.at("/", "guest", own) == terms_of(PAUSES, REJECTS)
    assert terms.at("/", "ann", own) == own
    policy(node, hold=CLOSES)
    terms.clear()
    assert terms.at("/", "guest", own) == terms_of(PARKS, CLOSES)
    policy(node, hold=FOREVER)
    terms.clear()
    assert terms.at("/", "guest", own) == terms_of(PARKS, FOREVER), "for ever is said, too"


def test_a_gate_without_terms_takes_only_the_means(node: Node) -> None:
    """An operator's stop, for example, never closes a connection after a time."""
    policy(node, throttle=PAUSES, hold=CLOSES)
    assert UserTerms(node.core(0).topology).at("/", "guest", None) == terms_of(PAUSES, FOREVER)


def test_terms_are_looked_up_again_once_the_topology_has_changed(node: Node) -> None:
    terms = node.core(0).user_terms
    assert terms.at("/", "guest", STANDARD) == STANDARD
    policy(node, throttle=PAUSES, hold=REJECTS)
    assert terms.at("/", "guest", STANDARD) == terms_of(PAUSES, REJECTS)
    policy(node)
    assert terms.at("/", "guest", STANDARD) == STANDARD

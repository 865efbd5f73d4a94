"""One acceptor's share of a queue's room, by weight."""

from __future__ import annotations

import pytest

from acceptor.gates.acceptor_weights import AcceptorWeights


@pytest.mark.parametrize(("own", "total", "share"), [(1, 4, 0.25), (3, 4, 0.75), (0, 3, 0.0), (2, 2, 1.0)])
def test_the_share_is_by_weight_until_it_is_forgotten(own: int, total: int, share: float) -> None:
    weights = AcceptorWeights()
    weights.own, weights.most, weights.total = own, total, total
    assert weights.share() == share
    weights.forget()
    assert (weights.own, weights.most, weights.total) == (0, 0, 0)

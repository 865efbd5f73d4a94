"""Users near their limit of unacked messages, as a shard shows them."""

from __future__ import annotations

from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rows import Use
from penstock.settings.limits import LimitSettings
from shard.queue.hands import Hands
from shard.shown_hands import ShownHands

LIMITS = LimitSettings(user_unacked_messages=20, user_unacked_bytes=8 << 32)


def test_what_is_near_is_shown_as_long_as_it_is() -> None:
    hands, shared = Hands(LIMITS, 2), SharedCounts.of_process()
    shown = ShownHands(shared, hands, 3)
    ann, bob = hands.of("ann"), hands.of("bob")
    assert ann and bob
    ann.count, ann.nbytes, bob.count = 8, 4 << 32, 10
    shown.publish_changes()
    assert set(shared.near()) == {
        Use("unacked-bytes-at-shard-3", "user", "ann", 4 << 32, 4 << 32),
        Use("unacked-messages-at-shard-3", "user", "bob", 10, 10),
    }
    ann.nbytes = 0
    hands.share(1)
    shown.publish_changes()
    assert not list(shared.near())
    bob.count = 20
    shown.publish_changes()
    assert [use.used for use in shared.near()] == [20]
    del bob
    shown.publish_changes()
    assert not list(shared.near()), "it has no consumers any more"

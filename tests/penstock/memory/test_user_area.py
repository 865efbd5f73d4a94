"""Users in the gauges: the queues that each publishes to."""

from __future__ import annotations

from penstock.memory.gauges import Gauges


def test_queues_of_users(gauges: Gauges) -> None:
    before = gauges.users_changed()
    assert gauges.user_queues(7) == []
    assert all(gauges.user_queue_add(7, id) for id in (3, 9, 3)) and gauges.user_queue_add(8, 9)
    changed = gauges.users_changed()
    assert changed == before + 3, "what is there already is no change"
    with Gauges.open(gauges.path) as other:
        assert (other.user_queues(7), other.user_queues(8)) == ([3, 9], [9])
        other.user_queue_remove(7, 9)
    assert (gauges.user_queues(7), gauges.user_queues(8)) == ([3], [9])
    assert gauges.users_changed() > changed


def test_there_are_places_for_so_many_queues_of_users(gauges: Gauges) -> None:
    assert all(gauges.user_queue_add(7, id) for id in range(1, 8193))
    assert not gauges.user_queue_add(8, 1) and gauges.user_queue_add(7, 1)
    gauges.user_queue_remove(7, 4000)
    assert gauges.user_queue_add(8, 1) and gauges.user_queues(8) == [1]
    assert len(gauges.user_queues(7)) == 8191

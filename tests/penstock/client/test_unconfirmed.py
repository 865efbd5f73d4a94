"""The unconfirmed publishes of a channel."""

from __future__ import annotations

from penstock.client.unconfirmed import Destination, Publish, Unsettled


def sent(unsettled: Unsettled, *keys: str) -> list[Publish]:
    """Add a publish for each routing key."""
    publishes = [Publish(Destination("", key), 0.0) for key in keys]
    for publish in publishes:
        unsettled.add(publish)
    return publishes


def test_confirms_by_tag() -> None:
    unsettled = Unsettled()
    publishes = sent(unsettled, "a", "b", "c", "d")
    unsettled.settle(2, False, True)
    unsettled.settle(3, True, False)
    unsettled.settle(9, False, True)
    assert [publish.taken for publish in publishes] == [False, True, False, None]
    assert len(unsettled) == 1


def test_a_settled_publish_is_no_longer_overdue() -> None:
    unsettled = Unsettled()
    first, second = sent(unsettled, "a", "b")
    first.overdue = True
    assert unsettled.overdue() == [first]
    unsettled.settle(1, False, True)
    assert unsettled.overdue() == [] and second.taken is None


def test_a_return_belongs_to_the_first_of_its_destination_that_has_none() -> None:
    unsettled = Unsettled()
    publishes = sent(unsettled, "a", "b", "b")
    errors = [ValueError("one"), ValueError("two")]
    for error in errors:
        unsettled.returned("", "b", error)
    unsettled.returned("", "nowhere", ValueError("three"))
    assert [publish.error for publish in publishes] == [None, *errors]


def test_the_end_of_the_channel_fails_all() -> None:
    unsettled = Unsettled()
    publishes = sent(unsettled, "a", "b")
    error = ValueError("closed")
    unsettled.fail(error)
    assert all(publish.error is error and publish.taken is False for publish in publishes)
    assert not unsettled


def test_a_destination_for_people() -> None:
    assert str(Destination("orders", "new")) == "exchange 'orders', routing key 'new'"

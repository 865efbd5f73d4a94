"""The clients of a port: room for new ones, deadlines, and answers that are not read."""

from __future__ import annotations

from console.http.crowd import UNREAD_MOST, Crowd


class Client:
    """A connection in a state that a test chooses."""

    def __init__(self, crowd: Crowd, now: float = 0.0) -> None:
        self.stands_since: float | None = None
        self.waits_for_client = True
        self.is_hung_up = False
        self._crowd = crowd
        crowd.present.add(self)
        crowd.waits(self, now)

    def shutdown(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        self.is_hung_up = True
        self._crowd.leave(self)


def test_the_one_that_waits_longest_makes_room() -> None:
    crowd = Crowd(3, 10)
    clients = [Client(crowd, now) for now in range(2)]
    assert crowd.has_room(0) and crowd.has_room(1)
    assert [each.is_hung_up for each in clients] == [True, False]
    clients += [Client(crowd, 2), Client(crowd, 3)]
    crowd.waits(clients[1], 4)
    assert crowd.has_room(0)
    assert [each.is_hung_up for each in clients] == [True, False, True, False]


def test_requests_under_way_are_not_ended_for_others() -> None:
    crowd = Crowd(2, 10)
    clients = [Client(crowd), Client(crowd)]
    for each in clients:
        each.waits_for_client = False
    assert not crowd.has_room(0)
    clients[1].waits_for_client = True
    assert crowd.has_room(0) and clients[1].is_hung_up and not clients[0].is_hung_up


def test_deadlines_are_those_of_clients() -> None:
    crowd = Crowd(9, 10)
    waiting, answering, unread = Client(crowd), Client(crowd), Client(crowd)
    answering.waits_for_client = unread.waits_for_client = False
    unread.stands_since = 5.0
    crowd.tick(10)
    assert crowd.present == {waiting, answering, unread}
    crowd.tick(11)
    assert crowd.present == {answering, unread}
    crowd.tick(16)
    assert crowd.present == {answering}


def test_the_oldest_unread_answer_makes_room() -> None:
    crowd = Crowd(9, 10)
    first, second, third = Client(crowd), Client(crowd), Client(crowd)
    crowd.leaves_unread(first, 2 * UNREAD_MOST)
    assert not first.is_hung_up  # alone, however large it is
    crowd.leaves_unread(first, UNREAD_MOST // 2)
    crowd.leaves_unread(second, UNREAD_MOST // 2)
    crowd.leaves_unread(third, 10)
    assert [each.is_hung_up for each in (first, second, third)] == [True, False, False]
    crowd.leaves_unread(second, 0)
    crowd.leaves_unread(third, UNREAD_MOST)
    assert crowd.present == {second, third}

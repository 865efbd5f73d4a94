from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from load.confirms import ConfirmWindow

answers = st.lists(st.tuples(st.integers(0, 25), st.booleans()))


@given(st.integers(0, 20), answers)
def test_every_tag_settles_once(count: int, acks: list[tuple[int, bool]]) -> None:
    window = ConfirmWindow()
    waiting = {window.publish() for _ in range(count)}
    assert waiting == set(range(1, count + 1))
    for tag, multiple in acks:
        asked = {each for each in waiting if (each <= tag or tag == 0 if multiple else each == tag)}
        settled = {each for start, end in window.settle(tag, multiple) for each in range(start, end)}
        assert settled == asked
        waiting -= settled
        assert len(window) == len(waiting)


def test_tags_go_on_after_they_settled() -> None:
    window = ConfirmWindow()
    window.publish()
    window.settle(1, multiple=False)
    assert window.publish() == 2

from __future__ import annotations

from time import monotonic_ns

from load.payload import HEAD_SIZE, read_stamp, stamped


def test_a_body_says_which_one_it_is() -> None:
    before = monotonic_ns()
    body = stamped(41, 0xDEADBEEF, 100)
    assert len(body) == 100
    stamp = read_stamp(body)
    assert stamp is not None
    assert (stamp.sequence, stamp.producer) == (41, 0xDEADBEEF)
    assert before <= stamp.sent_ns <= monotonic_ns()


def test_a_unknown_body_has_no_stamp() -> None:
    assert read_stamp(b"x" * (HEAD_SIZE - 1)) is None

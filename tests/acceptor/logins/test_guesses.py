"""Wrong passwords by address and user."""

from __future__ import annotations

from acceptor.logins.guesses import FORGOTTEN_SECONDS, FREE, MOST_SECONDS, Guesses


def test_the_time_doubles_up_to_its_bound() -> None:
    guesses = Guesses()
    found = [guesses.was_wrong("a", "u", 0.0) for _ in range(FREE + 40)]
    assert found[: FREE - 1] == [0.0] * (FREE - 1)
    assert found[FREE - 1 : FREE + 6] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MOST_SECONDS]
    assert set(found[FREE + 6 :]) == {MOST_SECONDS}
    assert guesses.of("a", "other", 0.0).may_try(0.0) and guesses.of("b", "u", 0.0).may_try(0.0)
    assert guesses.of_user("u", 0.0).wrong == FREE + 40


def test_who_is_quiet_for_long_is_forgotten() -> None:
    guesses = Guesses()
    for _ in range(FREE):
        guesses.was_wrong("a", "u", 0.0)
    assert guesses.of("a", "u", FORGOTTEN_SECONDS).wrong == FREE
    assert guesses.of("a", "u", 2 * FORGOTTEN_SECONDS + 1).wrong == 0

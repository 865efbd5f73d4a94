"""The memory of correct passwords that acceptors share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.logins.known_passwords import BYTES, SETS, WAYS, KnownPasswords, create


def test_what_one_adds_all_know(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    create(path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size == BYTES
    one, other = KnownPasswords.open(path), KnownPasswords.open(path)
    digest = one.digest("user", "hash", "secret")
    assert not one.has(digest)
    one.add(digest)
    assert other.has(digest) and other.digest("user", "hash", "secret") == digest
    with pytest.raises(FileExistsError):
        create(path)


def test_nodes_have_keys_of_their_own() -> None:
    one, other = KnownPasswords.of_process(), KnownPasswords.of_process()
    assert one.digest("user", "secret") != other.digest("user", "secret")


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_other_texts_have_another_digest(texts: list[str], others: list[str]) -> None:
    known = KnownPasswords.of_process()
    assert (known.digest(*texts) == known.digest(*others)) == (texts == others)


def test_a_full_set_loses_its_oldest() -> None:
    known = KnownPasswords.of_process()
    digests = [(number * SETS).to_bytes(4, "big") + bytes([1]) * 28 for number in range(WAYS + 1)]
    for digest in digests:
        known.add(digest)
        known.add(digest)
    assert [known.has(digest) for digest in digests] == [False] + [True] * WAYS

"""Amounts that are charged to clients, such as bytes of memory, by user and in all."""

from __future__ import annotations


class Charges:
    """Amounts by user: `users` has those that are charged anything, and `kept` is the sum over them."""

    def __init__(self) -> None:
        self.users: dict[str, int] = {}
        self.kept = 0

    def charge(self, user: str, nbytes: int) -> None:
        """Charge an amount to a user, or give it back where it is negative."""
        self.kept += nbytes
        charge(self.users, user, nbytes)


def charge(charged: dict[str, int], name: str, nbytes: int) -> None:
    """Add an amount to a name's in `charged`, which has no entries of 0."""
    left = charged.get(name, 0) + nbytes
    if left:
        charged[name] = left
    else:
        charged.pop(name, None)

"""Octets that are kept for clients, by user and in all."""

from __future__ import annotations


class Charges:
    """`users` has those for whom anything is kept; `kept` is the sum over them."""

    def __init__(self) -> None:
        self.users: dict[str, int] = {}
        self.kept = 0

    def charge(self, user: str, octets: int) -> None:
        """So much more is kept for a user, or less."""
        self.kept += octets
        charge(self.users, user, octets)


def charge(charged: dict[str, int], name: str, octets: int) -> None:
    """So much more for one of those who are charged for anything, or less."""
    left = charged.get(name, 0) + octets
    if left:
        charged[name] = left
    else:
        charged.pop(name, None)

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
        left = self.users.get(user, 0) + octets
        if left:
            self.users[user] = left
        else:
            self.users.pop(user, None)

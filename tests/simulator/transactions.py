"""Clients that end transactions."""

from __future__ import annotations

from tests.simulator.person import Person


class Transacting(Person):
    """Commits, or rolls back. What that means, each kind of client says for its part of the transaction."""

    def end_transaction(self) -> None:
        """Commit, or roll back."""
        if self.chance.random() < 0.2:
            self.roll_back()
            self.client.send("tx.rollback", self.number)
        else:
            self.commit()
            self.client.send("tx.commit", self.number)

    def commit(self) -> None:
        """Record a commit that is written next."""

    def roll_back(self) -> None:
        """Record a rollback that is written next."""

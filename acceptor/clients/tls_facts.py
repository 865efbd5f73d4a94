"""The TLS of a connection, as its login and its operator see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """What was agreed on, and the client's certificate, if it has sent one: its `subject`, and the `user` that it names
    by the setting `login_from`; None if it names none.
    """

    version: str
    cipher: str
    has_certificate: bool = False
    subject: str = ""
    user: str | None = None

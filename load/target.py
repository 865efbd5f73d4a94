"""The broker that a load runs against: a parsed AMQP URL."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

DEFAULT_PORT, DEFAULT_TLS_PORT = 5672, 5671
SCHEMES = ("amqp", "amqps")


@dataclass(frozen=True, slots=True)
class Target:
    """Host, port, login and virtual host of a broker, and whether it is reached over TLS.

    `authority`: the file of the authorities that the broker's certificate is verified by; None if it is not verified.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = "guest"
    password: str = "guest"  # noqa: S105  that of every new broker
    vhost: str = "/"
    tls: bool = False
    authority: Path | None = None

    @classmethod
    def parse(cls, url: str, authority: Path | None = None) -> Target:
        """Parse `amqp://user:password@host:port/vhost`, or `amqps://` for TLS; every part but the scheme may be left
        out, parts are percent-decoded, a missing or empty vhost is "/". ValueError says what is wrong with the URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"an AMQP URL must start with amqp:// or amqps://: {url!r}")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"the port of {url!r} is not a number from 0 to 65535") from None
        defaults, tls = cls(), parts.scheme == "amqps"
        default_port = DEFAULT_TLS_PORT if tls else DEFAULT_PORT
        return cls(
            host=parts.hostname or defaults.host,
            port=default_port if port is None else port,
            user=defaults.user if parts.username is None else unquote(parts.username),
            password=defaults.password if parts.password is None else unquote(parts.password),
            vhost=unquote(parts.path[1:]) or defaults.vhost,
            tls=tls,
            authority=authority,
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def without_password(text: str, url: str | None) -> str:
    """Return a text in which an AMQP URL may stand, as it is or as HTML or JSON writes it, with *** for the URL's
    password.
    """
    parts = urlsplit(url or "")
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    if url is None or not colon:
        return text
    shown = urlunsplit(parts._replace(netloc=f"{user}:***{at}{place}"))
    for written in (str, _in_script, html.escape):
        text = text.replace(written(url), written(shown))
    return text


def _in_script(text: str) -> str:
    """Return a text as Flask and Jinja2 write it in a script: JSON without characters that HTML would read."""
    return "".join(f"\\u{ord(each):04x}" if each in "<>&'" else each for each in json.dumps(text)[1:-1])

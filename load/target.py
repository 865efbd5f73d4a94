"""The broker that a load runs against: a parsed AMQP URL."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

DEFAULT_PORT = 5672


@dataclass(frozen=True, slots=True)
class Target:
    """Host, port, login and virtual host of a broker."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = "guest"
    password: str = "guest"  # noqa: S105  that of every new broker
    vhost: str = "/"

    @classmethod
    def parse(cls, url: str) -> Target:
        """Parse `amqp://user:password@host:port/vhost`; every part but the scheme may be left out, parts are
        percent-decoded, a missing or empty vhost is "/". ValueError says what is wrong with the URL.
        """
        parts = urlsplit(url)
        if parts.scheme != "amqp":
            raise ValueError(f"an AMQP URL must start with amqp://, as loads do without TLS: {url!r}")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"the port of {url!r} is not a number from 0 to 65535") from None
        defaults = cls()
        return cls(
            host=parts.hostname or defaults.host,
            port=DEFAULT_PORT if port is None else port,
            user=defaults.user if parts.username is None else unquote(parts.username),
            password=defaults.password if parts.password is None else unquote(parts.password),
            vhost=unquote(parts.path[1:]) or defaults.vhost,
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

"""The public keys that sign tokens: from files, and from the issuer, whose keys are fetched and kept.

Keys are fetched for the first token, for one whose key is not known, and when they are old. Old keys go on counting
until new ones are there: an issuer that cannot be reached stops no logins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from acceptor.logins.backend import AuthError
from acceptor.logins.background import Background, at_once
from acceptor.logins.web import Web, WebError
from penstock.node.logs import get_logger
from penstock.settings.auth import OAuth2Settings, is_safe_url

log = get_logger()

DISCOVERY = "/.well-known/openid-configuration"
"""OpenID Connect Discovery 1.0, 4."""
RETRY_SECONDS = 10.0
"""Time between two fetches, however many tokens ask for keys."""
KEYS_MOST = 64
OK = 200


class Keys:
    """The keys of an issuer. The process sets `background`; `clock` gives seconds."""

    def __init__(self, settings: OAuth2Settings, clock: Callable[[], float]) -> None:
        self.background: Background = at_once
        self._settings = settings
        self._clock = clock
        self._web = Web(settings.authorities, settings.timeout)
        self._own = [key for path in settings.keys for key in _of_file(path)]
        self._fetched: Sequence[Key] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._waiting: list[Callable[[], None]] = []

    @property
    def present(self) -> Sequence[Key]:
        """The keys that are known now."""
        return [*self._own, *self._fetched]

    def are_old(self) -> bool:
        """Whether the issuer's keys are to be fetched anew."""
        if not self._has_issuer():
            return False
        return self._fetched_at is None or self._clock() >= self._fetched_at + self._settings.refresh_seconds

    def fetch(self, done: Callable[[], None]) -> None:
        """Fetch the issuer's keys, unless that was tried just now, then call back."""
        now = self._clock()
        if self._waiting:
            self._waiting.append(done)
        elif self._has_issuer() and (self._tried_at is None or now >= self._tried_at + RETRY_SECONDS):
            self._tried_at = now
            self._waiting.append(done)
            self.background(self._fetch, self._came)
        else:
            done()

    def _has_issuer(self) -> bool:
        return bool(self._settings.jwks_uri or (self._settings.issuer and not self._settings.keys))

    def _came(self, found: Sequence[Key] | Exception) -> None:
        waiting, self._waiting = self._waiting, []
        if isinstance(found, Exception):
            log.warning("the keys of tokens cannot be fetched", problem=str(found))
        else:
            self._fetched, self._fetched_at = found, self._clock()
        for done in waiting:
            done()

    def _fetch(self) -> Sequence[Key] | Exception:
        try:
            return keys_of(self._document(self._settings.jwks_uri or self._address()))
        except (WebError, AuthError, orjson.JSONDecodeError) as error:
            return error

    def _address(self) -> str:
        """Return the address of the keys, which the issuer knows."""
        facts = orjson.loads(self._document(self._settings.issuer.rstrip("/") + DISCOVERY))
        address = facts.get("jwks_uri") if isinstance(facts, dict) else None
        if not isinstance(address, str) or not is_safe_url(address):
            raise AuthError("the issuer names no safe address of its keys (jwks_uri)")
        return address

    def _document(self, url: str) -> bytes:
        answer = self._web.call(url)
        if answer.status != OK:
            raise AuthError(f"{url}: status {answer.status}")
        return answer.body


def keys_of(text: bytes) -> list[Key]:
    """Return the public keys of a JWK set that may verify signatures (RFC 7517). AuthError if it is none."""
    try:
        found = KeySet.import_key_set(orjson.loads(text)).keys
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise AuthError(f"no JWK set: {error}"[:200]) from error
    return [key for key in found if key.key_type != "oct" and key.get("use", "sig") == "sig"][:KEYS_MOST]


def _of_file(path: Path) -> list[Key]:
    """Return the keys of a file, a JWK set or PEM."""
    try:
        text = path.read_bytes()
        if text.lstrip().startswith(b"{"):
            return keys_of(text)
        return [_of_pem(text, path.stem)]
    except (OSError, JoseError, ValueError, AuthError) as error:
        raise AuthError(f"auth.oauth2.keys: {path}: {error}") from error


def _of_pem(text: bytes, name: str) -> Key:
    """Return the public key of a PEM; its name is the `kid` of the tokens that it signs."""
    for kind in ("RSA", "EC", "OKP"):
        try:
            return JWKRegistry.import_key(text, kind, {"kid": name})
        except (JoseError, ValueError, TypeError):
            continue
    raise AuthError("no public key in PEM")

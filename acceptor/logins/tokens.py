"""The backend of tokens: a JWT in the place of the password, as RabbitMQ takes them (RFC 7519, OAuth 2).

The user's name is in the token; the one that the client sends beside it counts for nothing. A token that expires ends
its connection, unless the client sends a new one before (connection.update-secret).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import Key
from joserfc.jws import extract_compact

from acceptor.logins.backend import Decided, Decision, Identity
from acceptor.logins.key_sets import Keys
from acceptor.logins.scopes import rights_of
from penstock.settings.auth import OAuth2Settings

LEEWAY_SECONDS = 5
"""Difference between the issuer's clock and ours."""
REASON_MOST = 200
NO_TOKEN = "the password is no token"  # noqa: S105 - a text for the log
DOTS = 2
"""Dots in a JWT (RFC 7515, 7.1)."""


class Refused(Exception):
    """A token that lets nobody in; the text says why."""


UNREADABLE = (
    Refused, JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What a token that is wrong somewhere makes the library raise."""


class TokenBackend:
    """Knows the users that tokens name. `wall` gives seconds since 1970."""

    def __init__(self, settings: OAuth2Settings, keys: Keys, wall: Callable[[], float]) -> None:
        self._settings = settings
        self._keys = keys
        self._wall = wall

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        if password.count(".") != DOTS or not password.isascii():
            decided(NO_TOKEN)
            return
        self._verify(password, decided)

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        decided("a certificate is no token")

    def renew(self, identity: Identity, secret: str, decided: Decided) -> None:
        """Accept a new token of the same user."""

        def check(decision: Decision) -> None:
            if isinstance(decision, Identity) and decision.rights.user != identity.rights.user:
                decided(f"the new token is of user '{decision.rights.user}'")
            else:
                decided(decision)

        self.check("", secret, "", check)

    def _verify(self, token: str, decided: Decided) -> None:
        """Decide on a token; for an unknown key, or with old keys, once these were fetched."""
        decision = self._decision(token)
        if decision is not None and not self._keys.are_old():
            decided(decision)
        elif decision is not None:
            self._keys.fetch(lambda: None)
            decided(decision)
        else:
            self._keys.fetch(lambda: decided(self._decision(token) or "the key that signed the token is not known"))

    def _decision(self, token: str) -> Decision | None:
        """Decide on a token by the present keys; None if the one that signed it is not among them."""
        try:
            return self._identity(self._claims(token))
        except InvalidKeyIdError:
            return None
        except UNREADABLE as error:
            return f"the token is refused: {error}"[:REASON_MOST]

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature is right. JoseError if it is not, or the token is none."""
        error: JoseError = InvalidKeyIdError("")
        for key in self._keys_for(token):
            try:
                return jwt.decode(token, key, algorithms=list(self._settings.algorithms)).claims
            except BadSignatureError as wrong:
                error = wrong
        raise error

    def _keys_for(self, token: str) -> Iterator[Key]:
        """Yield the keys that may have signed a token: the one that it names, else all of its kind."""
        header = extract_compact(token.encode()).headers()
        named, algorithm = header.get("kid"), str(header.get("alg", ""))
        kind = {"R": "RSA", "P": "RSA"}.get(algorithm[:1], "OKP" if algorithm.startswith("Ed") else "EC")
        for key in self._keys.present:
            if key.key_type == kind and named in (None, key.kid):
                yield key

    def _identity(self, claims: dict[str, Any]) -> Identity:
        """Return whom a token names. JoseError or `Refused` if it is not valid here and now."""
        settings = self._settings
        expected: dict[str, Any] = {}
        if settings.verify_aud:
            expected["aud"] = {"essential": True, "value": settings.resource_server_id}
        if settings.issuer:
            expected["iss"] = {"essential": True, "value": settings.issuer}
        jwt.JWTClaimsRegistry(now=int(self._wall()), leeway=LEEWAY_SECONDS, **expected).validate(claims)
        name = next((claims[each] for each in settings.preferred_username_claims if each in claims), None)
        if not isinstance(name, str) or not name:
            raise Refused(f"it names no user ({', '.join(settings.preferred_username_claims)})")
        rights = rights_of(name, scopes_of(claims, settings), settings.prefix)
        expires = claims.get("exp")
        return Identity(rights, self, None if expires is None else float(expires) + LEEWAY_SECONDS)


def scopes_of(claims: dict[str, Any], settings: OAuth2Settings) -> list[str]:
    """Return the scopes of a token: those of the claim `scope`, and of a further one."""
    found: list[str] = []
    for name in ("scope", settings.additional_scopes_key):
        claim = claims.get(name) if name else None
        if isinstance(claim, dict):
            claim = claim.get(settings.resource_server_id)
        if isinstance(claim, str):
            found += claim.split()
        elif isinstance(claim, list):
            found += [each for each in claim if isinstance(each, str)]
    return found

"""An issuer of tokens: keys, tokens signed with them, and the server that OpenID Connect asks for (real HTTP)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from tests import http_server

AUDIENCE = "penstock"
EVERYTHING = "penstock.configure:*/* penstock.write:*/* penstock.read:*/*"


class Issuer:
    """Signs tokens. `keys` are those that its server publishes; `asked` has the paths that were asked for."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.asked: list[str] = []
        self.url = ""
        self.fails = False
        self.facts: Any = None
        self.key = self.new_key("first")

    def new_key(self, kid: str, kind: str = "RSA") -> Key:
        """Make a key, publish it, and sign with it from now on."""
        parameters = {"kid": kid, "use": "sig"}
        made: Key = {
            "RSA": lambda: RSAKey.generate_key(2048, parameters),
            "EC": lambda: ECKey.generate_key("P-256", parameters),
            "OKP": lambda: OKPKey.generate_key("Ed25519", parameters),
        }[kind]()
        self.keys.append(made)
        self.key = made
        return made

    def token(self, *, key: Key | None = None, algorithm: str = "", seconds: float = 600, **claims: Any) -> str:
        """Return a token for bob that may do everything; `claims` take the place of others, None removes one."""
        key = key or self.key
        algorithm = algorithm or {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[key.key_type]
        said = {
            "iss": self.url, "sub": "bob", "aud": [AUDIENCE, "other"], "exp": int(time.time() + seconds),
            "scope": EVERYTHING, **claims,
        }  # fmt: skip
        header = {"alg": algorithm, "kid": key.kid}
        named = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(header, named, key, algorithms=[algorithm])

    def jwks(self) -> bytes:
        """Return the JWK set of the public keys."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode()

    def assignments(self) -> list[str]:
        """Return the settings of a node that takes the tokens, and has users of its own."""
        return [
            "auth.backends=oauth2,internal", f"auth.oauth2.resource_server_id={AUDIENCE}",
            f"auth.oauth2.issuer={self.url}",
        ]  # fmt: skip

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body of the answer to a request."""
        self.asked.append(path)
        if self.fails:
            return 503, b"out of order"
        if path == "/keys":
            return 200, self.jwks()
        if path == "/.well-known/openid-configuration":
            facts = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} if self.facts is None else self.facts
            return 200, facts if isinstance(facts, bytes) else json.dumps(facts).encode()
        return 404, b"not here"


@contextmanager
def serving(issuer: Issuer) -> Iterator[Issuer]:
    """Serve an issuer at its `url`."""

    class Answering(http_server.Handler):
        def take(self, form: str) -> None:
            self.answer(*issuer.answer(self.path))

    with http_server.serving(Answering) as issuer.url:
        yield issuer

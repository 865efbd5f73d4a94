"""Tokens: whose signatures, claims and times are right, and what becomes of the others; a real issuer over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey, RSAKey

from acceptor.logins import key_sets
from acceptor.logins.backend import AuthError, Decision, Identity
from acceptor.logins.key_sets import Keys
from acceptor.logins.tokens import NO_TOKEN, TokenBackend
from penstock.settings.auth import OAuth2Settings
from tests.acceptor.logins.issuer import AUDIENCE, Issuer, serving

NOW = 1_800_000_000.0


class Asking:
    """A backend whose clock the test sets."""

    def __init__(self, **settings: Any) -> None:
        self.now = 100.0
        self.wall = NOW
        found = OAuth2Settings(**{"resource_server_id": AUDIENCE, **settings})
        self.keys = Keys(found, lambda: self.now)
        self.backend = TokenBackend(found, self.keys, lambda: self.wall)

    def ask(self, token: str) -> Decision:
        decided: list[Decision] = []
        self.backend.check("anyone", token, "192.0.2.1", decided.append)
        assert len(decided) == 1
        return decided[0]

    def user(self, token: str) -> str:
        decision = self.ask(token)
        assert isinstance(decision, Identity), decision
        return decision.rights.user

    def refusal(self, token: str) -> str:
        decision = self.ask(token)
        assert isinstance(decision, str)
        return decision


@pytest.fixture(scope="module")
def running() -> Iterator[Issuer]:
    with serving(Issuer()) as issuer:
        yield issuer


@pytest.fixture
def issuer(running: Issuer) -> Issuer:
    """An issuer with one key, that nobody has asked."""
    running.keys, running.key = running.keys[:1], running.keys[0]
    running.asked.clear()
    running.fails, running.facts = False, None
    return running


@pytest.fixture
def asking(issuer: Issuer) -> Asking:
    return Asking(issuer=issuer.url)


def valid(issuer: Issuer, **claims: Any) -> str:
    return issuer.token(**{"exp": int(NOW) + 600, **claims})


def test_a_token_names_its_user_and_its_rights(issuer: Issuer, asking: Asking) -> None:
    found = asking.ask(valid(issuer, scope="penstock.read:v/q penstock.tag:monitoring"))
    assert isinstance(found, Identity)
    assert found.rights.user == "bob" and found.expires == NOW + 605 and not found.rights.is_internal
    assert found.rights.may("v", "read", "queue", "q") and not found.rights.may("v", "write", "queue", "q")
    assert found.rights.has_tag("monitoring")
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("kind", ["RSA", "EC", "OKP"])
def test_keys_of_each_kind_sign(issuer: Issuer, kind: str) -> None:
    key = issuer.new_key(f"of {kind}", kind)
    assert Asking(jwks_uri=f"{issuer.url}/keys").user(valid(issuer, key=key)) == "bob"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": int(NOW) - 6}, "expired"),
        ({"nbf": int(NOW) + 60}, "not yet valid"),
        ({"exp": "soon"}, "exp"),
        ({"aud": "other"}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://elsewhere.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"sub": None}, "names no user"),
        ({"sub": ""}, "names no user"),
    ],
)
def test_claims_that_let_nobody_in(issuer: Issuer, asking: Asking, claims: dict[str, Any], reason: str) -> None:
    assert reason in asking.refusal(valid(issuer, **claims)).lower()


@pytest.mark.parametrize(
    ("settings", "claims", "user"),
    [
        ({"verify_aud": False}, {"aud": None}, "bob"),
        ({}, {"aud": AUDIENCE}, "bob"),
        ({}, {"exp": None}, "bob"),
        ({}, {"sub": None, "client_id": "robot"}, "robot"),
        ({"preferred_username_claims": ("user_name", "sub")}, {"user_name": "rob"}, "rob"),
    ],
)
def test_claims_that_settings_ask_for(
    issuer: Issuer, settings: dict[str, Any], claims: dict[str, Any], user: str
) -> None:
    assert Asking(jwks_uri=f"{issuer.url}/keys", **settings).user(valid(issuer, **claims)) == user


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": ["penstock.read:v/q"]},
        {"scope": None, "more": "penstock.read:v/q"},
        {"scope": 7, "more": {AUDIENCE: ["penstock.read:v/q", 7], "other": ["penstock.read:v/x"]}},
    ],
)
def test_scopes_stand_in_several_claims(issuer: Issuer, claims: dict[str, Any]) -> None:
    found = Asking(issuer=issuer.url, additional_scopes_key="more").ask(valid(issuer, **claims))
    assert isinstance(found, Identity)
    assert found.rights.may("v", "read", "queue", "q") and not found.rights.may("v", "read", "queue", "x")


def test_a_prefix_of_scopes_may_be_chosen(issuer: Issuer) -> None:
    found = Asking(issuer=issuer.url, scope_prefix="").ask(valid(issuer, scope="read:v/q"))
    assert isinstance(found, Identity) and found.rights.may("v", "read", "queue", "q")


def encoded(facts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")


def forged(issuer: Issuer) -> Iterator[str]:
    """Yield tokens that nobody has signed as they claim."""
    header, body, signature = valid(issuer).split(".")
    other = encoded({"sub": "eve", "aud": AUDIENCE, "iss": issuer.url, "exp": NOW + 600})
    yield f"{header}.{other}.{signature}"
    yield f"{header}.{body}.{signature[:-8]}AAAAAAAA"
    yield f"{header}.{body}."
    yield f"{encoded({'alg': 'none'})}.{other}."
    yield f"{encoded({'alg': 'none', 'kid': 'first'})}.{other}.{signature}"
    public = json.dumps(issuer.key.as_dict(private=False)).encode()
    yield valid(issuer, key=OctKey.import_key(public, {"kid": "first"}), algorithm="HS256")
    yield valid(issuer, key=RSAKey.generate_key(2048, {"kid": "first"}))
    yield f"{encoded({'alg': 'RS256', 'kid': 'first', 'crit': ['b64'], 'b64': False})}.{body}.{signature}"
    yield from ("..", "a.b.c", f"{encoded([])}.{body}.{signature}", f"{encoded('x')}.{body}.{signature}")
    yield f"{encoded({'alg': 7, 'kid': ['first']})}.{body}.{signature}"
    yield f"{header}.{encoded([1])}.{signature}"
    yield f"{base64.urlsafe_b64encode(b'[' * 5000).decode()}.{body}.{signature}"
    yield valid(issuer, exp=10**400)
    yield "é.\ud800.\0"
    yield f"{header}.{'A' * 100_000}.{signature}"


def test_forged_tokens_are_refused(issuer: Issuer, asking: Asking) -> None:
    for token in forged(issuer):
        assert asking.refusal(token)
    assert asking.user(valid(issuer)) == "bob"


def test_a_password_is_no_token(asking: Asking) -> None:
    assert [asking.refusal(each) for each in ("secret", "", "a.b", "1.2.3.4")] == [NO_TOKEN] * 4


def test_new_keys_are_fetched_when_a_token_needs_them_and_not_too_often(issuer: Issuer, asking: Asking) -> None:
    assert asking.user(valid(issuer)) == "bob"
    new = issuer.new_key("second")
    issuer.asked.clear()
    assert "not known" in asking.refusal(valid(issuer, key=new))
    assert not issuer.asked
    asking.now += key_sets.RETRY_SECONDS
    assert asking.user(valid(issuer, key=new)) == "bob"
    assert "/keys" in issuer.asked


def test_old_keys_go_on_counting_while_the_issuer_is_out_of_order(issuer: Issuer, asking: Asking) -> None:
    assert asking.user(valid(issuer)) == "bob"
    issuer.fails = True
    asking.now += 4000
    assert asking.keys.are_old()
    assert asking.user(valid(issuer)) == "bob"
    issuer.fails = False
    asking.now += key_sets.RETRY_SECONDS
    assert asking.user(valid(issuer)) == "bob"
    assert not asking.keys.are_old()


def test_a_key_that_the_issuer_has_withdrawn_counts_no_more(issuer: Issuer, asking: Asking) -> None:
    token = valid(issuer)
    assert asking.user(token) == "bob"
    issuer.new_key("second")
    issuer.keys = issuer.keys[1:]
    asking.now += 4000
    assert asking.user(token) == "bob"
    assert "not known" in asking.refusal(token)
    issuer.keys = [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]


@pytest.mark.parametrize("facts", [{}, {"jwks_uri": 7}, {"jwks_uri": "http://keys.example/"}, [], b"<html>", b""])
def test_an_issuer_that_names_no_safe_address_of_its_keys(issuer: Issuer, asking: Asking, facts: Any) -> None:
    issuer.facts = facts
    assert "not known" in asking.refusal(valid(issuer))
    assert issuer.asked == ["/.well-known/openid-configuration"]


def test_logins_that_wait_for_keys_share_a_fetch(issuer: Issuer, asking: Asking) -> None:
    work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
    asking.keys.background = lambda do, done: work.append((do, done))
    decided: list[Decision] = []
    for _ in range(3):
        asking.backend.check("", valid(issuer), "", decided.append)
    assert not decided and len(work) == 1
    do, done = work[0]
    done(do())
    assert len([each for each in decided if isinstance(each, Identity)]) == 3


def test_a_new_token_is_of_the_same_user(issuer: Issuer, asking: Asking) -> None:
    found = asking.ask(valid(issuer))
    assert isinstance(found, Identity)
    decided: list[Decision] = []
    asking.backend.renew(found, valid(issuer, exp=int(NOW) + 9000), decided.append)
    asking.backend.renew(found, valid(issuer, sub="eve"), decided.append)
    asking.backend.renew(found, "secret", decided.append)
    assert isinstance(decided[0], Identity) and decided[0].expires == NOW + 9005
    assert decided[1:] == ["the new token is of user 'eve'", NO_TOKEN]


def test_keys_come_from_files(issuer: Issuer, tmp_path: Path) -> None:
    other = RSAKey.generate_key(2048, {"kid": "pem"})
    (tmp_path / "set.json").write_bytes(issuer.jwks())
    (tmp_path / "pem.pem").write_bytes(other.as_pem(private=False))
    asking = Asking(keys=(tmp_path / "set.json", tmp_path / "pem.pem"))
    assert asking.user(valid(issuer)) == asking.user(valid(issuer, key=other)) == "bob"
    assert not issuer.asked


@pytest.mark.parametrize("content", ["", "{}", '{"keys": 7}', '{"keys": [{"kty": "RSA"}]}', "no key"])
def test_a_file_without_keys_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(AuthError, match=str(path)):
        Asking(keys=(path,))


def test_keys_for_encryption_and_secrets_sign_nothing(issuer: Issuer, tmp_path: Path) -> None:
    kept = {**issuer.key.as_dict(private=False), "use": "enc"}
    secret = OctKey.generate_key(256, {"kid": "secret"})
    (tmp_path / "set.json").write_text(json.dumps({"keys": [kept, secret.as_dict(private=True)]}))
    asking = Asking(keys=(tmp_path / "set.json",))
    assert "not known" in asking.refusal(valid(issuer))
    assert asking.refusal(valid(issuer, key=secret, algorithm="HS256"))


SIGNING = Issuer()
"""An issuer that is not served."""
OFFLINE = Asking()
OFFLINE.keys._own = [SIGNING.key]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "zip"]), JSON)
WORDS = st.text(max_size=30) | st.binary(max_size=30).map(lambda data: base64.urlsafe_b64encode(data).decode())


@given(st.tuples(HEADERS.map(encoded) | WORDS, JSON.map(encoded) | WORDS, WORDS))
def test_whatever_is_no_token_is_refused(token: tuple[str, str, str]) -> None:
    assert isinstance(OFFLINE.ask(".".join(token)), str)


@given(st.dictionaries(st.sampled_from(["sub", "aud", "exp", "nbf", "iat", "scope", "client_id"]), JSON))
def test_whatever_an_issuer_signs_is_read(claims: dict[str, Any]) -> None:
    token = SIGNING.token(**{"iss": "x", "aud": AUDIENCE, "exp": int(NOW) + 600, **claims})
    assert isinstance(OFFLINE.ask(token), str | Identity)

"""The settings of authentication: the backends that decide who a client is and what it may do."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.settings.values import FilePath, FilePaths, Names, lower, parse_names

BackendName = Literal["internal", "oauth2", "http"]


def _check_url(text: str) -> str:
    if not text:
        return text
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError("is no URL") from None
    if url.scheme not in ("http", "https") or not host:
        raise ValueError("is no URL that begins with http:// or https://")
    if url.username or url.password:
        raise ValueError("has a user or a password in it: settings are shown and logged")
    return text


def is_safe_url(text: str) -> bool:
    """Whether nobody between its server and this machine can change what a URL returns."""
    url = urlsplit(text)
    return url.scheme == "https" or (url.scheme == "http" and is_here(url.hostname or ""))


def _check_safe(text: str) -> str:
    """Check the URL of keys: whoever could change them could make tokens."""
    if _check_url(text) and not is_safe_url(text):
        raise ValueError("has to begin with https://, as keys come from there; http:// is for this machine only")
    return text


def is_here(host: str) -> bool:
    """Whether an address, or a name, is that of this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _are_different(names: Sequence[BackendName]) -> Sequence[BackendName]:
    if not names or len(set(names)) != len(names):
        raise ValueError("name at least one backend, and each once")
    return names


Url = Annotated[str, AfterValidator(_check_url)]
SafeUrl = Annotated[str, AfterValidator(_check_safe)]
Backends = Annotated[tuple[BackendName, ...], BeforeValidator(parse_names), AfterValidator(_are_different)]


class OAuth2Settings(BaseModel):
    """[Tokens](auth.md#tokens) (OAuth 2, OpenID Connect): a JWT in the place of the password. Names are RabbitMQ's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource_server_id: str = Field(
        default="",
        description="name of this node, or of all that accept the same tokens: the audience (aud) of tokens",
        json_schema_extra={"default_text": "none"},
    )
    issuer: SafeUrl = Field(
        default="",
        description="URL of the issuer (iss) of tokens; where neither jwks_uri nor keys are given, it is asked for "
        "the address of its keys (OpenID Connect Discovery)",
        json_schema_extra={"default_text": "none"},
    )
    jwks_uri: SafeUrl = Field(
        default="",
        description="URL of the issuer's public keys, as a JWK set",
        json_schema_extra={"default_text": "none"},
    )
    keys: FilePaths = Field(
        default=(),
        description="files with public keys that sign tokens, each a JWK set or PEM, separated by commas",
        json_schema_extra={"default_text": "none"},
    )
    authorities: FilePath | None = Field(
        default=None,
        description="file with the certificates of the authorities, in PEM, of the issuer's server",
        json_schema_extra={"default_text": "those of the system"},
    )
    algorithms: Names = Field(
        default=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
        description="signatures that are accepted, separated by commas",
        json_schema_extra={"default_text": "RSA, ECDSA and Ed25519 with SHA-2"},
    )
    verify_aud: bool = Field(default=True, description="refuse tokens that are not for resource_server_id")
    scope_prefix: str | None = Field(
        default=None,
        description="beginning of the scopes that are permissions here",
        json_schema_extra={"default_text": "resource_server_id and a dot"},
    )
    additional_scopes_key: str = Field(
        default="",
        description="further claim that has scopes, beside scope",
        json_schema_extra={"default_text": "none"},
    )
    preferred_username_claims: Names = Field(
        default=("sub", "client_id"),
        description="claims of which the first one present is the user's name",
        json_schema_extra={"default_text": "sub, client_id"},
    )
    refresh_seconds: float = Field(
        default=3600.0, gt=0, description="age at which the issuer's keys are fetched anew, in seconds"
    )
    timeout: float = Field(default=5.0, gt=0, le=60, description="time to fetch the issuer's keys, in seconds")

    @property
    def prefix(self) -> str:
        """The prefix of scopes."""
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix


class HttpAuthSettings(BaseModel):
    """[An HTTP service](auth.md#an-http-service) that decides on clients. Names and calls are RabbitMQ's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_path: Url = Field(
        default="", description="URL that decides on user and password", json_schema_extra={"default_text": "none"}
    )
    vhost_path: Url = Field(
        default="", description="URL that decides on the use of a vhost", json_schema_extra={"default_text": "none"}
    )
    resource_path: Url = Field(
        default="",
        description="URL that decides on the use of a queue or an exchange",
        json_schema_extra={"default_text": "none"},
    )
    topic_path: Url = Field(
        default="",
        description="URL that decides on a routing key of a topic exchange",
        json_schema_extra={"default_text": "none"},
    )
    http_method: Annotated[Literal["get", "post"], BeforeValidator(lower)] = Field(
        default="get", description="method of the calls: get or post"
    )
    authorities: FilePath | None = Field(
        default=None,
        description="file with the certificates of the authorities, in PEM, of the service",
        json_schema_extra={"default_text": "those of the system"},
    )
    timeout: float = Field(default=5.0, gt=0, le=60, description="time that a call may take, in seconds")
    cache_seconds: float = Field(default=15.0, gt=0, le=3600, description="time for which an answer counts, in seconds")

    @model_validator(mode="after")
    def _has_all_paths(self) -> Self:
        paths = (self.user_path, self.vhost_path, self.resource_path, self.topic_path)
        if any(paths) and not all(paths):
            raise ValueError("needs user_path, vhost_path, resource_path and topic_path")
        return self


class AuthSettings(BaseModel):
    """[Who a client is](auth.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backends: Backends = Field(
        default=("internal",),
        description="backends that are asked in turn until one knows the client, separated by commas: internal (the "
        "node's own users), oauth2 (tokens), http; the one that accepts a client decides what it may do",
        json_schema_extra={"default_text": "internal"},
    )
    oauth2: OAuth2Settings = OAuth2Settings()
    http: HttpAuthSettings = HttpAuthSettings()

    @model_validator(mode="after")
    def _backends_are_complete(self) -> Self:
        if "oauth2" in self.backends:
            if not self.oauth2.resource_server_id:
                raise ValueError("backends has oauth2, which needs oauth2.resource_server_id")
            if not (self.oauth2.issuer or self.oauth2.jwks_uri or self.oauth2.keys):
                raise ValueError("backends has oauth2, which needs oauth2.issuer, jwks_uri or keys")
        if "http" in self.backends and not self.http.user_path:
            raise ValueError("backends has http, which needs http.user_path and the other paths")
        return self

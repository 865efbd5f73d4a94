"""The settings of further listeners, beside the plain one that `host` and `port` give."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.settings.values import FilePath, FilePaths, Name, Networks, lower

LISTENERS_MOST = 16
"""Listeners of a node, beside the plain one."""
TLS_PORT = 5671
"""The port of AMQP over TLS (IANA: amqps)."""


TlsVersion = Literal["1.2", "1.3"]


class ClientCertificates(StrEnum):
    """What a TLS listener wants of its clients."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class LoginFrom(StrEnum):
    """The part of a client's certificate that names the user (RabbitMQ: ssl_cert_login_from)."""

    COMMON_NAME = "common_name"
    DISTINGUISHED_NAME = "distinguished_name"
    DNS = "san_dns"
    EMAIL = "san_email"
    URI = "san_uri"


class ListenerSettings(BaseModel):
    """[Further listeners](tls.md), each with a NAME: with certificates they speak TLS. `host` and `port` above are
    those of the plain listener, which `plain` switches off.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", min_length=1, description="address AMQP is served on")
    port: int = Field(default=TLS_PORT, ge=0, le=65535, description="TCP port AMQP is served on; 0 takes a free one")
    certificates: FilePaths = Field(
        default=(),
        description="files with a certificate and its chain in PEM, separated by commas: clients get the first one "
        "that is for the name that they ask for, or the first; none is a listener without TLS",
        json_schema_extra={"default_text": "none"},
    )
    keys: FilePaths = Field(
        default=(),
        description="files with the private keys of the certificates, in their order; where none are given, each is "
        "in the file of its certificate",
        json_schema_extra={"default_text": "those in the files of the certificates"},
    )
    client_certificates: Annotated[ClientCertificates, BeforeValidator(lower)] = Field(
        default=ClientCertificates.NONE,
        description="certificates of clients: none, optional or required; a client with one may log in with EXTERNAL",
    )
    client_authorities: FilePath | None = Field(
        default=None,
        description="file with the certificates of the authorities, in PEM, that issue those of clients",
        json_schema_extra={"default_text": "none"},
    )
    login_from: Annotated[LoginFrom, BeforeValidator(lower)] = Field(
        default=LoginFrom.COMMON_NAME,
        description="part of a client's certificate that is the user's name with EXTERNAL: common_name, "
        "distinguished_name, san_dns, san_email or san_uri (the first one of its kind)",
    )
    proxy_protocol: Networks = Field(
        default=(),
        description="addresses and networks of proxies, separated by commas, that begin each connection with a PROXY "
        "header; connections from elsewhere, or without a header, are refused; none takes no headers",
        json_schema_extra={"default_text": "none"},
    )
    tls_version: TlsVersion = Field(default="1.2", description="oldest version of TLS that is accepted: 1.2 or 1.3")
    ciphers: str = Field(
        default="ECDHE+AESGCM:ECDHE+CHACHA20",
        min_length=1,
        description="ciphers for TLS 1.2, as OpenSSL writes them; those of TLS 1.3 are OpenSSL's",
    )

    @property
    def is_tls(self) -> bool:
        """Whether the listener speaks TLS."""
        return bool(self.certificates)

    @property
    def is_local(self) -> bool:
        """Whether a client of this machine can connect without TLS."""
        return not (self.is_tls or self.proxy_protocol)

    @property
    def pairs(self) -> list[tuple[Path, Path]]:
        """The certificates with their keys."""
        return list(zip(self.certificates, self.keys or self.certificates, strict=True))

    @model_validator(mode="after")
    def _has_a_key_for_each(self) -> Self:
        if self.keys and len(self.keys) != len(self.certificates):
            raise ValueError(f"there are {len(self.certificates)} certificates and {len(self.keys)} keys")
        return self

    @model_validator(mode="after")
    def _can_check_clients(self) -> Self:
        wanted = self.client_certificates is not ClientCertificates.NONE
        if wanted and not self.certificates:
            raise ValueError("client_certificates needs certificates: a listener without them has no TLS")
        if wanted and self.client_authorities is None:
            raise ValueError("client_certificates needs client_authorities, which issue them")
        if self.client_authorities is not None and not wanted:
            raise ValueError("client_authorities needs client_certificates, optional or required")
        return self


class Listening(BaseModel):
    """Where a node serves AMQP."""

    host: str = Field(default="127.0.0.1", min_length=1, description="address AMQP is served on")
    port: int = Field(default=5672, ge=0, le=65535, description="TCP port AMQP is served on; 0 takes a free one")
    plain: bool = Field(
        default=True,
        description="whether AMQP is served on `host` and `port`, without TLS; if not, only `listeners` serve it",
    )
    listeners: dict[Name, ListenerSettings] = Field(
        default={}, max_length=LISTENERS_MOST, description="further listeners by name"
    )

    @model_validator(mode="after")
    def _has_a_listener(self) -> Self:
        if not (self.plain or self.listeners):
            raise ValueError("plain is off, and there are no listeners: nothing would be served")
        return self

"""The settings of the HTTP interface: API, console and metrics."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.settings.listeners import ListenerSettings
from penstock.settings.values import FilePath

HTTP_PORT = 15672
METRICS_PORT = 15692


class HttpSettings(BaseModel):
    """The [HTTP interface](http.md): the API, the console and [metrics](metrics.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="whether the node has an HTTP interface")
    host: str = Field(default="127.0.0.1", min_length=1, description="address that HTTP is served on")
    port: int = Field(
        default=HTTP_PORT,
        ge=0,
        le=65535,
        description="TCP port of the API, the console and metrics for users; 0 takes a free one",
    )
    metrics: bool = Field(
        default=True, description="whether metrics are served on a port of their own as well, without a login"
    )
    metrics_port: int = Field(
        default=METRICS_PORT, ge=0, le=65535, description="TCP port of the metrics; 0 takes a free one"
    )
    certificate: FilePath | None = Field(
        default=None,
        description="file with a certificate and its chain in PEM; with one, both ports speak TLS",
        json_schema_extra={"default_text": "none"},
    )
    key: FilePath | None = Field(
        default=None,
        description="file with the private key of the certificate",
        json_schema_extra={"default_text": "that in the file of the certificate"},
    )
    connections: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="maximum number of connections of each port; a further one takes the place of the one that has "
        "waited longest for a request, or is refused if all have requests under way",
    )
    idle_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="time a client may take to send a request, to send the next one, or to read anything of an "
        "answer, in seconds",
    )

    report: FilePath | None = Field(
        default=None,
        description="the page that `penstock pipeline report --html` has written last, which the console shows",
        json_schema_extra={"default_text": "`report.html` in the data directory"},
    )

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """Host and port of each port, by name: "api" and "metrics"."""
        ports = {"api": self.port, **({"metrics": self.metrics_port} if self.metrics else {})}
        return {name: (self.host, port) for name, port in ports.items()} if self.enabled else {}

    @property
    def secured(self) -> ListenerSettings | None:
        """The settings of a listener with its certificate; None without TLS."""
        if self.certificate is None:
            return None
        keys = () if self.key is None else (self.key,)
        return ListenerSettings(host=self.host, certificates=(self.certificate,), keys=keys)

    @model_validator(mode="after")
    def _has_a_certificate_for_its_key(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("key needs certificate")
        return self

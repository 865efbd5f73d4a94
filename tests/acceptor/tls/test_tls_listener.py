"""Certificates that are replaced while a listener serves, and those that expire."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from acceptor.tls.tls_listener import TlsListener
from ops.tls.authority import Authority
from penstock.settings.listeners import ListenerSettings
from penstock.tls.certificates import now
from penstock.tls.contexts import outer_context
from tests import certificates
from tests.acceptor.tls.test_stream import connected
from tests.certificates import YEAR, ClientSession


def listener_of(settings: ListenerSettings) -> TlsListener:
    """Return a listener that serves."""
    return TlsListener("public", settings, outer_context(settings))


def served(listener: TlsListener, client: ClientSession | None = None) -> str:
    """Return the serial number of the certificate that a client gets."""
    _, met = connected(listener.context, client)
    return str((met.session.getpeercert() or {})["serialNumber"])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a certificate's file that no other test has."""
    path = tmp_path / "server.pem"
    path.write_bytes(certificates.server().read_bytes())
    return path


def renew(path: Path) -> None:
    """Put a new certificate in the place of a listener's."""
    certificates.authority().server(["localhost"], YEAR, "renewed.pem").replace(path)


def test_a_new_certificate_is_served_and_open_sessions_go_on(own: Path) -> None:
    listener = listener_of(certificates.settings(certificates=[own]))
    stream, client = connected(listener.context)
    before = served(listener)
    renew(own)
    with capture_logs() as logs:
        listener.refresh()
        listener.refresh()
    assert [line["event"] for line in logs] == ["certificates loaded"]
    assert served(listener) != before
    assert client.read(b"".join(stream.encrypt([b"still here"]))) == b"still here"


def test_files_that_do_not_match_change_nothing(own: Path) -> None:
    listener = listener_of(certificates.settings(certificates=[own]))
    before = served(listener)
    own.write_bytes(own.read_bytes()[:300])
    with capture_logs() as logs:
        listener.refresh()
        listener.refresh()
    assert [(line["log_level"], line["listener"]) for line in logs] == [("error", "public")]
    assert str(own) in logs[0]["problem"]
    assert served(listener) == before
    own.unlink()
    with capture_logs() as logs:
        listener.refresh()
    assert "No such file" in logs[0]["problem"]
    renew(own)
    listener.refresh()
    assert served(listener) != before


def test_an_operator_may_ask_although_nothing_has_changed(own: Path) -> None:
    listener = listener_of(certificates.settings(certificates=[own]))
    with capture_logs() as logs:
        listener.refresh(asked=True)
    assert [line["event"] for line in logs] == ["certificates loaded"]


def test_sessions_are_resumed_until_the_authorities_of_clients_change(own: Path, tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes((certificates.authority().directory / "authority.pem").read_bytes())
    wanted = {"client_certificates": "required", "client_authorities": authorities}
    listener = listener_of(certificates.settings(certificates=[own], **wanted))
    context = certificates.client_context(certificates.client())
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # a session of 1.3 cannot be taken without a socket
    _, first = connected(listener.context, ClientSession(context))

    def is_resumed() -> bool:
        stream, client = connected(listener.context, ClientSession(context, resumes=first.session.session))
        assert stream.certificate() is not None
        return bool(client.session.session_reused)

    renew(own)
    listener.refresh()
    assert is_resumed()
    foreign = Authority.at(certificates.authority().directory / "foreign", YEAR)
    authorities.write_bytes(authorities.read_bytes() + (foreign.directory / "authority.pem").read_bytes())
    listener.refresh()
    assert not is_resumed()
    unknown = certificates.client_context()
    unknown.load_cert_chain(certificates.foreign_client())
    connected(listener.context, ClientSession(unknown))


def test_a_certificate_that_expires_is_said_once_a_day(own: Path) -> None:
    certificates.authority().server(["localhost"], timedelta(days=20), "short.pem").replace(own)
    listener = listener_of(certificates.settings(certificates=[own, certificates.server()]))
    began = now()

    def said(days: float) -> list[str]:
        with capture_logs() as logs:
            events = listener.expiring(began + timedelta(days=days))
        assert all(each["certificate"] == str(own) for each in (*logs, *events))
        return [
            f"{line['log_level']}: {line['event']}; {event['event']}" for line, event in zip(logs, events, strict=True)
        ]

    soon = ["warning: certificate expires soon; certificate_expiring"]
    late = ["warning: certificate has expired; certificate_expired"]
    assert [said(days) for days in (0, 0.5, 1, 19.5, 20.1, 20.5, 21.2)] == [soon, [], soon, soon, late, [], late]
    renew(own)
    listener.refresh()
    assert said(0) == []


def test_the_event_of_a_certificate_has_its_listener_and_its_end(own: Path) -> None:
    certificates.authority().server(["localhost"], timedelta(days=20), "short.pem").replace(own)
    listener = listener_of(certificates.settings(certificates=[own]))
    (certificate,) = listener.certificates
    about = {
        "vhost": "/", "queue": "public", "of": "listener", "certificate": str(own), "subject": certificate.subject,
        "expires": certificate.not_after.isoformat(), "seconds": 3600,
    }  # fmt: skip
    hour = timedelta(hours=1)
    assert listener.expiring(certificate.not_after - hour) == [{"event": "certificate_expiring", **about}]
    assert listener.expiring(certificate.not_after + hour) == [{"event": "certificate_expired", **about}]


def test_a_listener_with_a_missing_file_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"missing\.pem: No such file"):
        listener_of(certificates.settings(certificates=[tmp_path / "missing.pem"]))

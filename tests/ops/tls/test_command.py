"""`penstock tls`: make, show, list and check."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.errors import CommandError
from ops.tls.command import _address, app
from tests import certificates


def called(*words: str) -> Result:
    """Return the outcome of a command."""
    return CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})


@contextmanager
def served(certificate: Path, *, answers: bool = True) -> Iterator[str]:
    """Yield the address of a TLS server with a certificate; one that does not answer hangs up."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    try:
                        if answers:
                            context.wrap_socket(client, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_make_says_what_it_has_made(tmp_path: Path) -> None:
    done = called("make", str(tmp_path / "new"), "localhost", "--client", "guest", "--client", "ann")
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["authority", f"{tmp_path}/new/authority.pem"],
        ["server", f"{tmp_path}/new/server.pem"],
        ["client", f"{tmp_path}/new/client-guest.pem"],
        ["client", f"{tmp_path}/new/client-ann.pem"],
    ]


def test_make_refuses_a_name_that_no_certificate_can_have(tmp_path: Path) -> None:
    done = called("make", str(tmp_path), "bücher.example")
    assert isinstance(done.exception, CommandError)
    assert str(done.exception).startswith(f"cannot make certificates in {tmp_path}: ")
    assert "\n" not in str(done.exception)


def test_show_tells_whether_a_client_would_trust_the_server() -> None:
    authorities = str(certificates.authority().directory / "authority.pem")
    with served(certificates.server()) as address:
        done = called("show", address, "--authorities", authorities, "--json")
        assert done.exit_code == 0
        (found,) = json.loads(done.stdout)
        assert (found["subject"], found["version"], found["problem"]) == ("CN=localhost", "TLSv1.3", "")
        done = called("show", address, "--authorities", authorities, "--name", "elsewhere.net", "--json")
        assert done.exit_code == 1 and "elsewhere.net" in json.loads(done.stdout)[0]["problem"]
        done = called("show", address, "--json")
        assert done.exit_code == 1 and "issuer" in json.loads(done.stdout)[0]["problem"]


def test_show_names_a_server_that_does_not_speak_tls() -> None:
    with served(certificates.server(), answers=False) as address:
        done = called("show", address)
        assert isinstance(done.exception, CommandError) and str(done.exception).startswith(f"no TLS at {address}: ")
    assert isinstance(called("show", address).exception, CommandError)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost", ("localhost", 5671)), ("localhost:1", ("localhost", 1)), ("[::1]", ("::1", 5671)),
        ("[::1]:77", ("::1", 77)),
    ],
)  # fmt: skip
def test_an_address_is_a_host_with_or_without_a_port(text: str, found: tuple[str, int]) -> None:
    assert _address(text) == found


@pytest.mark.parametrize(
    "text", ["", ":5671", "host:", "host:port", "host:65536", "::1", "[::1", "[::1]5671", "host:-1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match=r"is no HOST\[:PORT\]"):
        _address(text)


def test_check_lists_what_a_configuration_would_serve(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(f'[listeners.public]\ncertificates = "{certificates.server()}"\n[listeners.inner]\nport = 1\n')
    done = called("check", "--config", str(config), "--json")
    (found,) = json.loads(done.stdout)
    assert (found["listener"], found["subject"]) == ("public", "CN=localhost")
    config.write_text(f'[listeners.public]\ncertificates = "{tmp_path}/missing.pem"\n')
    done = called("check", "--config", str(config))
    assert str(done.exception) == f"listeners.public: certificate {tmp_path}/missing.pem: No such file or directory"

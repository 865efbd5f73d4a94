"""TLS of the HTTP interface on a real node: certificates, their replacement, versions, and how a wrong one is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import urllib3

from tests import certificates
from tests.certificates import YEAR
from tests.console.http.node import FREE_PORTS, HttpBroker, connected
from tests.twins import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def serial(node: HttpBroker, port: str = "api", context: ssl.SSLContext | None = None) -> str:
    """Return the serial number of the certificate that a port serves."""
    context = context or certificates.client_context()
    with connected(node, port) as plain, context.wrap_socket(plain, server_hostname="localhost") as session:
        return str((session.getpeercert() or {})["serialNumber"])


def test_both_ports_speak_tls_with_a_certificate_that_may_be_replaced(tmp_path: Path) -> None:
    own = tmp_path / "http.pem"
    own.write_bytes(certificates.server().read_bytes())
    context = certificates.client_context()
    with HttpBroker(tmp_path, f"http.certificate={own}") as node:
        assert node.get("/api/overview", tls=context).status == 200
        assert node.get("/metrics", port="metrics", tls=context).status == 200
        login = {"username": "guest", "password": "guest"}
        cookie = node.request("POST", "/api/session", login, user=None, tls=context).headers["set-cookie"]
        assert cookie.startswith("__Host-penstock=") and "Secure" in cookie
        operators_see_it(node)

        old = certificates.client_context()
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError, match=r"(?i)protocol|version|alert|reset"):
            serial(node, context=old)
        for sent in (b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("1603010005") + b"\xff" * 5, b"\0" * 1000):
            with connected(node) as client:
                client.sendall(sent)
                assert b"HTTP" not in client.recv(1000)

        before = serial(node)
        certificates.authority().server(["localhost"], YEAR, "renewed-http.pem").replace(own)
        wait_for(lambda: serial(node) != before)
        after = serial(node)
        own.write_bytes(b"half")
        wait_for(lambda: "the old ones serve on" in node.log)
        assert serial(node, "metrics") == after
        certificates.authority().server(["localhost"], YEAR, "renewed-http.pem").replace(own)
        os.kill(node.pid, signal.SIGHUP)
        wait_for(lambda: serial(node) != after)


def test_its_end_is_an_event_and_it_is_listed(tmp_path: Path) -> None:
    own = tmp_path / "http.pem"
    certificates.authority().server(["localhost", "127.0.0.1"], timedelta(days=20), "short-http.pem").replace(own)
    with HttpBroker(tmp_path, f"http.certificate={own}") as node, node.connect() as client:
        channel = client.channel()
        channel.call("queue.declare", queue="events")
        channel.call("queue.bind", queue="events", exchange="amq.flow", routing_key="certificate_expired.#")
        listed = json.loads(node.penstock("tls", "list", "--json").stdout)
        assert [(each["listener"], each["certificate"]) for each in listed] == [("http", str(own))]
        asked = node.get("/api/certificates", tls=certificates.client_context()).json
        assert [each["subject"] for each in asked] == [listed[0]["subject"]]
        health = "/api/health/checks/certificate-expiration"
        assert node.get(f"{health}/1/weeks", tls=certificates.client_context()).status == 200
        assert node.get(f"{health}/1/months", tls=certificates.client_context()).json["expired"][0]["name"] == "http"
        certificates.authority().server(["localhost", "127.0.0.1"], timedelta(seconds=-60), "ended-http.pem").replace(
            own
        )
        event = wait_for(lambda: channel.get("events"), what="the event")
        facts = json.loads(event.body)
        assert (facts["event"], facts["queue"], facts["certificate"]) == ("certificate_expired", "http", str(own))
        assert "certificate expires soon" in node.log and "certificate has expired" in node.log


def operators_see_it(node: HttpBroker) -> None:
    """Status, health and the line at the start say where HTTP is served."""
    address = node.http()
    status = json.loads(node.penstock("status", "--json").stdout)["node"]
    assert [(each["name"], each["tls"]) for each in status["http"]] == [("api", True), ("metrics", True)]
    assert f"HTTP (api) on {address.host}:{address.port} with TLS" in node.penstock("status").stdout
    health = node.penstock("health").stdout
    assert f"api on {address.host}:{address.port} with TLS answers" in health and "1 valid for a while" in health
    assert f'"http":{{"api":"{address.host}:{address.port}"' in node.log


def test_a_wrong_certificate_is_told_in_one_line_before_the_node_is_ready(tmp_path: Path) -> None:
    missing, other = tmp_path / "missing.pem", certificates.server("other")
    for settings, reason in (
        ([f"certificate={missing}"], f"http: certificate {missing}: No such file or directory"),
        ([f"certificate={certificates.server()}", f"key={other}"], "KEY_VALUES_MISMATCH"),
        ([f"key={other}"], "key needs certificate"),
    ):
        given = [part for each in settings for part in ("--set", f"http.{each}")]
        given += [part for each in FREE_PORTS for part in ("--set", each)]
        serve = [sys.executable, "-m", "ops", "serve", "--port", "0", "--data", str(tmp_path / "data"), *given]
        done = subprocess.run(serve, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_clients_that_do_not_shake_hands_keep_nobody_out(tmp_path: Path) -> None:
    settings = (f"http.certificate={certificates.server()}", "http.connections=10")
    with HttpBroker(tmp_path, *settings) as node:
        silent = [connected(node) for _ in range(8)]
        wait_for(lambda: "HTTP connections refused" in node.log or all(is_open(each) for each in silent))
        assert node.get("/metrics", port="metrics", tls=certificates.client_context()).status == 200
        for each in silent:
            each.close()
        wait_for(lambda: answers(node), what="room for others")


def answers(node: HttpBroker) -> bool:
    """Whether a client is served: it is refused while others have not shaken hands."""
    try:
        return node.get("/api/overview", tls=certificates.client_context()).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def is_open(client: socket.socket) -> bool:
    """Whether the node has not hung up."""
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False

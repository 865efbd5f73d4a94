"""The listeners of a running node, from its node file and the files of certificates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from ops.listeners import described, expiring, listeners, when
from ops.running import Running
from penstock.node.node import Node
from penstock.settings.sources import load_settings
from tests import certificates


def running(tmp_path: Path, *files: Path, more: Sequence[str] = ()) -> Running:
    """Return a node with a listener that has certificates, and one that has none."""
    given = ["listeners.public.certificates=" + ",".join(map(str, files)), "listeners.inner.port=0", *more]
    places = {"public": ("::1", 5671), "inner": ("127.0.0.1", 40000)}
    settings = load_settings(assignments=[f"data={tmp_path}", *given])
    Node(1, tmp_path, tmp_path / "gauges", "127.0.0.1", 5672, settings, 0, listeners=places).store()
    return Running.load(tmp_path)


def test_each_listener_has_its_address_and_its_certificates(tmp_path: Path) -> None:
    short = certificates.authority().server(["localhost"], timedelta(days=9), "nine-days.pem")
    old = certificates.authority().server(["localhost"], timedelta(days=-1), "expired.pem")
    missing = tmp_path / "missing.pem"
    plain, public, inner = listeners(running(tmp_path, certificates.server(), short, old, missing))
    assert (plain["name"], plain["address"], plain["tls"]) == ("", "127.0.0.1:5672", False)
    assert (inner["name"], inner["address"], inner["tls"]) == ("inner", "127.0.0.1:40000", False)
    assert (public["name"], public["address"], public["tls"]) == ("public", "[::1]:5671", True)
    left = {each["file"]: each["seconds_left"] for each in public["certificates"]}
    assert left[str(missing)] is None
    assert {file for file, _ in expiring([plain, public, inner])} == {str(short), str(old)}
    assert when(left[str(short)]).startswith("expires in ") and when(left[str(old)]) == "has expired"


def test_without_the_plain_listener_the_first_one_is_another(tmp_path: Path) -> None:
    more = ["plain=false", "listeners.public.proxy_protocol=10.0.0.1"]
    public, inner = listeners(running(tmp_path, certificates.server(), more=more))
    assert [described(each) for each in (public, inner)] == ["[::1]:5671 with TLS", "127.0.0.1:40000"]
    assert (public["proxied"], inner["proxied"]) == (True, False)

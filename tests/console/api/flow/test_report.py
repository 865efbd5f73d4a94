"""The pipeline's last report over HTTP, on a real node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from console.api.flow.report import HEADERS, REPORT_MOST
from tests.console.http.node import HttpBroker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

PAGE = "<!doctype html><title>ü</title><style>p { color: red }</style><p style='margin: 0'>…"
WRITTEN = 1_790_000_000


@pytest.fixture
def path(node: HttpBroker) -> Iterator[Path]:
    """The place of the report, which a test fills."""
    path = node.directory / "data" / "report.html"
    yield path
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)


def test_a_report_is_served_and_can_do_nothing(node: HttpBroker, path: Path) -> None:
    path.write_text(PAGE)
    os.utime(path, (WRITTEN, WRITTEN))
    found = node.get("/api/report", user=("reader", "reader"))
    assert (found.status, found.body.decode()) == (200, PAGE)
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert parsedate_to_datetime(found.headers["last-modified"]).timestamp() == WRITTEN
    assert {name: found.headers[name] for name in HEADERS} == HEADERS
    assert found.headers["content-security-policy"].startswith("sandbox; default-src 'none'; ")
    head = node.request("HEAD", "/api/report")
    assert (head.status, head.body, head.headers["last-modified"]) == (200, b"", found.headers["last-modified"])


def test_without_a_report_the_command_is_named_that_writes_it(node: HttpBroker, path: Path) -> None:
    missing = node.get("/api/report")
    command = f"penstock pipeline report --telemetry {path.parent / 'telemetry'} --html {path}"
    assert (missing.status, missing.json["reason"]) == (404, f"there is no report: `{command}` writes one")
    assert missing.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert missing.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("kind", ["directory", "link", "loop", "pipe", "large"])
def test_odd_files_are_refused_with_the_reason(node: HttpBroker, path: Path, kind: str) -> None:
    reasons = {
        "directory": "cannot be read: Is a directory",
        "pipe": "is not a file",
        "large": f"has more than {REPORT_MOST} bytes",
    }
    match kind:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
        case "loop":
            path.symlink_to(path)
        case "pipe":
            os.mkfifo(path)
        case "large":
            path.touch()
            os.truncate(path, REPORT_MOST + 1)
    refused = node.get("/api/report")
    assert refused.status == 500
    assert refused.json["reason"] == f"the report {path} {reasons.get(kind, 'is a symbolic link')}"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(node: HttpBroker, path: Path) -> None:
    path.touch(mode=0)
    refused = node.get("/api/report")
    assert (refused.status, refused.json["reason"]) == (500, f"the report {path} cannot be read: Permission denied")


def test_the_largest_report_is_served(node: HttpBroker, path: Path) -> None:
    path.write_bytes(b"x" * REPORT_MOST)
    assert len(node.get("/api/report").body) == REPORT_MOST


def test_it_takes_a_user_who_monitors(node: HttpBroker, path: Path) -> None:
    path.write_text(PAGE)
    assert node.penstock("user", "add", "manager", "--tag", "management", given="manager\n").returncode == 0
    assert node.get("/api/report", user=("manager", "manager")).status == 401
    assert node.get("/api/report", user=None).status == 401

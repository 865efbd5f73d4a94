"""The files of the console as the node serves them."""

from __future__ import annotations

import gzip

import pytest
import urllib3

from tests.console.static.conftest import Scene
from tests.console.static.test_vendor import STATIC

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SENT_MOST = 120_000
"""Bytes that a browser loads before a reader sees the overview; those of all pages together are hardly more."""


def test_files_are_sent_compressed_to_those_who_take_it(scene: Scene) -> None:
    file = (STATIC / "js/app.js").read_bytes()
    plain = urllib3.request("GET", f"{scene.url}/js/app.js", headers={"accept-encoding": "identity"})
    zipped = urllib3.request(
        "GET", f"{scene.url}/js/app.js", headers={"accept-encoding": "gzip"}, decode_content=False, preload_content=True
    )
    assert plain.data == file
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.data) == file
    assert plain.headers["etag"] == zipped.headers["etag"]


def test_all_files_together_are_small() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix in {".js", ".css", ".html", ".svg"}]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < SENT_MOST

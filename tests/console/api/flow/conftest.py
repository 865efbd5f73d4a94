"""One node for the tests of flow control over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.http.node import HttpBroker


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("node"), acceptors=2, shards=2) as node:
        done = node.penstock("user", "add", "reader", "--tag", "monitoring", given="reader\n")
        assert done.returncode == 0, done.stderr
        yield node

"""Backlogs of messages with hardly any body, on a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.node import LocalNode
from load.whole_messages import KINDS, problems, run


def test_what_is_wrong() -> None:
    good = {"wanted": 10, "done": 9}
    assert problems({"growth": 12, "sent": 5, "in the queue": 5, "good": good}, 12.0) == []
    found = problems({"growth": 13, "sent": 5, "in the queue": 4, "good": {"wanted": 10, "done": 8}}, 12.0)
    assert found == ["memory grew by 13 MiB of 12", "messages are missing", "the good client was held"]


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_all_get_into_the_queue_and_a_good_client_comes_through(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]._replace(number=KINDS[name].number // 100)
    with LocalNode(tmp_path, "--acceptors", "1", "--shards", "1", "--set", "memory_limit=4 MiB") as node:
        report = run(node, kind, 1.0)
    assert report["in the queue"] == report["sent"] == kind.number
    assert report["good"]["done"]

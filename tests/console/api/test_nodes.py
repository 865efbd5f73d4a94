"""The node as the cluster's only one."""

from __future__ import annotations

import pytest

from tests.management import Api

pytestmark = pytest.mark.broker


def test_the_node_has_its_use_of_the_machine(api: Api, vhost: str) -> None:
    (found,) = api.get("nodes")
    assert found["running"] and not found["mem_alarm"] and not found["disk_free_alarm"]
    for used, limit in (("mem_used", "mem_limit"), ("fd_used", "fd_total"), ("proc_used", "proc_total")):
        assert 0 < found[used] < found[limit]
    assert found["sockets_used"] <= found["sockets_total"] and found["disk_free"] > found["disk_free_limit"]
    assert found["uptime"] > 0 and found["partitions"] == []
    assert api.get(f"nodes/{found['name']}").keys() == found.keys()
    assert api.get(f"nodes/{found['name']}?columns=name") == {"name": found["name"]}
    assert api.get(f"nodes/{found['name']}/memory")["memory"]["total"]["rss"] > 0
    assert [api.status("GET", path) for path in ("nodes/other", "nodes/other/memory")] == [404, 404]
    api.make_user("hugo", "policymaker", vhost)
    assert api.status("GET", "nodes", user="hugo") == 401

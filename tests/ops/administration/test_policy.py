"""`penstock policy`: policies are set, tried, explained, deleted, and imported as RabbitMQ exports them."""

from __future__ import annotations

import json
from pathlib import Path

from ops.administration import policy
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel


def test_a_policy_is_added_then_changed_then_deleted(commanded: Commanded) -> None:
    commanded.node.declare("q")
    words = ["set", "p", "^q", '{"max-length": 5}', "--apply-to", "queues", "--priority", "3"]
    assert commanded.run(policy.app, *words) == "policy 'p' added\n"
    assert commanded.run(policy.app, *words) == "policy 'p' changed\n"
    assert commanded.rows(policy.app, "list") == [["/", "p", "False", "^q", "queues", "3", '{"max-length":5}']]
    assert commanded.json(policy.app, "list")[0]["definition"] == {"max-length": 5}
    assert commanded.node.queue("q").policy == "p"
    assert commanded.run(policy.app, "delete", "p") == "policy 'p' deleted\n"
    assert not commanded.node.queue("q").policy
    assert commanded.refusal(policy.app, "delete", "p") == "there is no policy 'p' in vhost '/'"


def test_operator_policies_and_those_of_the_node_are_apart_from_others(commanded: Commanded) -> None:
    commanded.run(policy.app, "set", "p", "^q", '{"max-length": 5}', "--operator")
    commanded.run(policy.app, "set", "p", "^/$", '{"sum-stop-count": 5}', "--node", "--apply-to", "vhosts")
    assert {(each["vhost"], each["operator"]) for each in commanded.json(policy.app, "list")} == {
        ("/", True),
        ("", False),
    }
    assert commanded.refusal(policy.app, "delete", "p") == "there is no policy 'p' in vhost '/'"
    commanded.run(policy.app, "delete", "p", "--node")
    assert [each["operator"] for each in commanded.json(policy.app, "list", "--vhost", "/")] == [True]


def test_a_dry_run_names_the_channels_and_sets_nothing(commanded: Commanded) -> None:
    commanded.node.declare("q", durable=True)
    client = open_channel(commanded.node)
    for _ in range(5):
        client.publish(1, b"x", routing_key="q")
    commanded.node.settle()
    words = ["set", "p", "^q", '{"flow-stop-count": 4}', "--dry-run"]
    head, reason, *_ = commanded.run(policy.app, *words).splitlines()
    assert head == "policy 'p' is not set; it would stop 1 channels now"
    assert reason == "queue 'q' in vhost '/': 5 of 4 messages"
    answer = commanded.json(policy.app, *words)
    assert (answer["reached"], answer["ungranted"]) == ([reason], [])
    assert [each["connection"] for each in answer["stopped"]] == [client.connection.id]
    assert commanded.json(policy.app, "list") == []


def test_the_governing_policy_is_explained_and_those_behind_it_are_named(commanded: Commanded) -> None:
    commanded.node.declare("q")
    assert commanded.run(policy.app, "explain", "q") == "policy: none; operator policy: none\n"
    commanded.run(policy.app, "set", "low", "^q", '{"max-length": 5}')
    commanded.run(policy.app, "set", "high", "^q", '{"max-length": 6}', "--priority", "1")
    lines = commanded.run(policy.app, "explain", "q").splitlines()
    assert lines[:2] == ["policy: high; operator policy: none", "also matching, with lower priority: low"]
    (key,) = commanded.json(policy.app, "explain", "q")["keys"]
    assert (key["key"], key["value"]) == ("max-length", 6)
    assert commanded.run(policy.app, "explain", "amq.topic", "--exchange") == "policy: none; operator policy: none\n"


def test_all_policies_of_a_file_are_imported_or_none(commanded: Commanded, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    good = {"name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"max-length": 5}, "priority": 2}
    wrong = {**good, "name": "wrong", "definition": {"no-such-key": 1}}
    file.write_text(json.dumps({"policies": [good, wrong]}))
    assert commanded.refusal(policy.app, "import", str(file), "--vhost", "/") == "1 refused, so nothing is imported"
    assert commanded.json(policy.app, "list") == []
    file.write_text(json.dumps({"policies": [good], "operator_policies": [good]}))
    assert commanded.run(policy.app, "import", str(file), "--vhost", "/") == "imported 2 policies\n"
    assert sorted(each["operator"] for each in commanded.json(policy.app, "list")) == [False, True]


def test_what_is_not_json_or_cannot_be_read_is_named(commanded: Commanded, tmp_path: Path) -> None:
    assert commanded.refusal(policy.app, "set", "p", "q", "{").startswith("the definition is not JSON: ")
    file = tmp_path / "definitions.json"
    assert commanded.refusal(policy.app, "import", str(file)) == f"cannot read {file}: No such file or directory"
    file.write_text("{")
    assert commanded.refusal(policy.app, "import", str(file)).startswith(f"{file} is not JSON: ")

"""`penstock definitions`: a file is exported, imported, and refused with reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ops.administration import definitions
from tests.ops.commanded import Commanded

FOREIGN: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "global_parameters": [{"name": "cluster_name", "value": "rabbit"}],
    "queues": [{"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [{"name": "events", "vhost": "/", "type": "topic", "durable": True}],
    "bindings": [
        {"source": "events", "vhost": "/", "destination": "orders", "destination_type": "queue", "routing_key": "#"}
    ],
}


def written(tmp_path: Path, definitions: Any) -> str:
    file = tmp_path / "definitions.json"
    file.write_text(definitions if isinstance(definitions, str) else json.dumps(definitions))
    return str(file)


def test_definitions_are_imported_and_what_has_no_meaning_is_listed(commanded: Commanded, tmp_path: Path) -> None:
    said = commanded.run(definitions.app, "import", written(tmp_path, FOREIGN))
    assert said == "ignored: global_parameters: cluster_name\nimported 1 exchange, 1 queue, 1 binding\n"
    topology = commanded.node.router.topology
    assert topology.queue("/", "orders") and len(topology.bindings_from("/", "events")) == 1


def test_an_export_is_a_file_that_only_its_owner_can_read(commanded: Commanded, tmp_path: Path) -> None:
    commanded.run(definitions.app, "import", written(tmp_path, FOREIGN))
    file = tmp_path / "exported.json"
    assert commanded.run(definitions.app, "export", str(file)) == ""
    assert file.stat().st_mode & 0o777 == 0o600
    exported = json.loads(file.read_text())
    assert [each["name"] for each in exported["queues"]] == ["orders"]
    assert json.loads(commanded.run(definitions.app, "export")) == exported
    assert "users" not in json.loads(commanded.run(definitions.app, "export", "--vhost", "/"))
    assert commanded.run(definitions.app, "import", str(file)).startswith("imported 1 vhost, 1 user, ")


def test_nothing_is_imported_if_something_is_refused_unless_that_is_skipped(
    commanded: Commanded, tmp_path: Path
) -> None:
    file = written(tmp_path, {**FOREIGN, "exchanges": [*FOREIGN["exchanges"], {"name": "d", "type": "x-no-such"}]})
    assert commanded.refusal(definitions.app, "import", file) == "1 refused, so nothing is imported"
    assert commanded.node.router.topology.queue("/", "orders") is None
    assert commanded.refusal(definitions.app, "import", file, "--skip-refused") == "1 refused"
    assert commanded.node.router.topology.queue("/", "orders") is not None


def test_a_file_without_definitions_is_refused(commanded: Commanded, tmp_path: Path) -> None:
    def refusal(file: str) -> str:
        return commanded.refusal(definitions.app, "import", file)

    assert refusal(str(tmp_path / "none.json")) == f"cannot read {tmp_path / 'none.json'}: No such file or directory"
    assert "is not JSON" in refusal(written(tmp_path, "{"))
    assert "is not a JSON object" in refusal(written(tmp_path, []))
    assert refusal(written(tmp_path, {"queues": {}})) == "queues is not a list"


def test_an_export_that_cannot_be_written_is_refused(commanded: Commanded, tmp_path: Path) -> None:
    file = tmp_path / "none" / "definitions.json"
    assert commanded.refusal(definitions.app, "export", str(file)).startswith(f"cannot write {file}: ")

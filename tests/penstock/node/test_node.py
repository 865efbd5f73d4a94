"""The facts of a node: stored by its supervisor, loaded by its children, with paths that do not collide."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.node.node import NODE_FILE, Node, machine_name
from penstock.settings import Settings
from penstock.settings.listeners import ListenerSettings
from penstock.telemetry.layout import FileName


@pytest.fixture
def node(tmp_path: Path) -> Node:
    settings = Settings.from_resolved(
        {"acceptors": 3, "shards": 2, "spare_shards": 4, "data": tmp_path / "data", "flow": {"max_count": 7}}
    )
    return Node(
        1_700_000_000_000_000, tmp_path, tmp_path / "gauges", "::1", 5672, settings, -12345, (0, 2, 5), 2**63 - 1
    )


def test_a_child_loads_what_the_supervisor_stored(node: Node, tmp_path: Path) -> None:
    node.store()
    assert Node.load(tmp_path) == node
    changed = replace(node, settings=node.settings.model_copy(update={"log_level": "debug"}))
    changed.store()
    assert Node.load(tmp_path) == changed
    assert [path.name for path in tmp_path.iterdir()] == [NODE_FILE]


def test_a_node_file_is_replaced_as_a_whole(node: Node, tmp_path: Path) -> None:
    """A child that reads the file meanwhile sees the old one or the new one."""
    node.store()
    with (tmp_path / NODE_FILE).open() as reader:
        replace(node, port=1).store()
        assert json.load(reader)["port"] == 5672


def test_nodes_of_one_machine_have_different_names_in_telemetry(node: Node) -> None:
    names = {replace(node, identity=number).telemetry_name for number in (1, 2, 2**61 + 3)}
    assert len(names) == 3
    for name in names:
        file = FileName(name, "console.0.1", 5, True)
        assert FileName.parse(str(file)) == file
        assert len(name) <= 64
    telemetry = node.settings.telemetry.model_copy(update={"node": "mine"})
    named = replace(node, settings=node.settings.model_copy(update={"telemetry": telemetry}))
    assert named.telemetry_name == "mine"


def test_files_under_the_name_of_earlier_releases_are_the_node_s_in_its_own_directory(
    node: Node, tmp_path: Path
) -> None:
    assert node.telemetry_names == {node.telemetry_name, machine_name()}
    telemetry = node.settings.telemetry.model_copy(update={"directory": tmp_path / "shared"})
    elsewhere = replace(node, settings=node.settings.model_copy(update={"telemetry": telemetry}))
    assert elsewhere.telemetry_names == {node.telemetry_name}


@pytest.mark.parametrize("text", ["", "[", '{"epoch": '])
def test_a_node_file_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileNotFoundError):
        Node.load(tmp_path)
    (tmp_path / NODE_FILE).write_text(text)
    with pytest.raises(ValueError, match=r"\w"):
        Node.load(tmp_path)


def test_the_shards_are_those_known_or_as_many_as_the_settings_say(node: Node) -> None:
    assert (node.shards, node.shard_places) == ((0, 2, 5), 10)
    fresh = replace(node, known_shards=())
    assert (fresh.shards, fresh.shard_places) == ((0, 1), 6)
    assert replace(node, known_shards=(0, 253)).shard_places == 255, "more than that have no index"
    assert (node.acceptors, node.counting) == (3, 4)


def test_the_first_listener_and_the_one_for_this_machine(node: Node) -> None:
    assert (node.scheme, node.local) == ("amqp", ("::1", 5672))
    public, inner = ListenerSettings(certificates=(Path("/a.pem"),)), ListenerSettings()
    listeners = {"public": public, "inner": inner}
    settings = node.settings.model_copy(update={"plain": False, "listeners": listeners})
    places = {"public": ("::1", 5671), "inner": ("::1", 5673)}
    off = replace(node, port=5671, settings=settings, listeners=places)
    assert (off.scheme, off.local) == ("amqps", ("::1", 5673))
    secured = replace(off, settings=settings.model_copy(update={"listeners": {"public": public}}))
    assert (secured.scheme, secured.local) == ("amqps", None)


def test_each_socket_and_file_has_a_path_of_its_own(node: Node) -> None:
    sockets = [node.router_requests, node.router_changes, node.process_events, node.process_reports]
    assert all(address.startswith(f"ipc://{node.runtime}/") for address in sockets)
    files = [node.control, node.known_passwords, node.shared_counts, node.shared_hands, node.shared_rates]
    files += [node.shard(index, incarnation) for index in (1, 11) for incarnation in (1, 11)]
    files += [
        node.control_of(role, index, incarnation)
        for role in ("shard", "acceptor") for index in (1, 11) for incarnation in (1, 11)
    ]  # fmt: skip
    assert {file.parent for file in files} == {node.runtime}
    names = [file.name for file in files] + [address.rpartition("/")[2] for address in sockets] + [NODE_FILE]
    assert len(set(names)) == len(names)

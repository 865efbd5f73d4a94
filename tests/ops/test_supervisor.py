"""The supervisor over stand-in children: real processes, real signals."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from ops.places import START_DEATHS
from ops.supervisor import KILL_SECONDS, STOP_ORDER
from penstock.bus import pack, unpack
from penstock.memory.gauges import READY, STATE_NAMES, UNSTARTED, Gauges
from penstock.node.node import Role
from tests.ops.conftest import StandInNode, StartNode
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker

NAMES = ["pstk-acceptor-0", "pstk-acceptor-1", "pstk-router-0", "pstk-shard-0", "pstk-shard-1"]


def logged(err: str, event: str) -> list[dict[str, object]]:
    lines = (json.loads(line) for line in err.splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == event]


def assert_nothing_left(node: StandInNode, family: list[psutil.Process], gauges: Path) -> None:
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive
    assert not gauges.exists()
    assert list(node.runtimes.iterdir()) == []
    assert sorted(path.name for path in node.data.iterdir()) == ["audit", "clock.json", "lock", "witness"]


def test_a_child_that_cannot_start_is_told_of_once_with_its_reason(start_node: StartNode) -> None:
    """The start is not repeated: the next child would find the same."""
    node = start_node({"shard": "refuses"}, shards=1)
    code, _, err = node.finish()
    assert code == 2
    *logged_before, last = err.splitlines()
    assert last == "penstock: shard 0 does not start: its store is of another kind"
    assert not [line for line in logged_before if '"level":"error"' in line]


def test_what_a_child_did_not_expect_is_repeated(start_node: StartNode) -> None:
    code, _, err = start_node({"shard": "raises"}, shards=1).finish()
    assert code == 2
    last = err.splitlines()[-1]
    assert last == "penstock: shard 0 does not start: 3 times exit status 1; ValueError: a bug"


def test_life_in_order(start_node: StartNode) -> None:
    node = start_node()
    line = node.wait_ready()
    found = re.fullmatch(r"penstock ready amqp=127\.0\.0\.1:(\d+) pid=(\d+)\n", line)
    assert found
    assert int(found[2]) == node.process.pid
    facts = node.node
    assert facts.port == int(found[1])
    assert stat.S_IMODE(facts.runtime.stat().st_mode) == 0o700
    children = node.wait_children(5)
    assert sorted(children) == NAMES
    socket.create_connection(("127.0.0.1", facts.port)).close()
    with Gauges.open(facts.gauges, writable=False) as gauges:
        places = [gauges.process_read("acceptor", 1), gauges.process_read("supervisor", 0)]
    assert [(place.pid, STATE_NAMES[place.state]) for place in places] == [
        (children["pstk-acceptor-1"].pid, "ready"),
        (node.process.pid, "ready"),
    ]
    code, out, err = node.stop()
    assert (code, out) == (0, "")
    ended = [str(entry["process"]).split()[0] for entry in logged(err, "process ended")]
    assert ended == ["acceptor", "acceptor", "shard", "shard", "router"]
    assert_nothing_left(node, list(children.values()), facts.gauges)


def test_the_console_outlives_what_it_looks_at(start_node: StartNode) -> None:
    node = start_node(acceptors=1, shards=1, telemetry={"enabled": True})
    node.wait_ready()
    assert sorted(node.wait_children(4)) == ["pstk-acceptor-0", "pstk-console-0", "pstk-router-0", "pstk-shard-0"]
    code, _, err = node.stop()
    ended = [str(entry["process"]).split()[0] for entry in logged(err, "process ended")]
    assert (code, ended[:2], sorted(ended[2:])) == (0, ["acceptor", "shard"], ["console", "router"])


def test_a_node_serves_without_its_console(start_node: StartNode) -> None:
    node = start_node({"console": "broken"}, acceptors=1, shards=1, telemetry={"enabled": True})
    node.wait_ready()
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: gauges.process_read("console", 0).incarnation > START_DEATHS, what="many deaths")
    code, _, err = node.stop()
    assert code == 0
    assert len(logged(err, "process died")) >= START_DEATHS


def test_relays_are_run_once_the_node_serves_and_end_before_all_else(start_node: StartNode) -> None:
    relays = {"orders": {"queue": "a", "target_queue": "b"}}
    node = start_node(acceptors=1, shards=1, relays=relays)
    node.wait_ready()
    assert sorted(node.wait_children(4)) == ["pstk-acceptor-0", "pstk-relay-0", "pstk-router-0", "pstk-shard-0"]
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: gauges.process_read("relay", 0).state == READY, what="a process of relays that is ready")
    code, _, err = node.stop()
    ended = [str(entry["process"]).split()[0] for entry in logged(err, "process ended")]
    assert (code, ended) == (0, ["relay", "acceptor", "shard", "router"])
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    started = [line["event"] for line in lines if line["event"] in ("ready", "relay added")]
    assert started == ["ready", "relay added"]


def test_a_node_serves_without_its_relays(start_node: StartNode) -> None:
    relays = {"orders": {"queue": "a", "target_queue": "b"}}
    node = start_node({"relay": "broken"}, acceptors=1, shards=1, relays=relays)
    node.wait_ready()
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: gauges.process_read("relay", 0).incarnation > START_DEATHS, what="many deaths")
        assert gauges.process_read("acceptor", 0).restarts == 0
    assert node.stop()[0] == 0


def test_deaf_relays_take_no_time_from_the_others(start_node: StartNode) -> None:
    relays = {"orders": {"queue": "a", "target_queue": "b"}}
    node = start_node({"relay": "deaf"}, acceptors=1, shards=1, relays=relays)
    node.wait_ready()
    node.wait_children(4)
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: gauges.process_read("relay", 0).state == READY, what="a process of relays that is ready")
    code, _, err = node.stop()
    killed = [entry["process"] for entry in logged(err, "process killed, it took too long to stop")]
    assert (code, killed) == (0, ["relay 0"])


def test_another_way_to_ask_for_the_end(start_node: StartNode) -> None:
    node = start_node(acceptors=1, shards=1)
    node.wait_ready()
    family, gauges = list(node.children().values()), node.node.gauges
    node.process.send_signal(signal.SIGINT)
    assert node.finish()[0] == 0
    assert_nothing_left(node, family, gauges)


def test_asked_to_stop_before_it_is_ready(start_node: StartNode) -> None:
    node = start_node({"shard": "silent"})
    wait_for(lambda: (node.data / "running.json").exists(), what="the first steps")
    family, gauges = list(node.children().values()), node.pointer.gauges
    code, out, _ = node.stop()
    assert (code, out) == (0, "")
    assert_nothing_left(node, family, gauges)


def test_a_dead_child_is_replaced_and_everyone_told(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    facts = node.node
    with zmq.Context() as context, context.socket(zmq.SUB) as events, Gauges.open(facts.gauges) as gauges:
        events.linger = 0
        events.connect(facts.process_events)
        events.subscribe(b"")
        _await_subscription(node, events)
        before = node.wait_children(5)
        before["pstk-shard-1"].kill()
        assert _received_of_shards(events) == ["died", "shard", 1, 1, before["pstk-shard-1"].pid]
        started = _received_of_shards(events)
        assert started[:4] == ["started", "shard", 1, 2]
        wait_for(lambda: gauges.process_read("shard", 1).state == READY, what="the new shard")
        place = gauges.process_read("shard", 1)
    assert (place.pid, place.incarnation, place.restarts) == (started[4], 2, 1)
    after = node.wait_children(5)
    assert after["pstk-shard-1"].pid == started[4]
    assert [after[name].pid for name in NAMES[:4]] == [before[name].pid for name in NAMES[:4]]
    died = [entry for entry in logged(node.stop()[2], "process died") if entry["process"] == "shard 1"]
    assert [(entry["how"], entry["restart_in"]) for entry in died] == [("killed by SIGKILL", 0.0)]


def _await_subscription(node: StandInNode, events: zmq.Socket[bytes]) -> None:
    """Kill acceptor 0 until an event of it arrives, and wait for the last of its successors."""
    killed: list[psutil.Process] = []
    while not events.poll(50):
        killed.append(node.wait_children(5)["pstk-acceptor-0"])
        with contextlib.suppress(psutil.NoSuchProcess):  # the last one may have been about to die
            killed[-1].kill()
    psutil.wait_procs(killed)
    node.wait_children(5)


def _received_of_shards(events: zmq.Socket[bytes]) -> list[Any]:
    """Return the next event of a shard."""
    while True:
        event: list[Any] = unpack(events.recv())
        if event[1] == "shard":
            return event


Announce = Callable[[str, Role, int], None]


@contextlib.contextmanager
def telling(node: StandInNode) -> Iterator[Announce]:
    """Yield a function that reports an event of a place to the supervisor, in order and without loss."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as reports:
        reports.linger = int(PATIENCE * 1000)
        reports.connect(node.node.process_reports)
        yield lambda event, role, index: reports.send(pack([event, role, index, 0, 0]))


def ask_for_restart(node: StandInNode) -> None:
    with telling(node) as report:
        report("restart", "acceptor", 0)


def test_shards_come_and_go(start_node: StartNode) -> None:
    node = start_node(spare_shards=1)
    node.wait_ready()
    node.wait_children(5)
    with Gauges.open(node.node.gauges) as gauges, telling(node) as report:
        assert gauges.shards == 3
        for index in (2, 2, 3):  # shard 2 is there the second time, and shard 3 has no place
            report("begin", "shard", index)
        assert "pstk-shard-2" in node.wait_children(6)
        wait_for(lambda: gauges.process_read("shard", 2).state == READY, what="the new shard")
        for index in (1, 1, 7):
            report("end", "shard", index)
        assert "pstk-shard-1" not in node.wait_children(5)
        wait_for(lambda: gauges.process_read("shard", 1).state == UNSTARTED, what="the end of it")
        report("begin", "shard", 1)
        wait_for(lambda: gauges.process_read("shard", 1).state == READY, what="another one in its place")
        place = gauges.process_read("shard", 1)
    assert place.incarnation == 2
    code, _, err = node.stop()
    assert code == 0
    assert [entry["process"] for entry in logged(err, "shard removed")] == ["shard 1"]
    assert not logged(err, "process died")


def test_a_shard_that_dies_all_the_time_can_be_ended(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    with Gauges.open(node.node.gauges) as gauges, telling(node) as report:
        node.wait_children(5)["pstk-shard-1"].kill()
        report("end", "shard", 1)
        wait_for(lambda: gauges.process_read("shard", 1).state == UNSTARTED, what="its end")
    assert sorted(node.wait_children(4)) == ["pstk-acceptor-0", "pstk-acceptor-1", "pstk-router-0", "pstk-shard-0"]
    assert node.stop()[0] == 0


def incarnations(gauges: Gauges, role: Role) -> list[tuple[int, int]]:
    places = [gauges.process_read(role, index) for index in range(2)]
    return [(place.incarnation, place.state) for place in places]


def test_acceptors_are_replaced_while_the_port_stays_open(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    before = node.wait_children(5)
    address = "127.0.0.1", node.node.port
    with Gauges.open(node.node.gauges) as gauges:
        ask_for_restart(node)
        while incarnations(gauges, "acceptor") != [(2, READY)] * 2:
            socket.create_connection(address).close()
            time.sleep(0.01)
        assert incarnations(gauges, "shard") == [(1, READY)] * 2
    after = node.wait_children(5)
    assert {name for name in NAMES if before[name].pid != after[name].pid} == {"pstk-acceptor-0", "pstk-acceptor-1"}
    err = node.stop()[2]
    assert [entry["process"] for entry in logged(err, "process replaced")] == ["acceptor 0", "acceptor 1"]
    assert not logged(err, "process died")


def test_the_death_of_the_template_harms_nobody(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    before = node.wait_children(5)
    template = next(each for each in psutil.Process(node.process.pid).children() if each.name() == "pstk-template")
    template.kill()
    before["pstk-shard-1"].kill()
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: incarnations(gauges, "shard") == [(1, READY), (2, READY)], what="the next shard")
    after = node.wait_children(5)
    assert {name for name in NAMES if before[name].pid != after[name].pid} == {"pstk-shard-1"}
    died = [entry["process"] for entry in logged(node.stop()[2], "process died")]
    assert sorted(died) == ["shard 1", "template"]


def test_a_template_that_does_not_start(start_node: StartNode) -> None:
    node = start_node({"template": "broken"})
    code, out, err = node.finish()
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "penstock: the template does not start: 3 times exit status 3; its log says why"


def test_a_successor_that_dies_leaves_everything_as_it_is(start_node: StartNode) -> None:
    node = start_node({"acceptor": "broken later"})
    node.wait_ready()
    before = node.wait_children(5)
    ask_for_restart(node)
    assert node.process.stderr
    assert any("a successor died, the rolling restart ends" in line for line in node.process.stderr)
    assert node.wait_children(5) == before
    with Gauges.open(node.node.gauges) as gauges:
        assert incarnations(gauges, "acceptor") == [(1, READY)] * 2
    code, _, err = node.stop()
    assert (code, logged(err, "a successor died, the rolling restart ends")) == (0, [])


def test_a_deaf_predecessor_is_killed(start_node: StartNode) -> None:
    node = start_node({"acceptor": "deaf"}, acceptors=1)
    node.wait_ready()
    ask_for_restart(node)
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: gauges.process_read("acceptor", 0).incarnation == 2, what="the successor in its place")
    assert [entry["process"] for entry in logged(node.stop()[2], "process killed, it took too long to stop")] == [
        "acceptor 0", "acceptor 0",
    ]  # fmt: skip


def test_children_end_with_a_killed_supervisor_and_the_next_start_cleans_up(start_node: StartNode) -> None:
    port = free_port()
    node = start_node(port=port)
    node.wait_ready()
    left = node.pointer
    family = list(node.wait_children(5).values())
    node.process.kill()
    assert node.finish()[0] == -signal.SIGKILL
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive
    assert left.runtime.exists()
    again = start_node(port=port)
    again.wait_ready()
    assert again.pointer.runtime != left.runtime
    assert not left.runtime.exists()
    assert not left.gauges.exists()
    assert again.stop()[0] == 0


def test_a_deaf_child_is_killed_in_time(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(patience + KILL_SECONDS for _, patience in STOP_ORDER) < 10
    node = start_node({"router": "deaf"}, acceptors=1, shards=1)
    node.wait_ready()
    family, gauges = list(node.children().values()), node.node.gauges
    code, _, err = node.stop()
    assert code == 0
    killed = logged(err, "process killed, it took too long to stop")
    assert [entry["process"] for entry in killed] == ["router 0"]
    assert_nothing_left(node, family, gauges)


def test_a_child_that_will_not_start_ends_the_start(start_node: StartNode) -> None:
    node = start_node({"shard": "broken"}, shards=1)
    code, out, err = node.finish()
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last == "penstock: shard 0 does not start: 3 times exit status 3; its log says why"
    assert list(node.runtimes.iterdir()) == []
    assert sorted(path.name for path in node.data.iterdir()) == ["audit", "clock.json", "lock", "witness"]


def test_a_child_that_starts_at_the_third_try_will_do(start_node: StartNode) -> None:
    node = start_node({"router": "broken at first"}, acceptors=1, shards=1)
    node.wait_ready()
    assert node.stop()[0] == 0


def test_a_child_that_dies_as_it_reports_is_replaced(start_node: StartNode) -> None:
    node = start_node({"shard": "brief at first"}, acceptors=1, shards=2)
    node.wait_ready()
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(
            lambda: all(_is_second_incarnation(gauges, index) for index in range(2)), what="the second incarnations"
        )
    node.wait_children(4)
    assert node.stop()[0] == 0


def _is_second_incarnation(gauges: Gauges, index: int) -> bool:
    place = gauges.process_read("shard", index)
    return (place.incarnation, place.state) == (2, READY)


def test_a_child_that_goes_round_in_circles_is_replaced(start_node: StartNode) -> None:
    node = start_node({"shard": "spins at first"}, shards=1, watchdog={"seconds": 2})
    node.wait_ready()
    with Gauges.open(node.node.gauges) as gauges:
        wait_for(lambda: _is_second_incarnation(gauges, 0), what="the second incarnation")
    (answer,) = logged(node.stop()[2], "process does not respond and is killed")
    assert (answer["process"], answer["work"], answer["state"]) == ("shard 0", "serving", "running")
    assert "in spin" in str(answer["stack"])


def test_reports_of_the_past_and_nonsense_are_not_believed(start_node: StartNode) -> None:
    node = start_node({"router": "garbled"}, acceptors=1, shards=1)
    node.wait_ready()
    code, _, err = node.stop()
    assert code == 0
    assert len(logged(err, "cannot read a report")) == 1
    assert len(logged(err, "process ready")) == 3


def test_a_second_broker_on_the_data_is_refused(start_node: StartNode) -> None:
    first = start_node(acceptors=1, shards=1)
    first.wait_ready()
    code, out, err = start_node(acceptors=1, shards=1).finish()
    assert (code, out) == (2, "")
    assert err == f"penstock: the data directory {first.data} is in use by another broker (pid {first.process.pid})\n"
    assert sorted(first.wait_children(3)) == ["pstk-acceptor-0", "pstk-router-0", "pstk-shard-0"]


def test_a_second_broker_on_the_port_is_refused(start_node: StartNode, tmp_path: Path) -> None:
    first = start_node(acceptors=1, shards=1)
    first.wait_ready()
    port = first.node.port
    code, _, err = start_node(port=port, data=tmp_path / "other", acceptors=1, shards=1).finish()
    assert code == 2
    assert err.endswith(f"penstock: cannot listen on 127.0.0.1:{port}: the port is taken\n")

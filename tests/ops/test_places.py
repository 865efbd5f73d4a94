"""The supervisor's decisions, over processes that only exist as pids."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ops.backoff import LONGEST_DELAY
from ops.child import Child
from ops.errors import StartError
from ops.forkserver import Forked
from ops.places import LEAVING_SECONDS, START_DEATHS, STATES, UNSAID, Phase, Places
from ops.renewal import SHARD_SECONDS
from penstock.bus import pack
from penstock.bus.process_messages import ProcessMessage
from penstock.memory.gauges import DEAD, READY, STARTING, UNSTARTED, Gauges
from penstock.node.node import Role
from penstock.process.process import HAND_OVER, REFUSED_STATUS

PATIENCE = 4.0
PLACES: list[tuple[Role, int]] = [("router", 0), ("shard", 0), ("acceptor", 0), ("acceptor", 1), ("console", 0)]


class Ghost(Forked):
    """A process that ends when it is told to; `sent` has the signals that it got."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.status: int | None = None
        self.sent: list[signal.Signals] = []

    def poll(self) -> int | None:
        return self.status

    def send_signal(self, number: signal.Signals) -> None:
        self.sent.append(number)
        if number is signal.SIGKILL:
            self.status = -number


class Scene:
    """A node with room for three shards, of which one is there."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.now = 100.0
        self.events: list[ProcessMessage] = []
        self.ghosts: dict[tuple[Role, int, int], Ghost] = {}
        self.refused = False
        self.reasons: dict[tuple[Role, int], str] = {}
        self.pids = count(1001)
        self.places = Places(
            [Child(*place) for place in PLACES], gauges, self.fork, self.publish,
            lambda role, index: self.reasons.pop((role, index), ""), PATIENCE,
        )  # fmt: skip

    def fork(self, role: Role, index: int, incarnation: int) -> Forked:
        if self.refused:
            raise OSError(errno.EAGAIN, "no more processes")
        assert (role, index, incarnation) not in self.ghosts, "an incarnation is started once"
        self.ghosts[role, index, incarnation] = ghost = Ghost(next(self.pids))
        return ghost

    def publish(self, event: ProcessMessage) -> None:
        """The gauges have what the event says, before it is published."""
        self.events.append(event)
        place = self.gauges.process_read(event.role, event.place)
        if event.event == "gone":
            assert (place.state, place.pid) == (UNSTARTED, 0)
        elif event.event == "started":
            assert (place.incarnation, place.pid) == (event.incarnation, event.pid) and place.state in (STARTING, READY)
        else:
            assert place.pid != event.pid

    def advance(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.places.advance(self.now, can_fork=True)

    def die(self, role: Role, index: int, incarnation: int, status: int = -signal.SIGKILL) -> None:
        self.ghosts[role, index, incarnation].status = status
        self.places.reap(self.now)

    def report(self, event: str, role: Role, index: int, incarnation: int = 0) -> None:
        ghost = self.ghosts.get((role, index, incarnation))
        message = ProcessMessage.read(pack([event, role, index, incarnation, ghost.pid if ghost else 0]))
        self.places.on_report(message, self.now)

    def serve(self) -> None:
        """Start everything, and serve."""
        self.advance()
        for role, index in PLACES:
            self.report("ready", role, index, 1)
        self.places.phase = Phase.SERVING
        self.events.clear()

    def state(self, role: Role, index: int) -> tuple[int, int]:
        """What the gauges say of a place: state, incarnation."""
        place = self.gauges.process_read(role, index)
        return place.state, place.incarnation

    def said(self) -> list[tuple[str, str, int, int]]:
        """The events since the last call, without pids."""
        said = [(each.event, each.role, each.place, each.incarnation) for each in self.events]
        self.events.clear()
        return said


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=2, shards=3, queues=1, pid=os.getpid()) as gauges:
        yield Scene(gauges)


def test_every_place_is_filled_once(scene: Scene) -> None:
    scene.advance()
    assert scene.said() == [("started", role, index, 1) for role, index in PLACES]
    assert {scene.state(*place) for place in PLACES} == {(STARTING, 1)}
    scene.advance(10.0)
    assert scene.said() == []
    scene.report("ready", "router", 0, 1)
    assert scene.state("router", 0) == (READY, 1)
    assert scene.places.next_due(can_fork=True) is None


def test_a_dead_process_is_restarted_and_everyone_told(scene: Scene) -> None:
    scene.serve()
    scene.die("shard", 0, 1)
    assert (scene.said(), scene.state("shard", 0)) == ([("died", "shard", 0, 1)], (DEAD, 1))
    assert scene.places.next_due(can_fork=False) is None, "it cannot be forked yet"
    assert scene.places.next_due(can_fork=True) == scene.now
    scene.advance()
    assert (scene.said(), scene.state("shard", 0)) == ([("started", "shard", 0, 2)], (STARTING, 2))
    scene.report("ready", "shard", 0, 1)
    assert scene.state("shard", 0) == (STARTING, 2), "the report of a dead process is late"
    scene.report("ready", "shard", 0, 2)
    assert scene.state("shard", 0) == (READY, 2)


def test_a_process_that_cannot_be_forked_is_tried_again(scene: Scene) -> None:
    scene.serve()
    scene.refused = True
    scene.die("shard", 0, 1)
    scene.advance()
    scene.refused = False
    scene.advance(LONGEST_DELAY - 0.1)
    assert scene.said() == [("died", "shard", 0, 1)]
    assert scene.places.next_due(can_fork=True) == pytest.approx(scene.now + 0.1)
    scene.advance(0.2)
    assert scene.said() == [("started", "shard", 0, 2)], "an incarnation that was not forked has not been one"


def test_a_start_ends_with_a_process_that_cannot_be_forked(scene: Scene) -> None:
    scene.refused = True
    with pytest.raises(StartError, match=r"cannot start router 0: .*no more processes"):
        scene.advance()


def test_a_start_ends_with_a_process_that_refuses(scene: Scene) -> None:
    scene.advance()
    scene.reasons["shard", 0] = "its store is of another kind"
    with pytest.raises(StartError, match=r"^shard 0 does not start: its store is of another kind$"):
        scene.die("shard", 0, 1, REFUSED_STATUS)


def test_a_start_ends_with_a_process_that_dies_again_and_again(scene: Scene) -> None:
    for incarnation in range(1, START_DEATHS):
        scene.advance(LONGEST_DELAY)
        scene.die("router", 0, incarnation)
    scene.advance(LONGEST_DELAY)
    with pytest.raises(
        StartError, match=f"^router 0 does not start: {START_DEATHS} times killed by SIGKILL; {UNSAID}$"
    ):
        scene.die("router", 0, START_DEATHS)


def test_a_console_ends_no_start(scene: Scene) -> None:
    for incarnation in range(1, START_DEATHS + 3):
        scene.advance(LONGEST_DELAY)
        scene.die("console", 0, incarnation, REFUSED_STATUS)
    scene.advance(LONGEST_DELAY)
    assert scene.said()[-1] == ("started", "console", 0, START_DEATHS + 3)


def test_the_balancer_gets_a_place_once_and_ends_no_start(scene: Scene) -> None:
    scene.places.add("balancer", 0)
    scene.places.add("balancer", 0)
    for incarnation in range(1, START_DEATHS + 2):
        scene.advance(LONGEST_DELAY)
        scene.die("balancer", 0, incarnation)
    started = [event for event in scene.said() if event[:2] == ("started", "balancer")]
    assert started == [("started", "balancer", 0, number) for number in range(1, START_DEATHS + 2)]


def test_the_process_of_relays_comes_and_goes_and_comes_again(scene: Scene) -> None:
    scene.serve()
    scene.places.end("relay", 0, scene.now)
    for _ in range(2):
        scene.places.add("relay", 0)
    scene.advance()
    assert scene.said() == [("started", "relay", 0, 1)]
    scene.report("ready", "relay", 0, 1)
    for _ in range(2):
        scene.places.end("relay", 0, scene.now)
    assert scene.ghosts["relay", 0, 1].sent == [signal.SIGTERM]
    scene.die("relay", 0, 1, 0)
    assert scene.said() == [("died", "relay", 0, 1), ("gone", "relay", 0, 1)]
    assert scene.state("relay", 0) == (UNSTARTED, 1)
    scene.places.add("relay", 0)
    scene.advance()
    assert scene.said() == [("started", "relay", 0, 2)]
    scene.die("relay", 0, 2)
    scene.places.end("relay", 0, scene.now)
    assert scene.said() == [("died", "relay", 0, 2), ("gone", "relay", 0, 2)], "it waited for a restart"


def test_a_shard_comes_and_goes_and_comes_again(scene: Scene) -> None:
    scene.serve()
    scene.report("begin", "shard", 2)
    scene.report("begin", "shard", 2)
    scene.report("begin", "shard", 3)
    scene.report("begin", "shard", -1)
    scene.advance()
    assert scene.said() == [("started", "shard", 2, 1)], "there is no place for shard 3"
    scene.report("end", "shard", 2)
    scene.report("end", "shard", 2)
    ghost = scene.ghosts["shard", 2, 1]
    assert ghost.sent == [signal.SIGTERM]
    assert scene.places.next_due(can_fork=True) == scene.now + LEAVING_SECONDS
    scene.advance(LEAVING_SECONDS)
    assert ghost.sent == [signal.SIGTERM, signal.SIGKILL]
    scene.places.reap(scene.now)
    assert scene.said() == [("died", "shard", 2, 1), ("gone", "shard", 2, 1)]
    scene.advance(LONGEST_DELAY)
    assert scene.said() == []
    scene.report("begin", "shard", 2)
    scene.advance()
    assert scene.said() == [("started", "shard", 2, 2)], "no two processes have the same incarnation"


def test_a_dead_shard_can_be_removed(scene: Scene) -> None:
    scene.serve()
    scene.die("shard", 0, 1)
    scene.report("end", "shard", 0)
    scene.advance(LONGEST_DELAY)
    assert scene.said() == [("died", "shard", 0, 1), ("gone", "shard", 0, 1)]


def test_acceptors_are_replaced_one_after_the_other(scene: Scene) -> None:
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    scene.advance(1.0)
    assert scene.said() == [], "a successor is announced once it has the place"
    assert scene.state("acceptor", 0) == (READY, 1)
    assert [each.incarnation for each in scene.places.processes if each.role == "acceptor"] == [1, 1, 2]
    scene.report("ready", "acceptor", 0, 2)
    assert scene.ghosts["acceptor", 0, 1].sent == [signal.SIGTERM]
    assert scene.places.next_due(can_fork=True) == scene.now + PATIENCE
    assert scene.said() == [("replaces", "acceptor", 0, 2)], "now it serves"
    scene.die("acceptor", 0, 1, status=0)
    assert scene.said() == [("died", "acceptor", 0, 1), ("started", "acceptor", 0, 2)]
    assert scene.state("acceptor", 0) == (READY, 2)
    scene.advance()
    scene.report("ready", "acceptor", 1, 2)
    scene.advance(PATIENCE)
    assert scene.ghosts["acceptor", 1, 1].sent == [signal.SIGTERM, signal.SIGKILL]
    scene.places.reap(scene.now)
    assert scene.said()[1:] == [("died", "acceptor", 1, 1), ("started", "acceptor", 1, 2)]
    scene.advance(PATIENCE)
    assert len(scene.ghosts) == len(PLACES) + 2


def ended(scene: Scene, role: Role, index: int, number: signal.Signals) -> None:
    """The process of a place has been asked to end by this signal, and does."""
    scene.advance()
    assert scene.ghosts[role, index, 1].sent == [number]
    scene.die(role, index, 1, status=0)


def test_all_processes_are_renewed_those_without_which_clients_are_served_first(scene: Scene) -> None:
    scene.serve()
    scene.places.renew_all()
    for role, number in (("console", signal.SIGTERM), ("router", signal.SIGTERM), ("shard", HAND_OVER)):
        role = cast(Role, role)
        ended(scene, role, 0, number)
        assert scene.said() == [("died", role, 0, 1)] and scene.state(role, 0) == (DEAD, 1)
        assert scene.places.next_due(can_fork=True) == scene.now, "the next one starts at once"
        scene.advance()
        assert scene.said() == [("started", role, 0, 2)]
        scene.advance()
        assert not scene.places.renewed
        scene.report("ready", role, 0, 2)
    for index in (0, 1):
        scene.advance()
        scene.report("ready", "acceptor", index, 2)
        ended(scene, "acceptor", index, signal.SIGTERM)
    assert scene.places.renewed and not scene.places.renewal_failure
    assert [scene.state(*place) for place in PLACES] == [(READY, 2)] * len(PLACES)


def test_a_process_that_does_not_start_again_ends_the_renewal(scene: Scene) -> None:
    scene.serve()
    scene.places.renew_all()
    ended(scene, "console", 0, signal.SIGTERM)
    scene.advance()
    scene.reasons["console", 0] = "a bug"
    scene.die("console", 0, 2, status=1)
    assert scene.places.renewal_failure == "console 0 does not start: a bug"
    assert scene.places.at_rest
    scene.advance(LONGEST_DELAY)
    assert scene.state("console", 0) == (STARTING, 3), "it is started all the same"
    assert scene.places.renewed and not scene.places.at_rest
    assert not any(ghost.sent for (role, _, _), ghost in scene.ghosts.items() if role != "console")


def test_a_process_that_crashes_as_it_is_asked_to_end_is_logged(scene: Scene) -> None:
    scene.serve()
    scene.places.renew_all()
    scene.advance()
    with capture_logs() as log:
        scene.die("console", 0, 1, status=-11)
    (line,) = (each for each in log if each["event"] == "process died as it was asked to end")
    assert (line["process"], line["how"]) == ("console 0", "killed by SIGSEGV")
    scene.advance()
    assert scene.state("console", 0) == (STARTING, 2)


def test_a_shard_has_time_to_store_its_memory(scene: Scene) -> None:
    scene.serve()
    scene.places.renew_all()
    for role in ("console", "router"):
        role = cast(Role, role)
        ended(scene, role, 0, signal.SIGTERM)
        scene.advance()
        scene.report("ready", role, 0, 2)
    scene.advance()
    scene.advance(SHARD_SECONDS - 1)
    assert scene.ghosts["shard", 0, 1].sent == [HAND_OVER]
    scene.advance(1)
    assert scene.ghosts["shard", 0, 1].sent == [HAND_OVER, signal.SIGKILL]


def test_a_place_that_is_removed_is_not_renewed(scene: Scene) -> None:
    scene.serve()
    scene.places.renew_all()
    ended(scene, "console", 0, signal.SIGTERM)
    scene.report("end", "shard", 0)
    scene.die("shard", 0, 1, status=0)
    scene.advance()
    scene.report("ready", "console", 0, 2)
    ended(scene, "router", 0, signal.SIGTERM)
    scene.advance()
    scene.report("ready", "router", 0, 2)
    scene.advance()
    assert ("acceptor", 0, 2) in scene.ghosts, "the next in turn"


def test_a_rolling_restart_ends_with_its_successor(scene: Scene) -> None:
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    with capture_logs() as lines:
        scene.die("acceptor", 0, 2)
        scene.advance(LONGEST_DELAY)
    assert [line["event"] for line in lines] == ["a successor died, the rolling restart ends"]
    assert (scene.said(), scene.state("acceptor", 0), scene.state("acceptor", 1)) == ([], (READY, 1), (READY, 1))


def test_no_incarnation_has_the_number_of_a_successor_that_died(scene: Scene) -> None:
    """The next is beside the same predecessor, and its place in the gauges is not that of the predecessor."""
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    scene.die("acceptor", 0, 2)
    scene.report("restart", "acceptor", 0)
    scene.advance()
    assert [each.incarnation for each in scene.places.processes if each.role == "acceptor"] == [1, 1, 4]
    scene.die("acceptor", 0, 4)
    scene.die("acceptor", 0, 1)
    scene.advance(LONGEST_DELAY)
    assert scene.state("acceptor", 0) == (STARTING, 6)


def test_a_successor_that_dies_while_its_predecessor_ends_is_dead_with_it(scene: Scene) -> None:
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    scene.report("ready", "acceptor", 0, 2)
    scene.die("acceptor", 0, 2)
    assert scene.said() == [("replaces", "acceptor", 0, 2)]
    scene.advance(PATIENCE)
    assert scene.ghosts["acceptor", 0, 1].sent == [signal.SIGTERM, signal.SIGKILL], "it has to end all the same"
    scene.places.reap(scene.now)
    assert scene.said() == [("died", "acceptor", 0, 2)], "and all before it"
    scene.advance(LONGEST_DELAY)
    assert scene.said() == [("started", "acceptor", 0, 4)]
    assert scene.state("acceptor", 1) == (READY, 1)


def test_a_predecessor_and_its_successor_die_at_once(scene: Scene) -> None:
    """One signal may announce several deaths."""
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    scene.ghosts["acceptor", 0, 2].status = -signal.SIGKILL
    scene.die("acceptor", 0, 1)
    died = [("died", "acceptor", 0, 1), ("started", "acceptor", 0, 2), ("died", "acceptor", 0, 2)]
    assert scene.said() == died
    scene.advance(LONGEST_DELAY)
    assert scene.state("acceptor", 0) == (STARTING, 3)


def test_nothing_is_started_while_the_node_stops(scene: Scene) -> None:
    scene.serve()
    scene.report("restart", "acceptor", 0)
    scene.advance()
    scene.places.stop()
    assert len(scene.places.children) == len(PLACES) + 1, "a successor is to be stopped too"
    with capture_logs() as lines:
        scene.die("acceptor", 0, 1, status=0)
        scene.die("acceptor", 0, 2, status=0)
    assert {line["log_level"] for line in lines} == {"debug"}


STEPS = st.one_of(
    st.tuples(st.just("advance"), st.floats(0, 2 * LONGEST_DELAY)),
    st.tuples(st.just("die"), st.integers(0, 99)),
    st.tuples(st.just("ready"), st.integers(0, 99)),
    st.tuples(st.sampled_from(["begin", "end"]), st.integers(0, 2)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("refuse"), st.booleans()),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_every_place_is_filled_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.mktemp("places") / "g"
    with Gauges.create(path, epoch=1, acceptors=2, shards=3, queues=1, pid=os.getpid()) as gauges:
        scene = Scene(gauges)
        scene.serve()
        for step, value in steps:
            _do(scene, step, value)
            _is_in_order(scene)
        scene.refused = False
        for _ in range(10):  # a removed shard, a rolling restart of two places, and each restart in turn
            scene.advance(LEAVING_SECONDS)
            for key in list(scene.ghosts):
                scene.report("ready", *key)
            scene.places.reap(scene.now)
            _is_in_order(scene)
        assert scene.places.next_due(can_fork=True) is None
        assert {child.state.value for child in scene.places.processes} == {"ready"}
        assert {(child.role, child.index) for child in scene.places.children} >= set(PLACES) - {("shard", 0)}


def _do(scene: Scene, step: str, value: float) -> None:
    alive = [key for key, ghost in scene.ghosts.items() if ghost.status is None]
    if step == "advance":
        scene.advance(value)
        scene.places.reap(scene.now)
    elif step == "refuse":
        scene.refused = bool(value)
    elif step in ("begin", "end"):
        scene.report(step, "shard", int(value))
    elif step == "restart":
        scene.report(step, "acceptor", 0)
    elif step == "ready":
        scene.report(step, *list(scene.ghosts)[int(value) % len(scene.ghosts)])
    elif alive:
        scene.die(*alive[int(value) % len(alive)])


def _is_in_order(scene: Scene) -> None:
    """Every process that lives is known, no place has two but one that is replaced, and the gauges have each place."""
    known = [child.pid for child in scene.places.processes if child.process]
    assert sorted(known) == sorted(ghost.pid for ghost in scene.ghosts.values() if ghost.status is None)
    filled = [(child.role, child.index) for child in scene.places.children]
    assert len(filled) == len(set(filled))
    for child in scene.places.children:
        place = scene.gauges.process_read(child.role, child.index)
        if child.incarnation:
            assert (place.pid, place.state, place.incarnation) == (child.pid, STATES[child.state], child.incarnation)

"""The detection of hangs among silent processes, and the response."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from ops.child import Child
from ops.forkserver import Forked
from ops.hangs import CHECK_SECONDS, INTERVALS_MOST, HangWatch, kernel_state
from penstock.memory.gauges import Gauges
from penstock.process.process import stack_file
from penstock.process.pulse import Work
from penstock.settings.sections import WatchdogSettings

SECONDS, BUSY_SECONDS = 5.0, 60.0


class Scene:
    """One acceptor, and a supervisor that watches it; `sent` has the signals sent to the acceptor."""

    def __init__(self, directory: Path, seconds: float = SECONDS) -> None:
        self.gauges = Gauges.create(directory / "g", epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid())
        self.state = psutil.STATUS_SLEEPING
        settings = WatchdogSettings(seconds=seconds, busy_seconds=BUSY_SECONDS)
        self.watch = HangWatch(self.gauges, settings, directory, lambda _: self.state)
        self.child = Child("acceptor", 0)
        self.sent: list[signal.Signals] = []
        self.now = 100.0
        self.live()

    def live(self) -> None:
        """Begin the next incarnation."""
        process = SimpleNamespace(pid=4_000_000 + self.child.incarnation, send_signal=self.sent.append)
        self.child.process = cast(Forked, process)
        self.child.incarnation += 1
        self.child.started = self.now

    def beat(self, work: Work = Work.SERVING) -> None:
        self.gauges.beat("acceptor", 0, self.child.incarnation, int(self.now * 1e6), work)

    def watch_for(self, seconds: float) -> None:
        """Let seconds pass in which the supervisor checks as it should."""
        for _ in range(round(seconds / CHECK_SECONDS)):
            self.now += CHECK_SECONDS
            self.watch.check([self.child], self.now)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with scene.gauges:
        yield scene


def test_who_beats_is_left_alone(scene: Scene) -> None:
    for _ in range(100):
        scene.beat()
        scene.watch_for(SECONDS - 1)
    assert scene.sent == []


def test_who_is_silent_is_asked_where_it_is_and_killed_once(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.beat()
    scene.watch_for(SECONDS)
    assert scene.sent == []
    scene.watch_for(CHECK_SECONDS)
    assert scene.sent == [signal.SIGUSR1]
    stack_file(scene.gauges.path.parent, "acceptor", 0).write_text("in the middle of nowhere")
    scene.watch_for(CHECK_SECONDS)
    scene.watch_for(10 * SECONDS)
    assert scene.sent == [signal.SIGUSR1, signal.SIGKILL]


def test_who_beats_after_all_is_spared(scene: Scene) -> None:
    scene.beat()
    scene.watch_for(SECONDS + CHECK_SECONDS)
    for _ in range(3):
        scene.beat()
        scene.watch_for(SECONDS - 1)
    assert scene.sent == [signal.SIGUSR1]


@pytest.mark.parametrize("work", [Work.LOADING, Work.DISK])
def test_who_is_busy_has_more_time(scene: Scene, work: Work) -> None:
    scene.beat(work)
    scene.watch_for(BUSY_SECONDS - 1)
    assert scene.sent == []
    scene.watch_for(2)
    assert scene.sent == [signal.SIGUSR1, signal.SIGKILL]


def test_who_has_not_begun_to_beat_has_more_time(scene: Scene) -> None:
    """The beats of its predecessor do not count."""
    scene.beat()
    scene.live()
    scene.beat()
    scene.now += 1
    scene.live()
    scene.watch_for(BUSY_SECONDS - 1)
    assert scene.sent == []
    scene.watch_for(2)
    assert scene.sent == [signal.SIGUSR1, signal.SIGKILL]


def test_who_waits_for_the_disk_without_having_said_so_has_more_time(scene: Scene) -> None:
    scene.beat()
    scene.state = psutil.STATUS_DISK_SLEEP
    scene.watch_for(BUSY_SECONDS - 1)
    assert scene.sent == []
    scene.state = psutil.STATUS_SLEEPING
    scene.watch_for(1)
    assert scene.sent == [signal.SIGUSR1, signal.SIGKILL]


def test_who_was_stopped_while_it_loaded_does_not(scene: Scene) -> None:
    scene.beat(Work.LOADING)
    scene.state = psutil.STATUS_STOPPED
    scene.watch_for(SECONDS + 1)
    assert scene.sent == [signal.SIGUSR1, signal.SIGKILL]


def test_who_is_debugged_is_left_alone(scene: Scene) -> None:
    scene.beat()
    scene.state = psutil.STATUS_TRACING_STOP
    scene.watch_for(BUSY_SECONDS * 2)
    assert scene.sent == []


def test_time_in_which_the_supervisor_stood_still_does_not_count(scene: Scene) -> None:
    """After the machine was suspended or the container paused, everybody is late and nobody hangs."""
    scene.beat()
    scene.watch_for(1)
    scene.now += 3600
    scene.watch_for(CHECK_SECONDS)
    assert scene.sent == []
    scene.beat()
    scene.watch_for(SECONDS - 1)
    assert scene.sent == []
    assert INTERVALS_MOST * CHECK_SECONDS < SECONDS


def test_nobody_is_killed_where_that_is_switched_off(tmp_path: Path) -> None:
    scene = Scene(tmp_path, seconds=0)
    with scene.gauges:
        scene.beat()
        scene.watch_for(BUSY_SECONDS * 2)
    assert scene.sent == []


def test_what_the_kernel_says() -> None:
    assert kernel_state(os.getpid()) == psutil.STATUS_RUNNING
    assert kernel_state(2**22 + 1) == ""

"""Finds processes that hang, stopped or in an endless loop, and kills them; they are restarted like any that died.

    alive ──(silent too long)──▶ asked for its stack ──(still silent)──▶ killed
      ▲                               │
      └──────────(it beats)───────────┘

Silence counts only while the supervisor itself runs: if it stood still as well, on a suspended machine or in a stopped
process group, that time counts against no process. A process under a debugger is left alone.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import psutil

from ops.child import Child
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.process.process import stack_file
from penstock.process.pulse import Work
from penstock.settings.sections import WatchdogSettings

CHECK_SECONDS = 0.5
INTERVALS_MOST = 4
"""A check adds at most this many intervals of silence: if more have passed, the supervisor itself was late."""
STACK_MOST = 8192
"""Bytes of a process's stack that are logged, at most."""

log = get_logger()


class Stage(Enum):
    """The last action against a silent process."""

    NOTHING = "nothing"
    ASKED = "asked"
    DONE = "done"


@dataclass(slots=True)
class Silence:
    """The last beat of one process (moment, work), and the seconds of silence since."""

    beat: tuple[int, Work]
    seconds: float = 0.0
    stage: Stage = Stage.NOTHING


def kernel_state(pid: int) -> str:
    """Return the kernel's state of a process: "running", "disk-sleep", "stopped", "tracing-stop" …; "" if gone."""
    with suppress(psutil.Error):
        return str(psutil.Process(pid).status())
    return ""


class HangWatch:
    """The watchdog of a node's processes."""

    def __init__(
        self,
        gauges: Gauges,
        settings: WatchdogSettings,
        runtime: Path,
        state_of: Callable[[int], str] = kernel_state,
    ) -> None:
        self._gauges = gauges
        self._seconds = settings.seconds
        self._busy_seconds = max(settings.busy_seconds, settings.seconds)
        self._runtime = runtime
        self._state_of = state_of
        self._silences: dict[int, Silence] = {}
        self._checked = 0.0

    def check(self, children: Iterable[Child], now: float) -> None:
        """Count silence and kill processes silent for too long. To be called every `CHECK_SECONDS` or more often."""
        if not self._seconds or now < self._checked + CHECK_SECONDS:
            return
        passed = min(now - self._checked, INTERVALS_MOST * CHECK_SECONDS)
        self._checked = now
        known, self._silences = self._silences, {}
        for child in children:
            if child.process is not None:
                self._silences[child.pid] = silence = self._silence_of(child, known.get(child.pid), passed)
                self._judge(child, silence)

    def _silence_of(self, child: Child, known: Silence | None, passed: float) -> Silence:
        moment, work = self._gauges.last_beat(child.role, child.index, child.incarnation)
        beat = (moment, Work(work)) if moment / 1e6 >= child.started else (0, Work.STARTING)
        if known is None or known.beat != beat:
            return Silence(beat)
        known.seconds += passed
        return known

    def _judge(self, child: Child, silence: Silence) -> None:
        if silence.stage is Stage.DONE or silence.seconds < self._seconds:
            return
        state = self._state_of(child.pid)
        work = silence.beat[1]
        patient = (work.is_patient or state == psutil.STATUS_DISK_SLEEP) and state != psutil.STATUS_STOPPED
        if silence.seconds < (self._busy_seconds if patient else self._seconds):
            return
        facts = {
            "process": f"{child.role} {child.index}",
            "pid": child.pid,
            "silent_seconds": round(silence.seconds, 1),
        }
        facts |= {"work": work.name.lower(), "state": state}
        if state == psutil.STATUS_TRACING_STOP:
            silence.stage = Stage.DONE
            log.warning("process does not respond, a debugger is attached", **facts)
        elif silence.stage is Stage.NOTHING:
            silence.stage = Stage.ASKED
            child.send(signal.SIGUSR1)
        else:
            silence.stage = Stage.DONE
            log.error("process does not respond and is killed", **facts, stack=self._stack(child))
            child.send(signal.SIGKILL)

    def _stack(self, child: Child) -> str:
        """Return the stacks of a process's threads, if it could still write them; a stopped process cannot."""
        try:
            return stack_file(self._runtime, child.role, child.index).read_text(errors="replace")[-STACK_MOST:]
        except OSError:
            return ""

"""The supervisor's part of an upgrade: a template of the installed release, and with it every process in turn.

    idle ──begin──▶ loading ──(the template is ready)──▶ replacing ──(all are)──▶ idle
                       │                                     │
                       └───────(it cannot serve)────▶ idle ◀─┘ (a process does not start)

The running template stays until the upgrade is over. If a process of the installed release does not start, its place
and those that follow get processes of the running release: a node is never without a process for want of a release that
starts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ops.child import how_it_ended
from ops.forkserver import ForkServer
from ops.places import UNSAID, Places
from ops.upgrade.progress import Progress, Stage
from penstock.node.logs import get_logger
from penstock.node.wire_format import WIRE_FORMAT

LOADING_SECONDS = 60.0
"""How long the template of the installed release may take to import its modules."""

log = get_logger()


class Upgrade:
    """The upgrades of one node, one at a time. Times are monotonic seconds."""

    def __init__(self, runtime: Path, forks: ForkServer, places: Places, reason_of: Callable[[], str]) -> None:
        """`reason_of` returns the last words of a template that has ended, "" if it left none."""
        self._runtime = runtime
        self._forks = forks
        self._places = places
        self._reason_of = reason_of
        self._progress = Progress(0, Stage.DONE)
        self._deadline = 0.0

    @property
    def under_way(self) -> bool:
        """Whether an upgrade is under way."""
        return self._progress.stage in (Stage.LOADING, Stage.REPLACING)

    @property
    def due(self) -> float | None:
        """When to call `advance` again if nothing happens; None if nothing is due at any time."""
        return self._deadline if self._progress.stage is Stage.LOADING else None

    def begin(self, now: float) -> None:
        """Begin an upgrade, unless one is under way."""
        if self.under_way:
            return
        self._enter(Progress(self._progress.number + 1, Stage.LOADING))
        self._deadline = now + LOADING_SECONDS
        log.info("upgrade begins")
        try:
            self._forks.load_installed(now)
        except OSError as error:
            self._fail(f"cannot start a process: {error}")

    def advance(self, now: float) -> None:
        """Go on with the upgrade, if one is under way."""
        if self._progress.stage is Stage.LOADING:
            self._load(now)
        elif self._progress.stage is Stage.REPLACING:
            self._replace(now)

    def stop(self) -> None:
        """The node stops: nothing is replaced any more."""
        if self.under_way:
            self._enter(self._progress._replace(stage=Stage.FAILED, reason="the node stops"))

    def _load(self, now: float) -> None:
        template = self._forks.next
        assert template is not None
        greeting = template.greeting
        status = template.poll() if greeting is None else None
        if status is not None:
            self._forks.next = None
            self._fail(f"the installed release does not start: {self._reason_of() or how_it_ended(status)}")
        elif greeting is not None and greeting.wire_format != WIRE_FORMAT:
            self._fail(
                f"processes of the installed release {greeting.version} cannot serve beside the running ones (wire "
                f"format {greeting.wire_format}, not {WIRE_FORMAT}): stop the node and start it"
            )
        elif greeting is not None:
            self._forks.adopt_next()
            self._places.renew_all()
            self._enter(self._progress._replace(stage=Stage.REPLACING, version=greeting.version))
            log.info("processes are replaced by those of the installed release", version=greeting.version)
        elif now >= self._deadline:
            self._fail(f"the installed release did not start in {LOADING_SECONDS:.0f} s; {UNSAID}")

    def _replace(self, now: float) -> None:
        if self._places.renewal_failure:
            self._forks.return_to_former(now)
            self._fail(self._places.renewal_failure)
        elif self._places.renewed:
            self._forks.drop_former()
            self._enter(self._progress._replace(stage=Stage.DONE))
            log.info("upgrade is done", version=self._progress.version)

    def _fail(self, reason: str) -> None:
        self._forks.drop_next()
        self._enter(self._progress._replace(stage=Stage.FAILED, reason=reason))
        log.error("upgrade has failed: the running release goes on", reason=reason)

    def _enter(self, progress: Progress) -> None:
        self._progress = progress
        try:
            progress.store(self._runtime)
        except OSError as error:
            log.error("cannot write the progress of the upgrade", problem=str(error))

"""The supervisor's part of an upgrade: a template of the installed release, with it every process in turn, and last the
supervisor itself.

    idle ──begin──▶ loading ──(the template and the trial succeed)──▶ replacing ──(all are)──▶ succeeding ──▶ idle
                       │                                                  │
                       └──────────────(they do not)─────────▶ idle ◀──────┘ (a process does not start)

The running template stays until all are replaced. If a process of the installed release does not start, its place and
those that follow get processes of the running release: a node is never without a process for want of a release that
starts. The trial is that of the supervisor's succession (`ops.succession`). If its program has gone since, the
supervisor alone stays as it is, until the next start of the node.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from ops.child import how_it_ended
from ops.forkserver import ForkServer
from ops.places import UNSAID, Places
from ops.succession import Succession
from ops.upgrade.progress import Progress, Stage
from penstock.node.logs import get_logger
from penstock.node.wire_format import WIRE_FORMAT

LOADING_SECONDS = 60.0
"""How long the template of the installed release may take to import its modules."""

log = get_logger()


class Upgrade:
    """The upgrades of one node, one at a time. Times are monotonic seconds."""

    def __init__(
        self, runtime: Path, forks: ForkServer, places: Places, succession: Succession, reason_of: Callable[[], str]
    ) -> None:
        """`reason_of` returns the last words of a template that has ended, "" if it left none."""
        self._runtime = runtime
        self._forks = forks
        self._places = places
        self._succession = succession
        self._reason_of = reason_of
        self._trial: subprocess.Popen[bytes] | None = None
        self._progress = Progress(0, Stage.DONE)
        self._deadline = 0.0

    @property
    def under_way(self) -> bool:
        """Whether an upgrade is under way."""
        return not self._progress.is_over

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
        present = self._forks.present
        if present is None:
            self._fail("the template of the running release has ended")
            return
        try:
            self._forks.load_installed(now)
            self._trial = self._succession.try_installed(self._places.children, present)
        except OSError as error:
            self._fail(f"cannot start a process: {error}")

    def resume(self) -> None:
        """Go on as the supervisor of the installed release, which has taken its place."""
        self._progress = Progress.load(self._runtime) or self._progress
        self._enter(self._progress._replace(stage=Stage.DONE))
        log.info("upgrade is done", version=self._progress.version)

    def advance(self, now: float) -> None:
        """Go on with the upgrade, if one is under way."""
        if self._progress.stage is Stage.LOADING:
            self._load(now)
        elif self._progress.stage is Stage.REPLACING:
            self._replace(now)
        elif self._progress.stage is Stage.SUCCEEDING:
            self._succeed()

    def stop(self) -> None:
        """The node stops: nothing is replaced any more."""
        if self.under_way:
            self._enter(self._progress._replace(stage=Stage.FAILED, reason="the node stops"))

    def _load(self, now: float) -> None:
        template, trial = self._forks.next, self._trial
        assert template is not None and trial is not None
        greeting = template.greeting
        status = template.poll() if greeting is None else None
        tried = trial.poll()
        if status is not None:
            self._forks.next = None
            self._fail(f"the installed release does not start: {self._reason_of() or how_it_ended(status)}")
        elif greeting is not None and greeting.wire_format != WIRE_FORMAT:
            self._fail(
                f"processes of the installed release {greeting.version} cannot serve beside the running ones (wire "
                f"format {greeting.wire_format}, not {WIRE_FORMAT}): stop the node and start it"
            )
        elif tried:
            reason = self._succession.reason() or how_it_ended(tried)
            self._fail(f"the supervisor of the installed release does not start: {reason}")
        elif greeting is not None and tried == 0:
            self._trial = None
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
            self._enter(self._progress._replace(stage=Stage.SUCCEEDING))

    def _succeed(self) -> None:
        """Execute the installed release's supervisor in this process, once nothing is under way."""
        present = self._forks.present
        if present is None or present.greeting is None or not self._places.at_rest:
            return
        log.info("supervisor is to be replaced", version=self._progress.version)
        try:
            self._succession.execute(self._places.children, present)
        except OSError as error:
            log.error("supervisor cannot be replaced: it goes on until the next start", problem=str(error))
            self._enter(self._progress._replace(stage=Stage.DONE))

    def _fail(self, reason: str) -> None:
        self._forks.drop_next()
        if self._trial is not None:
            self._trial.kill()
            self._trial.wait()
            self._trial = None
        self._enter(self._progress._replace(stage=Stage.FAILED, reason=reason))
        log.error("upgrade has failed: the running release goes on", reason=reason)

    def _enter(self, progress: Progress) -> None:
        self._progress = progress
        try:
            progress.store(self._runtime)
        except OSError as error:
            log.error("cannot write the progress of the upgrade", problem=str(error))

"""Jobs that go on when files turn out to be unreadable, or were replaced by a compaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from pipeline.errors import PipelineError, is_read_failure, reason
from pipeline.read import Telemetry
from pipeline.runner import Runner

ATTEMPTS = 20
"""Each but the last has left out files, or met hours that were compacted meanwhile."""

Result = TypeVar("Result")
ReportProgress = Callable[[str], None]


def on_readable_files(
    telemetry: Telemetry, runner: Runner, job: Callable[[], Result], report_progress: ReportProgress
) -> Result:
    """Run a job that reads telemetry. If it fails because of its files, run it again on those that can be read.

    PipelineError if it fails for another reason, or too often.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return job()
        except PipelineError:
            raise
        except Exception as error:
            runner.cancel()
            if attempt == ATTEMPTS or not _can_go_on(telemetry, runner, error, report_progress):
                raise PipelineError(reason(error)) from error
    raise AssertionError("the last attempt returns or raises")


def _can_go_on(telemetry: Telemetry, runner: Runner, error: Exception, report_progress: ReportProgress) -> bool:
    """Whether a job that failed has other files to read now."""
    if telemetry.relist():
        report_progress("hours were compacted meanwhile: once more")
        return True
    if not is_read_failure(error):
        return False
    found = runner.run("a search for unreadable files", partial(telemetry.leave_out_unreadable, error))
    for path in found:
        report_progress(f"{path} cannot be read, and is left out")
    return bool(found)

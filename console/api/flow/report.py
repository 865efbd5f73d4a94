"""The pipeline's last report, as `penstock pipeline report --html` has written it."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import stat
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from console.http.access import Called
from console.http.errors import HttpError
from penstock.settings import Settings

router = APIRouter(prefix="/api", tags=["flow"])

REPORT_MOST = 16 * 1024 * 1024
"""The largest report that is served, in bytes."""
HEADERS = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}
"""A report runs no script and loads nothing; only the console's own pages may show it in a frame."""


class Report(NamedTuple):
    """A report, and when it was written: in seconds since 1970."""

    page: bytes
    written: float


@router.get("/report")
async def report(caller: Called) -> Response:
    """The pipeline's last report: a page, with its time as Last-Modified. 404 if there is none."""
    caller.must_monitor()
    settings = caller.broker.node.settings
    found = await asyncio.to_thread(_read, settings)
    headers = {**HEADERS, "last-modified": formatdate(found.written, usegmt=True)}
    return Response(found.page, headers=headers, media_type="text/html")


def _read(settings: Settings) -> Report:
    """Read the report. HttpError if there is none, or if it cannot be served."""
    path = settings.report_file
    try:
        with open(path, "rb", opener=_open) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise _unfit(path, "is not a file")
            page = file.read(REPORT_MOST + 1)
    except FileNotFoundError:
        raise HttpError(404, f"there is no report: `{_command(settings)}` writes one") from None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        raise _unfit(path, "is a symbolic link" if is_link else f"cannot be read: {error.strerror}") from None
    if len(page) > REPORT_MOST:
        raise _unfit(path, f"has more than {REPORT_MOST} bytes")
    return Report(page, facts.st_mtime)


def _open(path: str, flags: int) -> int:
    """Open a file, but no link to one; a pipe is not waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _unfit(path: Path, why: str) -> HttpError:
    return HttpError(500, f"the report {path} {why}")


def _command(settings: Settings) -> str:
    """Return the command that writes the report to its place."""
    places = ("--telemetry", str(settings.telemetry_directory), "--html", str(settings.report_file))
    return shlex.join(("penstock", "pipeline", "report", *places))

"""The error that the commands report to their user, and one line for errors of Spark and Java."""

from __future__ import annotations

import re
from urllib.parse import unquote

NOT_READ = ("[FAILED_READ_FILE", "[PATH_NOT_FOUND]")
"""Spark's classes of errors for a file that is damaged, of another format, or gone."""
READ_FILE = re.compile(r"(?:while reading file|Path does not exist:) (\S+?)\.?\s")
NO_CAUSE = ("An error occurred while calling", "Exception thrown in awaitResult")
"""How py4j and Spark begin texts that name the cause only later."""


class PipelineError(Exception):
    """A job cannot run; the text is one line that names the cause."""


class UnreadablePart(Exception):
    """A part that cannot be read in Spark's Python workers; the text is as that of Spark's own errors."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(f"{NOT_READ[0]}] while reading file {path} : {first_line(error)}")


def first_line(error: object) -> str:
    """Return the first line of an error's text that is not empty, else the name of its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def is_read_failure(error: object) -> bool:
    """Whether a job of Spark failed because of a file that cannot be read."""
    return any(name in str(error) for name in NOT_READ)


def file_of(error: object) -> str | None:
    """Return the path of the file that a job of Spark could not read; None if the error names none."""
    found = READ_FILE.search(str(error))
    return unquote(found[1]).removeprefix("file://").removeprefix("file:") if found else None


def reason(error: object) -> str:
    """Return one line for an error of Spark: the file that cannot be read, if there is one, and the innermost cause."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    texts = [line for line in lines if line and not any(opening in line for opening in NO_CAUSE)]
    cause = re.sub(r"^(?:[\w$]+\.)+([\w$]+: )", r"\1", (causes or texts or [type(error).__name__])[-1 if causes else 0])
    file = file_of(error)
    return cause if file is None else f"{file} cannot be read: {cause}"

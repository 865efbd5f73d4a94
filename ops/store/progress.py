"""The progress of a long run over a store: a bar on a terminal's standard error, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Step = Callable[[int], None]


@contextmanager
def progress(what: str, total: int) -> Iterator[Step]:
    """Yield a function to call with the number of further steps, of `total`, that are done."""
    bar = Progress(
        *(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
        ),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)

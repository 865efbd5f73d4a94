"""`penstock store`: tools for the stores of a node. All but check and backup need the node to be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from ops.administration.node import AsJson, show
from ops.claim import claimed, is_claimed
from ops.errors import CommandError
from ops.naming import Data, data_directory

if TYPE_CHECKING:
    from ops.store.check import Findings

app = typer.Typer(
    no_args_is_help=True,
)

CHECK_COLUMNS = ("shard", "queues", "segments", "messages", "message_bytes", "size", "problems")
SALVAGE_COLUMNS = (
    "shard", "segments", "messages", "lost_segments", "lost_messages", "damaged_pages", "undone", "again",
)  # fmt: skip
COMPACT_COLUMNS = ("shard", "before", "after")


@contextmanager
def _claim(data: Path | None, make: bool = False) -> Iterator[Path]:
    """Claim the data directory. CommandError or StartError if that fails."""
    directory = data_directory(data, new=make)
    with claimed(directory):
        yield directory


@contextmanager
def _claim_unless_live(data: Path | None) -> Iterator[tuple[Path, bool]]:
    """Yield the data directory, and whether a node runs on it; if none does, it is claimed meanwhile."""
    directory = data_directory(data)
    if is_claimed(directory):
        yield directory, True
    else:
        with claimed(directory):
            yield directory, False


@app.command()
def check(data: Data = None, as_json: AsJson = False) -> None:
    """Read every record, and check it against those that refer to it. Exit status 1 if anything is wrong.

    Example: penstock store check --data /var/lib/penstock
    """
    from ops.store.check_all import check_all

    with _claim_unless_live(data) as (directory, live):
        found, problems = check_all(directory, live)
    _show_findings(found, problems, as_json)
    if problems or any(findings.problems for findings in found):
        raise typer.Exit(1)


def _show_findings(found: list[Findings], problems: list[str], as_json: bool) -> None:
    if as_json:
        facts = {"stores": [asdict(findings) for findings in found], "topology": problems}
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    show([asdict(findings) for findings in found], CHECK_COLUMNS, as_json=False)
    for findings in found:
        for text in findings.first_problems:
            print(f"shard {findings.shard}: {text}")
        if findings.problems > len(findings.first_problems):
            print(f"shard {findings.shard}: and {findings.problems - len(findings.first_problems)} more problems")
    for text in problems:
        print(text)


NewBackup = Annotated[Path, typer.Argument(metavar="DIR", help="a directory that does not exist", show_default=False)]


@app.command()
def backup(new: NewBackup, data: Data = None) -> None:
    """Copy all stores as they are at one moment; the node may be running. Exit status 1 if a store was damaged.

    Example: penstock store backup /backup/monday --data /var/lib/penstock
    """
    from ops.store.backup import backup as back_up

    with _claim_unless_live(data) as (directory, live):
        made, found, problems = back_up(directory, new, live)
    _show_findings(found, problems, as_json=False)
    print(f"{len(made.files):,} files, {sum(file.size for file in made.files.values()):,} bytes")
    if made.problems:
        raise typer.Exit(1)


@app.command()
def accept(data: Data = None) -> None:
    """Go on without missing and unreadable stores, and with stores from another time; nothing is deleted.

    Example: penstock store accept --data /var/lib/penstock
    """
    from ops.store.recognition import accept as accept_stores

    with _claim(data) as directory:
        lines = accept_stores(directory)
    for line in lines or ["nothing is missing"]:
        print(line)


@app.command()
def compact(data: Data = None, as_json: AsJson = False) -> None:
    """Shrink the store files as far as their contents allow. The disk needs room for a second copy of one at a time.

    Example: penstock store compact --data /var/lib/penstock
    """
    from ops.store.compact import compact as compact_store
    from ops.store.opened import store_paths

    with _claim(data) as directory:
        gains = [asdict(compact_store(path, shard)) for shard, path in store_paths(directory)]
    show(gains, COMPACT_COLUMNS, as_json)
    if not as_json:
        print(f"gained {sum(gain['before'] - gain['after'] for gain in gains):,} bytes")


New = Annotated[Path, typer.Argument(metavar="NEW", help="a new data directory", show_default=False)]


@app.command()
def salvage(new: New, data: Data = None) -> None:
    """Save all that is readable in damaged stores into a new data directory. Exit status 1 if anything is lost.

    Example: penstock store salvage /var/lib/saved --data /var/lib/penstock
    """
    from ops.store.salvage import salvage as salvage_stores

    with _claim(data) as directory, claimed(new):
        found, problem = salvage_stores(directory, new)
    if problem:
        print(f"topology: {problem}")
    show([asdict(saved) for saved in found], SALVAGE_COLUMNS, as_json=False)
    for saved in found:
        if saved.undone:
            print(f"shard {saved.shard}: {saved.undone} parts of unfinished transactions are undone")
    if problem or any(saved.damaged_pages or saved.lost_messages or saved.undone for saved in found):
        raise typer.Exit(1)


File = Annotated[Path, typer.Argument(metavar="FILE", help="the file to write; must not exist", show_default=False)]


@app.command()
def dump(file: File, data: Data = None) -> None:
    """Write users, policies, exchanges, queues, bindings and all persistent messages to a new file.

    Example: penstock store dump /backup/all.dump --data /var/lib/penstock
    """
    from ops.store.dump import dump as dump_stores

    with _claim(data) as directory:
        count = dump_stores(directory, file)
    print(f"{count.queues:,} queues, {count.messages:,} messages, {count.nbytes:,} bytes of bodies")


Source = Annotated[
    Path,
    typer.Argument(metavar="FILE|DIR", help="a file made by dump, or a directory made by backup", show_default=False),
]


@app.command()
def restore(source: Source, data: Data = None) -> None:
    """Restore a dump into a new data directory, or a backup into any: existing stores are renamed, not deleted.

    Example: penstock store restore /backup/monday --data /var/lib/penstock
    """
    if source.is_dir():
        _restore_backup(source, data)
    elif source.is_file():
        _restore_dump(source, data)
    else:
        raise CommandError(f"cannot read {source}: {'not a file' if source.exists() else 'no such file'}")


def _restore_dump(file: Path, data: Path | None) -> None:
    from ops.store.restore import restore as restore_stores

    with _claim(data, make=True) as directory:
        count = restore_stores(file, directory)
    print(f"{count.queues:,} queues, {count.messages:,} messages, {count.nbytes:,} bytes of bodies")


def _restore_backup(source: Path, data: Path | None) -> None:
    from ops.store.manifest import load
    from ops.store.replace import replace

    made = load(source)
    with _claim(data, make=True) as directory:
        lines = replace(source, made, directory)
    for line in lines:
        print(line)
    print(f"{len(made.files):,} files, {sum(file.size for file in made.files.values()):,} bytes")
    if made.problems:
        print(
            f"{made.problems:,} problems were in the stores when they were backed up: `penstock store check` names them"
        )

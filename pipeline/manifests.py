"""The manifests of a dataset's directories, committed without renaming or overwriting a file.

    part-<run>-0000.parquet      named by the manifest that counts
    part-<other>-0000.parquet    unnamed: replaced, or left by a run that died
    _manifest-000006.json        superseded
    _manifest-000007.json        counts: the highest that is complete
    _manifest-000008.json        torn: its writer died

A commit writes a manifest under the next number. A sweep then removes the unnamed parts, and last the superseded
manifests, which therefore show that a sweep has not ended. All that this needs of a file system is that a file can be
listed and read once it is closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from pipeline import layout
from pipeline.errors import PipelineError
from pipeline.files import DamagedError, Files

PATTERN: Final = f"{{_manifest-*.json,{layout.MANIFEST_0},part-*}}"
"""A glob for the manifests and parts of a directory."""
ATTEMPTS: Final = 20
"""Each but the last has met a manifest that was swept between its listing and its reading."""


class AnyManifest(Protocol):
    """A manifest of any dataset."""

    @property
    def parts(self) -> Sequence[str]:
        """Names of the parts that count."""

    def to_json(self) -> str:
        """Serialize the manifest."""


M = TypeVar("M", bound=AnyManifest)


@dataclass(frozen=True, slots=True)
class Directory(Generic[M]):
    """A directory's manifest that counts, None if it has no complete one; the number for the next one; and the paths of
    superseded manifests and unnamed parts. All as of one listing.
    """

    manifest: M | None = None
    next_number: int = 1
    superseded: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()


def read_directories(files: Files, pattern: str, parse: Callable[[str], M | None]) -> dict[str, Directory[M]]:
    """Return all directories that match a glob and have manifests or parts, by path. `parse` returns a manifest; None
    if it is incomplete.

    PipelineError if files cannot be listed or read.
    """
    listed = defaultdict[str, list[str]](list)
    for path in files.matching(f"{pattern}/{PATTERN}"):
        listed[path.rpartition("/")[0]].append(path)
    return {path: _read(files, path, own, parse) for path, own in listed.items()}


def commit(files: Files, path: str, number: int, manifest: AnyManifest) -> None:
    """Write the manifest of a directory, whose parts are there and closed. `number` is the directory's `next_number`
    from before the parts were made, so that of two runs at once only one can commit.

    PipelineError if it cannot be written, or another run has committed: the new parts then do not count.
    """
    files.write(f"{path}/{layout.manifest_name(number)}", manifest.to_json().encode())


def sweep(files: Files, directory: Directory[M]) -> None:
    """Remove the unnamed parts and superseded manifests of a directory.

    Unnamed parts may be those of a run that has still to commit. None can have such parts in a directory read after a
    commit, or with superseded manifests: a run sweeps such directories before it writes to them.
    """
    for path in (*directory.unnamed, *directory.superseded):
        files.delete(path)


def _read(files: Files, path: str, listed: Sequence[str], parse: Callable[[str], M | None]) -> Directory[M]:
    """Read the manifests of a directory from the highest on, until one is complete."""
    for _ in range(ATTEMPTS):
        names = {layout.name_of(each): each for each in listed}
        numbers = {number: name for name in names if (number := layout.manifest_number(name)) is not None}
        parts = {name: each for name, each in names.items() if layout.PART.fullmatch(name)}
        next_number = max(numbers, default=0) + 1
        for number in sorted(numbers, reverse=True):
            try:
                text = files.read(names[numbers[number]])
            except DamagedError:
                continue
            if text is None:
                break
            if manifest := parse(text):
                superseded = tuple(names[name] for other, name in numbers.items() if other < number)
                unnamed = tuple(each for name, each in parts.items() if name not in manifest.parts)
                return Directory(manifest, next_number, superseded, unnamed)
        else:
            return Directory(None, next_number, (), tuple(parts.values()))
        listed = files.matching(f"{path}/{PATTERN}")
    raise PipelineError(f"{path}: a manifest is listed, but is not there, again and again")

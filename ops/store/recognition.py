"""Checks that the stores of a data directory are those that its node left: complete, its own, and from the same time.

Each store records its node, the run that wrote it last and its number of commits. Its witness records that the store
exists, and its number of commits (penstock/files/witness.py). DATA/witness/node records the node and its last runs
(ops/store/identity.py). Stores of a penstock without these records are accepted as they are by the first run that keeps
them: that run writes `node` first, so the next run completes one that is cut short.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ops.errors import CommandError, StartError
from ops.store.identity import NAME, Identity, load, new_node, store
from ops.store.opened import FOLDER, store_paths
from penstock.files.apart import EndedError, apart
from penstock.files.directories import set_aside
from penstock.files.witness import FOLDER as WITNESSES
from penstock.files.witness import TOPOLOGY, Witness, shard_name
from router.storage import store as topology
from shard.contents.errors import DamagedError, StoreError
from shard.store.environment import FILE_NAME
from shard.store.probe import Facts, probe

SALVAGES = "`penstock store salvage` saves what can be read of it"
GOES_ON = "`penstock store accept` goes on without it"


class Complaint(NamedTuple):
    """A problem of a store, and the remedy by which the node can go on without it."""

    path: Path
    reason: str
    remedy: Callable[[], str]

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {GOES_ON}"


class Standing:
    """The state of the stores of a data directory: facts of the readable ones, complaints about the others."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.complaints: list[Complaint] = []
        self.shards: dict[int, Facts] = {}
        self.topology: topology.Facts | None = None
        self.identity = self._load_identity()
        self._check_topology()
        for index, path in self._paths():
            self._check_shard(index, path)
        self._check_missing()

    def needed(self) -> list[int]:
        """Return the shards that have messages."""
        return [index for index, facts in self.shards.items() if facts.records]

    def node(self) -> int:
        """Return the node number of the stores, or else a new one."""
        if self.identity is not None:
            return self.identity.node
        return next(filter(None, self._nodes()), None) or new_node()

    def epochs(self) -> set[int]:
        """Return the epochs of the runs that wrote the stores last."""
        found = {facts.epoch for facts in self.shards.values()}
        return found | ({self.topology.epoch} if self.topology is not None else set())

    def _nodes(self) -> list[int | None]:
        return [*(facts.node for facts in self.shards.values()), self.topology.node if self.topology else None]

    def _complain(self, path: Path, reason: str, remedy: Callable[[], str]) -> None:
        self.complaints.append(Complaint(path, reason, remedy))

    def _load_identity(self) -> Identity | None:
        path = self.data / WITNESSES / NAME
        try:
            return load(self.data)
        except (OSError, ValueError):
            self._complain(path, "it cannot be read", partial(self._remember, path))
            return None

    def _check_topology(self) -> None:
        path = self.data / topology.FILE_NAME
        set_all_aside = partial(self._begin_anew, path)
        try:
            self.topology = topology.facts_of(path)
        except topology.StoreError as error:
            self._complain(path, str(error).removeprefix(f"{path}: "), set_all_aside)
            return
        if self.topology is not None:
            self._check_facts(path, TOPOLOGY, self.topology, set_all_aside)

    def _paths(self) -> list[tuple[int, Path]]:
        return store_paths(self.data)

    def _check_shard(self, index: int, path: Path) -> None:
        remedy = partial(self._begin_shard_anew, index)
        try:
            self.shards[index] = facts = apart(partial(probe, path, index), (StoreError,))
            self._check_facts(path, shard_name(index), facts, remedy)
        except (EndedError, DamagedError) as error:
            reason = error.reason if isinstance(error, DamagedError) else str(error)
            self._complain(path, f"{reason}; {SALVAGES}", remedy)
        except StoreError as error:
            self._complain(path, error.reason, remedy)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None

    def _check_facts(self, path: Path, name: str, facts: Facts | topology.Facts, anew: Callable[[], str]) -> None:
        """Compare the facts of a store with its witness and the node's identity."""
        if self.identity is None:
            return
        witness = Witness(self.data, name, self.identity.node)
        try:
            reason = witness.complaint(facts.node, facts.commits)
        except (OSError, ValueError):
            self._complain(witness.path, "it cannot be read", partial(self._accept, witness))
            return
        if facts.node not in (None, self.identity.node):
            self._complain(path, "it is of another node", anew)
        elif reason is not None:
            self._complain(path, reason, partial(self._accept, witness))
        elif facts.node is not None and facts.epoch not in self.identity.epochs:
            self._complain(path, "it is from another time", partial(self._accept, witness))

    def _check_missing(self) -> None:
        if self.identity is None and any(self._nodes()):
            path = self.data / WITNESSES / NAME
            if not any(complaint.path == path for complaint in self.complaints):
                self._complain(path, "it is missing", partial(self._remember, path))
        path = self.data / topology.FILE_NAME
        wanted = self._has_witness(TOPOLOGY) or bool(self.needed())
        if wanted and self.topology is None and not any(complaint.path == path for complaint in self.complaints):
            self._complain(path, "it is missing", partial(self._begin_anew, path))
        there = {index for index, _ in self._paths()}
        for index in sorted(self._expected() - there):
            path = self.data / FOLDER / str(index)
            file = path / FILE_NAME
            emptied = file.exists() and file.stat().st_size > 0
            reason = f"it is damaged: there is no store in its file; {SALVAGES}" if emptied else "it is missing"
            self._complain(path, reason, partial(self._begin_shard_anew, index))

    def _has_witness(self, name: str) -> bool:
        return (self.data / WITNESSES / name).exists()

    def _expected(self) -> set[int]:
        """Return the shards that had a store."""
        prefix = shard_name(0)[:-1]
        names = [path.name.removeprefix(prefix) for path in (self.data / WITNESSES).glob(f"{prefix}*")]
        expected = {int(name) for name in names if name.isdecimal()}
        if self.identity is None and self.topology is not None:
            expected |= set(self.topology.shards)
        return expected

    # Remedies; each returns a description of its effect

    def _remember(self, path: Path) -> str:
        if path.exists():
            set_aside(path)
        return f"{path} is created anew"

    def _accept(self, witness: Witness) -> str:
        witness.forget()
        return f"{witness.path.name} is accepted as it is"

    def _begin_shard_anew(self, index: int) -> str:
        path = self.data / FOLDER / str(index)
        aside = set_aside(path) if path.exists() else None
        Witness(self.data, shard_name(index), 0).forget()
        return f"shard {index} begins empty" + (f", {path} is now {aside}" if aside else "")

    def _begin_anew(self, path: Path) -> str:
        """Set the topology and all stores aside: without a topology the node would delete their messages."""
        for part in (path, *path.parent.glob(f"{path.name}-*")):
            if part.exists() and ".set-aside" not in part.name:
                set_aside(part)
        Witness(self.data, TOPOLOGY, 0).forget()
        lines = [self._begin_shard_anew(index) for index, _ in self._paths()]
        return "; ".join(["the node begins without queues", *lines])


def recognise(data: Path) -> Standing:
    """Return the state of a data directory's stores. StartError if one is missing, damaged, or from another time."""
    try:
        standing = Standing(data)
    except CommandError as error:
        raise StartError(str(error)) from None
    if standing.complaints:
        raise StartError(str(standing.complaints[0]))
    return standing


def accept(data: Path) -> list[str]:
    """Apply the remedies, and return a description of each. OSError or CommandError if that fails."""
    lines: list[str] = []
    for _ in range(100):  # one remedy may show what another complaint hid
        standing = Standing(data)
        if not standing.complaints:
            store(data, Identity(standing.node(), tuple(sorted(standing.epochs()))))
            return lines
        lines.append(standing.complaints[0].remedy())
        epochs = standing.epochs() | set(standing.identity.epochs if standing.identity else ())
        store(data, Identity(standing.node(), tuple(sorted(epochs))))
    raise CommandError(str(standing.complaints[0]))


def begin_run(data: Path, standing: Standing, epoch: int) -> int:
    """Record that a run begins, and return the node's number. StartError if that fails."""
    identity = Identity(standing.node(), tuple(sorted(standing.epochs() | {epoch})))
    try:
        store(data, identity)
    except OSError as error:
        raise StartError(f"cannot write {data / WITNESSES / NAME}: {error.strerror}") from None
    return identity.node

"""The router without its sockets: requests in, one published frame and the replies out.

All requests that arrive in one turn of the loop share one transaction and one version of the topology. A turn ends in
this order, which is essential:

    stored ──▶ published ──▶ version in the gauges ──▶ replies

A requester can rely on its reply after any crash, and finds no acceptor that routes by an older topology: one that has
not yet applied the published changes sees by the gauges that it must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from penstock import bus
from penstock.bus.router_messages import Published, RouterReply, RouterRequest
from penstock.control.control import Refusal, refused
from penstock.node.logs import get_logger
from router.authority import queue_arguments, vhosts
from router.authority.authority import Authority
from router.authority.checks import EXCHANGE_ARGUMENTS
from router.authority.hold_offs import forget_expired
from router.authority.ledger import Step
from router.authority.operations import Malformed, Outcome, perform
from router.commands import accounts, definitions
from router.commands.administration import Administration, check_vhost
from router.commands.moves import MOVE, MOVE_ARGUMENTS
from router.commands.registry import NOT_AUDITED, check_arguments, execute
from router.commands.stops import lift_expired
from router.model.record_kind import Change
from router.model.records import Exchange, Queue
from router.storage.recent import Recent
from router.storage.store import Store

log = get_logger()

SNAPSHOT = "snapshot"
LIST_OF_FOUR = b"\x94"
"""The first byte of a list of four in msgpack."""

DECLARED: dict[str, tuple[int, frozenset[str]]] = {
    record_type.record_kind.name: (1 + record_type.record_kind.fields.index("arguments"), known)
    for record_type, known in ((Queue, queue_arguments.KNOWN), (Exchange, EXCHANGE_ARGUMENTS))
}
"""The index of a declaration's arguments in its change, and the arguments that replicas use."""

Answered = Callable[[dict[str, Any]], None]
"""Called with the answer to a command, as sent over the control socket."""


class Turn(NamedTuple):
    """The output of a turn: the frame to publish, None if nothing changed; replies to requesters, by identity; answers
    to commands.
    """

    version: int
    published: bytes | None
    replies: list[tuple[bytes, bytes]]
    answers: list[tuple[Answered, dict[str, Any]]]


class RouterCore:
    """The authority, its store, and the turn in progress."""

    def __init__(
        self, authority: Authority, store: Store, turns: Iterable[tuple[int, bytes]] = (),
        through: Callable[[list[Any]], Iterable[Any]] = iter,
    ) -> None:  # fmt: skip
        """`turns` are the last ones that an earlier incarnation stored; `through` is that of `Administration`."""
        self.authority = authority
        self.store = store
        self.recent = Recent(turns)
        self._answers: list[tuple[bytes, Any, Outcome | int]] = []
        self._command_answers: list[tuple[Answered, dict[str, Any]]] = []
        self._steps: list[Step] = []
        self._administration = Administration(authority, through)
        for vhost in authority.topology.vhosts():
            vhosts.add(authority.ledger, vhost)  # adds exchanges that only this penstock predeclares

    def seed(self) -> None:
        """Make the accounts of a new node; once for its data directory."""
        accounts.seed(self.authority.ledger)

    def ensure_first_user(self, name: str, password_file: Path, new: bool) -> None:
        """Ensure that there is this user, with the password in the file; `new`: the node still needs a vhost. Refusal,
        and no change, if there is no password in the file.
        """
        try:
            lines = password_file.read_text(errors="surrogateescape").splitlines()
        except OSError as error:
            raise Refusal(
                "invalid", f"cannot read first_user.password_file {password_file}: {error.strerror}"
            ) from None
        if len(lines) != 1 or not lines[0]:
            raise Refusal("invalid", f"first_user.password_file {password_file} does not contain one line")
        if new:
            vhosts.add(self.authority.ledger, vhosts.DEFAULT_VHOST)
        accounts.ensure_first_user(self.authority.ledger, name, lines[0])

    def import_definitions(self, file: Path) -> None:
        """Import the definitions in a file, with the end of the turn. Refusal, and no change, if that fails."""
        found = definitions.import_file(self._administration, file)
        log.info("definitions imported", file=str(file), **found["imported"])
        for text in found["ignored"]:
            log.warning("a definition has no meaning here", definition=text)

    @property
    def version(self) -> int:
        """The version of the topology, without the changes of the turn in progress."""
        return self.authority.topology.version

    def receive(self, identity: bytes, frame: bytes) -> None:
        """Handle one request. An unreadable one has no number to reply to, and is only logged."""
        try:
            number, operation, arguments = _request(frame)
        except Malformed as error:
            log.error("unreadable request", sender=identity.decode("ascii", "replace"), problem=str(error))
            return
        if operation == SNAPSHOT and isinstance(have := arguments.get("have"), int):
            self._shard_started(identity)
            self._answers.append((identity, number, have))
            return
        request = f"{identity.decode('ascii', 'replace')}/{number}"
        outcome = perform(self.authority, operation, arguments, request)
        self._answers.append((identity, number, outcome))

    def command(self, command: str, arguments: dict[str, Any], answered: Answered) -> None:
        """Carry out a command of the control socket. The end of the turn answers it."""
        answer: dict[str, Any]
        if command == MOVE:
            self._move(arguments, answered)
            return
        try:
            answer = {"result": execute(self._administration, command, arguments)}
        except Refusal as refusal:
            answer = refused(refusal)
        written = log.debug if command in NOT_AUDITED and "result" in answer else log.info  # some come each second
        written("command", command=command, error=answer.get("error"))
        self._command_answers.append((answered, answer))

    def _move(self, arguments: dict[str, Any], answered: Answered) -> None:
        """Begin to move a queue. The end of the move answers the command."""
        try:
            check_arguments(MOVE, MOVE_ARGUMENTS, arguments)
            check_vhost(self.authority.ledger, arguments["vhost"])
        except Refusal as refusal:
            self._command_answers.append((answered, refused(refusal)))
            return
        self.authority.moves.start(**arguments, ended=lambda result: answered({"result": result}))

    def _shard_started(self, identity: bytes) -> None:
        """Report the incarnation of a shard to the moves: each begins by asking for a snapshot."""
        role, _, place = identity.decode("ascii", "replace").partition(".")
        if role == "shard":
            index, _, incarnation = place.partition(".")
            self.authority.moves.shard_started(int(index), int(incarnation))

    def acceptor_died(self, index: int, incarnation: int) -> None:
        """Delete the exclusive queues of a dead acceptor's connections, up to that incarnation."""
        queues = self.authority.acceptor_died(index, incarnation)
        if queues:
            log.info("exclusive queues deleted, their acceptor died", acceptor=index, queues=queues)

    def end_expired(self) -> None:
        """End the moves, stops and hold-offs whose time is up, with the end of the turn."""
        self.authority.moves.roll_back_failed()
        lift_expired(self._administration)
        forget_expired(self.authority)

    def finish_turn(self) -> Turn:
        """Store the changes and return the output. StoreError leaves the turn open: nothing is lost, try again."""
        self._steps += self.authority.ledger.take_steps()
        published = None
        if self._steps:
            version = self.version + 1
            changes = [for_replicas(step.change) for step in self._steps]
            published = bus.pack(Published(version, changes))
            self.store.commit(self._steps, version, self.authority.ledger.last_queue_id, published)
            self.authority.topology.version = version
            self.recent.add(version, published)
            self._steps = []
        answers, self._answers = self._answers, []
        command_answers, self._command_answers = self._command_answers, []
        command_answers += self.authority.moves.take_answers()
        snapshots: dict[int, bytes] = {}
        replies = [self._reply(*answer, snapshots) for answer in answers]
        return Turn(self.version, published, replies, command_answers)

    def _reply(
        self, identity: bytes, number: Any, outcome: Outcome | int, known: dict[int, bytes]
    ) -> tuple[bytes, bytes]:
        """Return a requester's identity and its reply. A snapshot is made here, where the topology agrees with its
        version; `known` has those made already, by the version that requesters have.
        """
        if isinstance(outcome, Outcome):
            return identity, bus.pack(RouterReply(number, self.version, outcome.result, outcome.error))
        if outcome not in known:
            known[outcome] = self._snapshot(outcome)
        # A RouterReply, with a result that is packed once for many.
        frame = (LIST_OF_FOUR, bus.pack(number), bus.pack(self.version), known[outcome], bus.pack(None))
        return identity, b"".join(frame)

    def _snapshot(self, have: int) -> bytes:
        """Return the turns published since a version, or the whole topology if they are not all remembered."""
        turns = self.recent.since(have, self.version)
        if turns is not None:
            return bus.pack({"turns": turns})
        return bus.pack({"changes": [for_replicas(change) for change in self.authority.topology.changes()]})


def for_replicas(change: Change) -> Change:
    """Return a change as published to replicas: without the arguments of a declaration that no replica uses."""
    at, known = DECLARED.get(change[0], (0, frozenset()))
    if not at or known.issuperset(change[at]):
        return change
    return [*change[:at], {name: value for name, value in change[at].items() if name in known}, *change[at + 1 :]]


def _request(frame: bytes) -> RouterRequest:
    try:
        request = bus.unpack(frame)
    except (ValueError, TypeError) as error:  # TypeError: a map with keys that cannot be hashed
        raise Malformed(f"not msgpack: {error}") from None
    if not isinstance(request, list) or len(request) != len(RouterRequest._fields):
        raise Malformed("not [request, operation, arguments]")
    asked = RouterRequest(*request)
    if not isinstance(asked.number, int):
        raise Malformed("not [request, operation, arguments]")
    return asked

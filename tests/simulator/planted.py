"""Bugs to plant, one at a time, each as it could have been written: the simulator must find every one.

Each replaces one method of the product while a play lasts (`tests.simulator.planting`).
"""

from __future__ import annotations

import math
import signal
from collections.abc import Generator
from typing import Any

from acceptor.amqp.channel import Channel
from acceptor.amqp.connection import Connection
from acceptor.budgets.quotas import Quotas
from acceptor.budgets.unfinished import Unfinished
from acceptor.clients.prefetch import SharedPrefetch
from acceptor.clients.silence import Silence
from acceptor.core import AcceptorCore
from acceptor.gates.claims import Claim
from acceptor.gates.confirms import Span
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import RateGate
from acceptor.gates.stops import StopGate
from acceptor.holding.drip import Drip
from acceptor.holding.escalation import Escalations
from acceptor.holding.notifier import Notifier
from acceptor.links.shard_link import ShardLink
from acceptor.moving.requests import Requests
from acceptor.routing.gates import Gates
from acceptor.transactions.transaction import Transaction
from console.recorder import Recorder
from ops.child import Child
from ops.deadlock_search import DeadlockSearch
from ops.places import Places
from ops.renewal import Renewal
from penstock.bus import to_acceptor
from penstock.bus.router_client import Follower
from router.authority.moving import Moves as RouterMoves
from router.authority.shards import Shards
from router.core import RouterCore, Turn
from router.model.grants import NOBODY, Grants
from router.model.hashing import HashIndex
from router.processes import Processes
from router.storage.store import Store as RouterStore
from router.storage.store import StoreError as RouterStoreError
from shard.contents.delay_cy import DUE
from shard.core import ShardCore
from shard.dead_letters.burial import Burial
from shard.flow.flow import Flow
from shard.queue.stalls import Stalls
from shard.requests.consuming import Consuming
from shard.serving.intake import Intake
from shard.serving.leases import Leases
from shard.store.journal import Journal
from shard.transactions.two_phase import TwoPhase
from shard.turns.commits import Commits
from shard.turns.link import Link
from tests.simulator.plan import Deed, Mishap
from tests.simulator.planting import (
    Plants,
    death_beside_transactions,
    death_of_successor,
    deed,
    delays,
    fault,
    ladder,
    refusal,
    ring,
)

PLANTS = Plants()
plant = PLANTS.plant


@plant(Commits, "make_safe", needs=fault(Mishap.KILL, of="shard"))
def confirms_come_before_the_disk(right: Any, commits: Commits) -> None:
    for link in commits.state.links.values():
        link.make_safe(link.received)
    right(commits)


@plant(ShardLink, "died", needs=fault(Mishap.KILL, of="shard"))
def turns_in_flight_die_with_their_shard(right: Any, link: ShardLink) -> None:
    right(link)
    link.sent.clear()


@plant(Link, "report_received", needs=fault(Mishap.KILL, of="shard"))
def refusals_are_forgotten_early(right: Any, link: Link, last_report: int) -> None:
    right(link, last_report)
    link.verdicts.clear()


@plant(Link, "deliver")
def redeliveries_are_not_marked(right: Any, link: Link, consumer: Any, item: Any) -> None:
    part = link.turn.place_batch(item.batch, item.first, item.count)
    link.turn.add(to_acceptor.Deliver(consumer.id, item.sequence, part, item.count, False))


@plant(ShardCore, "died", needs=fault(Mishap.KILL, of="acceptor"))
def unacked_messages_of_a_dead_acceptor_stay_unacked(
    right: Any, core: ShardCore, role: str, index: int, incarnation: int
) -> None:
    if role != "acceptor":
        right(core, role, index, incarnation)


@plant(ShardCore, "finish_touched")
def a_turn_ends_with_an_exception(right: Any, core: ShardCore) -> None:
    if core.state.recovery is not None:
        raise ValueError("queue slot 58 is not open")
    right(core)


@plant(Gates, "on_broadcast", "recheck_queues")
def wakeups_are_lost(right: Any, gates: Gates, *args: Any) -> None:
    pass


@plant(Gates, "lift", needs=deed(Deed.LIFT))
def a_lifted_stop_still_holds(right: Any, gates: Gates, number: int) -> None:
    gates.stops.pop(number)


@plant(Notifier, "retract")
def nobody_is_unblocked(right: Any, notifier: Notifier, channel: Any) -> None:
    pass


@plant(Transaction, "rollback")
def a_rollback_commits(right: Any, transaction: Transaction, channel: Any) -> None:
    pass


@plant(TwoPhase, "do")
def a_part_of_a_transaction_is_left_out(right: Any, two_phase: TwoPhase, link: Link, do: Any) -> None:
    id = two_phase.id_of(link, do.number)
    if id in two_phase.parts:
        two_phase._abort(id)
    right(two_phase, link, do)


@plant(AcceptorCore, "apply")
def a_replica_misses_changes(right: Any, core: AcceptorCore, version: int, changes: list[Any]) -> None:
    known = core.topology.queue
    right(core, version, [change for change in changes if change[0] != "queue" or known(*change[1:3]) is None])


@plant(Span, "complete")
def confirms_come_twice(right: Any, span: Span) -> None:
    right(span)
    right(span)


@plant(Channel, "end")
def publishes_of_a_lost_connection_are_dropped(right: Any, channel: Channel, event: Any, *, keep_parked: bool) -> None:
    right(channel, event, keep_parked=False)


@plant(Intake, "publish")
def a_fanout_forgets_a_queue(
    right: Any, intake: Intake, link: Link, parts: Any, turn: int, index: int, publish: Any, **options: Any
) -> Any:
    if len(publish.queues) > 1:
        publish = publish._replace(queues=publish.queues[:-1])
    return right(intake, link, parts, turn, index, publish, **options)


@plant(HashIndex, "choose")
def every_key_has_the_same_queue(right: Any, index: HashIndex, value: object) -> Any:
    return right(index, None)


@plant(Burial, "add", needs=delays)
def what_is_due_is_forgotten(right: Any, burial: Burial, queue: Any, dead: list[tuple[int, Any]]) -> None:
    right(burial, queue, [each for each in dead if each[0] != DUE])


@plant(Burial, "let_go_on", "count_blocked", needs=delays)
def what_is_due_and_was_blocked_keeps_the_rest_back(right: Any, burial: Burial, *args: Any) -> None:
    pass


@plant(Consuming, "settle")
def settlements_are_dropped_now_and_then(right: Any, consuming: Consuming, link: Link, rows: bytes) -> None:
    if len(rows) < 400:
        right(consuming, link, rows)


@plant(RouterMoves, "roll_back_failed", "shard_started", needs=deed(Deed.MOVE, Deed.DRAIN))
def nobody_rolls_back_a_move(right: Any, moves: RouterMoves, *args: Any) -> None:
    pass


@plant(Channel, "answer_close")
def a_close_that_crosses_ours_is_not_answered(right: Any, channel: Channel) -> None:
    pass


@plant(Consuming, "open_window")
def consumers_are_not_credited_for_what_they_have_read(
    right: Any, consuming: Consuming, link: Link, window: Any
) -> None:
    pass


@plant(Quotas, "keep")
def memory_that_is_freed_stays_charged(right: Any, quotas: Quotas, connection: Any, nbytes: int) -> None:
    right(quotas, connection, nbytes if nbytes > 0 else nbytes + 1)


@plant(Span, "reject", needs=refusal)
def refused_publishes_are_acked(right: Any, span: Span, offset: int, count: int) -> None:
    pass


@plant(Stalls, "go_on_without", needs=fault(Mishap.ROT, Mishap.MISDIRECT, Mishap.LOSE_WRITE, of="disk"))
def a_damaged_message_stops_its_queue(right: Any, stalls: Stalls, queue: Any, error: Any, drop: Any) -> bool:
    return False


@plant(Journal, "take_back", needs=fault(Mishap.FULL, of="disk"))
def a_commit_that_failed_is_forgotten(right: Any, journal: Journal, commit: Any) -> None:
    journal.written()


@plant(Gates, "close_queue_gate")
def producers_of_a_deleted_queue_wait_for_ever(right: Any, gates: Gates, id: int) -> None:
    gates.queue_gates.pop(id, None)


@plant(Burial, "publish")
def dead_letters_to_other_shards_are_lost(
    right: Any, burial: Burial, targets: Any, builder: Any, nbytes: int, grave: Any
) -> None:
    here = tuple(queue for queue in targets if queue.shard == burial.state.index)
    right(burial, here, builder, nbytes, grave)


@plant(Silence, "recheck", needs=fault(Mishap.CUT, of="client"))
def silent_clients_are_never_hung_up_on(right: Any, silence: Silence) -> None:
    pass


@plant(Requests, "delete_exclusive")
def exclusive_queues_outlive_their_connection(right: Any, requests: Requests, connection: Any, done: Any) -> None:
    done()


@plant(TwoPhase, "on_in_doubt", needs=death_beside_transactions)
def nobody_answers_what_became_of_a_transaction(right: Any, two_phase: TwoPhase, link: Link, doubt: Any) -> None:
    pass


@plant(StopGate, "concerns", needs=deed(Deed.STOP))
def a_stop_of_a_queue_stops_nothing(right: Any, gate: StopGate, *args: Any) -> bool:
    return gate.stop.queue is None and right(gate, *args)


@plant(Gates, "recheck_queues")
def a_lost_broadcast_is_never_noticed(right: Any, gates: Gates) -> None:
    pass


@plant(RateGate, "room_of")
def a_rate_lets_in_more_than_there_is_room_for(right: Any, gate: RateGate, which: int, ahead: int) -> int:
    return 10 * int(right(gate, which, ahead)) + 10


@plant(Drip, "is_read_on")
def held_clients_drip_without_bound(right: Any, drip: Drip, connection: Any) -> bool:
    return True


@plant(SharedPrefetch, "is_hungry")
def hungry_shards_are_forgotten(right: Any, shared: SharedPrefetch, shard: int) -> None:
    pass


@plant(Grants, "powerless")
def unprivileged_queues_have_power(right: Any, *args: Any) -> Generator[None, None, frozenset[int]]:
    yield from ()
    return NOBODY


@plant(Unfinished, "recount")
def begun_bodies_are_not_charged(right: Any, unfinished: Unfinished, connection: Any) -> None:
    pass


@plant(Claim, "settle")
def claims_are_not_given_back(right: Any, claim: Claim) -> None:
    pass


@plant(Connection, "fail", needs=lambda plan: bool(plan.bounds.last_resort))
def the_last_resort_drops_what_is_parked(
    right: Any, connection: Connection, error: Any, *, keep_parked: bool = False
) -> None:
    right(connection, error)


@plant(RouterCore, "finish_turn", needs=fault(Mishap.FULL, of="router disk"))
def changes_that_could_not_be_stored_are_forgotten(right: Any, core: RouterCore) -> Turn:
    try:
        turn: Turn = right(core)
    except RouterStoreError:
        core._steps = []
        raise
    return turn


@plant(RouterStore, "_begin_epoch", needs=fault(Mishap.POWER, of="machine"))
def transient_records_outlive_the_machine(right: Any, store: RouterStore, epoch: int) -> None:
    store._set_fact("epoch", epoch)


@plant(Follower, "router_started", needs=fault(Mishap.KILL, of="router"))
def what_a_dead_router_has_stored_is_not_asked_for(right: Any, follower: Follower) -> None:
    for frame, _ in list(follower.pending.values()):
        follower.send(frame)


@plant(Processes, "handle_deaths", needs=fault(Mishap.KILL, of="acceptor"))
def the_router_learns_of_no_death(right: Any, processes: Processes) -> None:
    pass


@plant(Shards, "queues_of", needs=deed(Deed.REMOVE))
def a_shard_is_removed_with_its_queues(right: Any, shards: Shards, shard: int) -> int:
    return 0


@plant(Recorder, "forget")
def queues_that_are_gone_still_count(right: Any, recorder: Recorder, id: int) -> None:
    recorder.closed.discard(id)
    del recorder.known[id]


@plant(Places, "end", needs=deed(Deed.REMOVE))
def a_shard_that_is_to_end_is_started_again(right: Any, places: Places, role: Any, index: int, now: float) -> None:
    for child in places.children:
        if (child.role, child.index) == (role, index):
            child.send(signal.SIGTERM)


@plant(Child, "postpone", needs=fault(Mishap.UNFORKABLE, of="supervisor"))
def a_place_that_could_not_be_filled_stays_empty(right: Any, child: Child, now: float) -> None:
    child.due = math.inf


@plant(Leases, "leave")
def a_lease_ends_with_its_consumer(right: Any, leases: Leases, queue: Any, consumer: Any) -> None:
    lease = consumer.lease
    right(leases, queue, consumer)
    lease.until = 0
    leases.expire(queue)


@plant(Leases, "end")
def a_lease_that_is_given_up_is_acked(right: Any, leases: Leases, *args: Any) -> None:
    link, request, queue, id, _, remove = args
    right(leases, link, request, queue, id, "ack", remove)


@plant(QueueGate, "release_withheld_of", needs=ladder)
def confirms_stay_withheld_from_the_refused(right: Any, gate: QueueGate, channel: Any) -> None:
    pass


@plant(Escalations, "advance", needs=ladder)
def ladders_are_not_climbed(right: Any, escalations: Escalations, now: float) -> None:
    pass


@plant(AcceptorCore, "shut_down", needs=deed(Deed.RESTART))
def a_replaced_acceptor_leaves_its_clients_without_a_word(right: Any, core: AcceptorCore) -> None:
    pass


@plant(Renewal, "give_up", needs=death_of_successor)
def the_number_of_a_dead_successor_is_used_again(right: Any, renewal: Renewal) -> None:
    place = renewal.places[0] if renewal.places else None
    right(renewal)
    if place is not None:
        place.vain = 0


@plant(Flow, "lend", needs=ring)
def room_to_end_a_deadlock_is_only_promised(right: Any, flow: Flow, queue: Any, now: int) -> bool:
    return True


@plant(DeadlockSearch, "search", "search_rings", needs=ring)
def deadlocks_are_never_found(right: Any, search: DeadlockSearch, *args: Any) -> None:
    pass

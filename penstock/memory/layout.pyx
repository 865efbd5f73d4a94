"""Where everything lies in the file of gauges: `docs/gauges.md` describes it, field by field."""

import struct

MAGIC = b"PENSTOCK"
LAYOUT_VERSION = 16
"""Raised by every change of the layout. The first 32 bytes (magic, version, epoch, pid) never change, so that any
penstock recognises, and removes, the file of a crashed node of another version. Files need no conversion: a node
creates its file anew at every start."""

PREFIX = struct.Struct("=8sQQQ")
"""What never changes: magic, version, epoch, pid."""
HEADER = struct.Struct("=8sQQQQQQ")
"""The part of the header that the creator writes."""
_PROCESSES_MAX = 65536
_QUEUES_MAX = 2**32


def _offsets(**words):
    return {name: index * WORD for name, index in words.items()}


LAYOUT = {
    "header": _offsets(
        magic=H_MAGIC, version=H_VERSION, epoch=H_EPOCH, pid=H_PID, acceptors=H_ACCEPTORS, shards=H_SHARDS,
        queues=H_QUEUES, topology_version=H_TOPOLOGY, users_changed=H_USERS, places=H_PLACES),
    "process": _offsets(
        sequence=SEQUENCE, pid=P_PID, incarnation=P_INCARNATION, state=P_STATE, started_us=P_STARTED,
        restarts=P_RESTARTS, beat=P_BEAT, finishing=P_FINISHING),
    "counters": _offsets(
        sequence=SEQUENCE, connections=C_CONNECTIONS, channels=C_CHANNELS, held_channels=C_HELD, parked_bytes=C_PARKED,
        paused_connections=C_PAUSED, published=C_PUBLISHED, delivered=C_DELIVERED, confirmed=C_CONFIRMED,
        loop_turns=C_TURNS, ignoring_flow=C_IGNORING,
        rung_withhold=C_WITHHOLD, rung_park=C_PARK, rung_pause=C_PAUSE, rung_reject=C_REJECT,
        rung_close_channel=C_CLOSE_CHANNEL, rung_close_connection=C_CLOSE_CONNECTION, rung_hold_off=C_HOLD_OFF,
        refused=C_REFUSED, lost_wakeups=C_LOST, refused_connections=C_TURNED_AWAY),
    "measures": _offsets(
        sequence=SEQUENCE, loop_lag_p50_us=M_LAG_MEDIAN, loop_lag_p99_us=M_LAG_MOST, commit_p99_us=M_COMMIT,
        stored_bytes=M_STORED),
    "flow": _offsets(
        sequence=SEQUENCE, held_queue_us=F_HELD_QUEUE, held_limit_us=F_HELD_LIMIT, held_rate_us=F_HELD_RATE,
        held_shard_us=F_HELD_SHARD, held_vhost_us=F_HELD_VHOST, held_stop_us=F_HELD_STOP,
        held_rebalance_us=F_HELD_REBALANCE, charged_bytes=F_CHARGED, stop_delays=F_STOPS, resume_delays=F_RESUMES),
    "queue": _offsets(
        sequence=SEQUENCE, open=Q_OPEN, queue_id=Q_ID, since_us=Q_SINCE, flow_epoch=Q_EPOCH, saturated=Q_SATURATED,
        depth_count=Q_DEPTH_COUNT, depth_bytes=Q_DEPTH_BYTES, ready=Q_READY, unacked=Q_UNACKED,
        ready_bytes=Q_READY_BYTES, unacked_bytes=Q_UNACKED_BYTES, published=Q_PUBLISHED, delivered=Q_DELIVERED,
        acked=Q_ACKED, redelivered=Q_REDELIVERED, dropped=Q_DROPPED, consumers=Q_CONSUMERS,
        saturated_since_us=Q_SATURATED_SINCE, stop_count=Q_STOP_COUNT, resume_count=Q_RESUME_COUNT,
        stop_bytes=Q_STOP_BYTES, resume_bytes=Q_RESUME_BYTES, aside=Q_ASIDE, over_count=Q_OVER_COUNT,
        over_bytes=Q_OVER_BYTES, published_bytes=Q_PUBLISHED_BYTES, delivered_bytes=Q_DELIVERED_BYTES,
        peak_count=Q_PEAK_COUNT, peak_bytes=Q_PEAK_BYTES, whole_bytes=Q_WHOLE_BYTES, lent=Q_LENT),
}
"""Offset in bytes of each field in its block; `docs/gauges.md` describes the blocks."""


def check_counts(epoch, acceptors, shards, queues, pid):
    """Raise ValueError if no node has these numbers."""
    if not 0 <= epoch < 2**63:
        raise ValueError(f"no epoch: {epoch}")
    if not 0 < pid < 2**31:
        raise ValueError(f"no process: {pid}")
    if not (0 < acceptors < _PROCESSES_MAX and 0 < shards < _PROCESSES_MAX and 0 < queues < _QUEUES_MAX):
        raise ValueError(f"no node has {acceptors} acceptors, {shards} shards and {queues} queues")


def aligned(size, to):
    return (size + to - 1) // to * to


def areas(acceptors, shards, queues):
    """The offsets of processes, sent, taken, safe, doing, buckets, users, claims, queue slots and names, and the end.
    Rows of pairs are whole cache lines.
    """
    processes = HEADER_SIZE
    sent = processes + (5 + shards + acceptors) * PROCESS_SIZE
    taken = sent + acceptors * aligned(shards * WORD, LINE)
    safe = taken + shards * aligned(acceptors * WORD, LINE)
    at_work = safe + shards * aligned(acceptors * WORD, LINE)
    buckets = at_work + shards * aligned(acceptors * WORD, LINE)
    users = aligned(buckets + BUCKETS * BUCKET_SIZE, CHUNK)
    claims = aligned(users + USERS * USER_SIZE, CHUNK)
    slots = aligned(claims + PLACES * row_size(1 + 4 * acceptors), CHUNK)
    names = aligned(slots + (shards + queues) * SLOT_SIZE, CHUNK)
    end = aligned(names + (shards + queues) * NAMES_SIZE, CHUNK)
    return processes, sent, taken, safe, at_work, buckets, users, claims, slots, names, end

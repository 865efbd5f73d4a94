"""The gauges: one file in shared memory that every process of a node maps and reads without messages.

`docs/gauges.md` describes the layout, field by field, with the one writer of each and the order of stores and loads.
Each field has exactly one writing process. Single fields are loaded whole; records are read through a sequence lock,
so that all their fields come from one write. A record whose writer died in the middle of a write is returned as it
stands, with `torn` set; the next write of that writer's successor makes it whole.

Errors of every method: IndexError for an acceptor, shard, process or slot that does not exist; ValueError for a closed
`Gauges`, for a write through one opened for reading, for an unknown role; OverflowError for a number that is negative
or needs more than 64 bits. Only reading a torn record waits, for about 20 ms.
"""

import fcntl
import os
import stat
import struct
import sys
from collections import namedtuple
from pathlib import Path

import psutil

from libc.errno cimport EINTR, ENXIO, EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.types cimport off_t
from posix.unistd cimport close as close_fd, lseek, usleep

from penstock.batch.atomics cimport (
    begin_block, end_block, exchange_word, load_plain, load_word, order_all, read_block, spin_pause, store_plain,
    store_word)

cdef extern from "fcntl.h" nogil:
    int SEEK_DATA
    int fallocate(int fd, int mode, off_t offset, off_t length)

cdef enum:  # flags in Q_ASIDE
    STANDS_ASIDE = 1
    IS_LEFT = 2

# The upper half of Q_ASIDE: the reserve of a priority lane, in messages.
cdef int RESERVE_BITS = 32
cdef uint64_t RESERVE_MOST = 2**32 - 1

# Q_LENT: messages in the upper half, KiB in the lower one.
cdef int LENT_BITS = 32
cdef uint64_t LENT_MOST = 2**32 - 1
cdef uint64_t KIBIBYTE = 1024

cdef enum:
    SPINS = 64  # attempts to read a block before the reader sleeps: a write takes some ten nanoseconds
    NAP_US = 50
    NAPS = 200  # times NAP_US: how long a preempted writer has to finish its write

cdef extern from *:
    """
    static const _Alignas(64) unsigned char empty_slot[256];
    """
    const unsigned char* empty_slot

MAGIC = b"PENSTOCK"
LAYOUT_VERSION = 14
"""Raised by every change of the layout. The first 32 bytes (magic, version, epoch, pid) never change, so that any
penstock recognises, and removes, the file of a crashed node of another version. Files need no conversion: a node
creates its file anew at every start."""

# The turn, below the acceptor's incarnation, in the word of a pair's safe turn.
cdef int TURN_BITS = 40
# The word of a shard's current operation: ordinal, turn and incarnation, each truncated to its bits.
cdef int ORDINAL_BITS = 24
cdef int LIFE_AT = 56
cdef uint64_t FINISHES_BIT = 1 << 23

FINISHES = 1 << 23
"""The ordinal that stands for the end of a shard's turn."""
# The kind of work, below the time of a beat, in its word.
cdef int WORK_BITS = 3
# Nanoseconds, the unit of buckets.
cdef uint64_t SECOND = 1_000_000_000

UNSTARTED, STARTING, READY, DEAD = range(4)
STATE_NAMES = ("unstarted", "starting", "ready", "dead")

Process = namedtuple("Process", "role index pid incarnation state started_us restarts torn")
Counters = namedtuple(
    "Counters",
    "connections channels held_sessions parked_bytes paused_connections published delivered confirmed loop_turns"
    " ignoring_flow rung_withhold rung_park rung_pause rung_reject rung_close_channel rung_close_connection"
    " rung_hold_off refused lost_wakeups refused_connections torn",
)
Measures = namedtuple("Measures", "loop_lag_p50_us loop_lag_p99_us commit_p99_us stored_bytes torn")
_QueueFields = namedtuple(
    "QueueGauge",
    "queue_id vhost name ready unacked ready_bytes unacked_bytes published delivered acked redelivered dropped consumers"
    " flow_epoch saturated saturated_since_us stop_count resume_count stop_bytes resume_bytes aside left over_count"
    " over_bytes published_bytes delivered_bytes peak_count peak_bytes whole_bytes lent_count"
    " lent_bytes reserve since_us torn",
)


class QueueGauge(_QueueFields):
    __slots__ = ()

    @property
    def drained(self):
        """Messages that have left the queue: acked, dropped, expired."""
        return self.published - self.ready - self.unacked


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
        sequence=SEQUENCE, connections=C_CONNECTIONS, channels=C_CHANNELS, held_sessions=C_HELD, parked_bytes=C_PARKED,
        paused_connections=C_PAUSED, published=C_PUBLISHED, delivered=C_DELIVERED, confirmed=C_CONFIRMED,
        loop_turns=C_TURNS, ignoring_flow=C_IGNORING,
        rung_withhold=C_WITHHOLD, rung_park=C_PARK, rung_pause=C_PAUSE, rung_reject=C_REJECT,
        rung_close_channel=C_CLOSE_CHANNEL, rung_close_connection=C_CLOSE_CONNECTION, rung_hold_off=C_HOLD_OFF,
        refused=C_REFUSED, lost_wakeups=C_LOST, refused_connections=C_TURNED_AWAY),
    "measures": _offsets(
        sequence=SEQUENCE, loop_lag_p50_us=M_LAG_MEDIAN, loop_lag_p99_us=M_LAG_MOST, commit_p99_us=M_COMMIT,
        stored_bytes=M_STORED),
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

_PREFIX = struct.Struct("=8sQQQ")
_HEADER = struct.Struct("=8sQQQQQQ")
_PROCESSES_MAX = 65536
_QUEUES_MAX = 2**32


cdef class Gauges:
    """One mapping of a gauges file. `create` makes the file, `open` maps an existing one; `close` unmaps.

    Slots 0 to `shards` - 1 are the shards' own gates, open from the start; the vhost of a gate is "", its name the
    reason why it is saturated. The `queues` slots after them are for queues, `slots` in all.
    """

    def __cinit__(self):
        self.fd = -1

    def __init__(self):
        raise TypeError("Gauges.create or Gauges.open makes one")

    def __dealloc__(self):
        release(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def create(path, *, epoch, acceptors, shards, queues, pid):
        """Make the file (mode 0600, sparse) and map it; called by the supervisor only, before it starts other
        processes.

        `epoch` is the start of the node in microseconds since 1970, `pid` the process whose death makes the file stale.
        FileExistsError if the file exists, OSError if there is no room, ValueError for impossible counts.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            return build(fd, Path(path), epoch, acceptors, shards, queues, pid)
        except BaseException:
            os.unlink(path)
            raise

    @staticmethod
    def open(path, *, writable=True):
        """Map the file at `path`. OSError if it cannot be read; ValueError if it is no gauges file of this version."""
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            facts = os.pread(fd, _HEADER.size, 0)
            if len(facts) < _HEADER.size or not facts.startswith(MAGIC):
                raise ValueError(f"{path} is not a gauges file")
            _, version, epoch, pid, acceptors, shards, queues = _HEADER.unpack(facts)
            if version != LAYOUT_VERSION:
                raise ValueError(f"{path} has gauges of version {version}, this penstock has version {LAYOUT_VERSION}")
            check_counts(epoch, acceptors, shards, queues, pid)
        except BaseException:
            os.close(fd)
            raise
        return mapped(fd, Path(path), writable, epoch, acceptors, shards, queues, pid)

    def close(self):
        """Unmap. The file stays: its creator unlinks it. Closing repeatedly does nothing."""
        release(self)

    cpdef uint64_t topology_version(self) except? 0xFFFFFFFFFFFFFFFF:
        """The topology version that acceptors must have reached before they route."""
        return load_word(to_read(self), H_TOPOLOGY)

    cpdef set_topology_version(self, uint64_t version):
        """Router only: publish the version of a change that is stored and published."""
        store_word(to_write(self), H_TOPOLOGY, version)

    def process_write(self, str role, Py_ssize_t index, *, uint64_t pid, uint64_t incarnation, uint64_t state,
                      uint64_t started_us, uint64_t restarts):
        """Supervisor only: write a process's record. `state` is STARTING, READY or DEAD."""
        cdef unsigned char* block = to_write(self) + process_at(self, role, index)
        begin_block(block)
        store_plain(block, P_PID, pid)
        store_plain(block, P_INCARNATION, incarnation)
        store_plain(block, P_STATE, state)
        store_plain(block, P_STARTED, started_us)
        store_plain(block, P_RESTARTS, restarts)
        end_block(block)

    def process_read(self, str role, Py_ssize_t index):
        """The record of a process as a `Process`; its state is UNSTARTED before the first write."""
        cdef uint64_t[P_WORDS] copy
        cdef bint whole = snapshot(self, to_read(self) + process_at(self, role, index), P_WORDS, copy, NULL, 0, NULL)
        return Process(role, index, copy[P_PID], copy[P_INCARNATION], copy[P_STATE], copy[P_STARTED],
                       copy[P_RESTARTS], not whole)

    def beat(self, str role, Py_ssize_t index, uint64_t incarnation, uint64_t moment, int work):
        """The process itself: give a sign of life, at a moment of the machine's monotonic clock (microseconds), with
        its kind of work (0 to 7).
        """
        if not 0 <= work < 1 << WORK_BITS:
            raise ValueError(f"no kind of work: {work}")
        store_word(to_write(self) + process_at(self, role, index), P_BEAT + incarnation % 2, moment << WORK_BITS | work)

    def last_beat(self, str role, Py_ssize_t index, uint64_t incarnation):
        """(moment, work) of the last beat of an incarnation, or of the last but one before it; (0, 0) if none."""
        cdef uint64_t word = load_word(to_read(self) + process_at(self, role, index), P_BEAT + incarnation % 2)
        return word >> WORK_BITS, word & ((1 << WORK_BITS) - 1)

    def counters_write(self, str role, Py_ssize_t index, uint64_t connections, uint64_t channels,
                       uint64_t held_sessions, uint64_t parked_bytes, uint64_t paused_connections,
                       uint64_t published, uint64_t delivered, uint64_t confirmed, uint64_t loop_turns,
                       uint64_t ignoring_flow, uint64_t rung_withhold, uint64_t rung_park, uint64_t rung_pause,
                       uint64_t rung_reject, uint64_t rung_close_channel, uint64_t rung_close_connection,
                       uint64_t rung_hold_off, uint64_t refused, uint64_t lost_wakeups,
                       uint64_t refused_connections):
        """Acceptors only: write the process's own counters since its start."""
        cdef unsigned char* block = to_write(self) + process_at(self, role, index) + COUNTERS_AT
        begin_block(block)
        store_plain(block, C_CONNECTIONS, connections)
        store_plain(block, C_CHANNELS, channels)
        store_plain(block, C_HELD, held_sessions)
        store_plain(block, C_PARKED, parked_bytes)
        store_plain(block, C_PAUSED, paused_connections)
        store_plain(block, C_PUBLISHED, published)
        store_plain(block, C_DELIVERED, delivered)
        store_plain(block, C_CONFIRMED, confirmed)
        store_plain(block, C_TURNS, loop_turns)
        store_plain(block, C_IGNORING, ignoring_flow)
        store_plain(block, C_WITHHOLD, rung_withhold)
        store_plain(block, C_PARK, rung_park)
        store_plain(block, C_PAUSE, rung_pause)
        store_plain(block, C_REJECT, rung_reject)
        store_plain(block, C_CLOSE_CHANNEL, rung_close_channel)
        store_plain(block, C_CLOSE_CONNECTION, rung_close_connection)
        store_plain(block, C_HOLD_OFF, rung_hold_off)
        store_plain(block, C_REFUSED, refused)
        store_plain(block, C_LOST, lost_wakeups)
        store_plain(block, C_TURNED_AWAY, refused_connections)
        end_block(block)

    def counters_read(self, str role, Py_ssize_t index):
        """The counters of a process as `Counters`; a dead process's remain until its successor writes."""
        cdef uint64_t[C_WORDS] copy
        cdef const unsigned char* block = to_read(self) + process_at(self, role, index) + COUNTERS_AT
        cdef bint whole = snapshot(self, block, C_WORDS, copy, NULL, 0, NULL)
        return Counters(copy[C_CONNECTIONS], copy[C_CHANNELS], copy[C_HELD], copy[C_PARKED], copy[C_PAUSED],
                        copy[C_PUBLISHED], copy[C_DELIVERED], copy[C_CONFIRMED], copy[C_TURNS], copy[C_IGNORING],
                        copy[C_WITHHOLD], copy[C_PARK], copy[C_PAUSE], copy[C_REJECT], copy[C_CLOSE_CHANNEL],
                        copy[C_CLOSE_CONNECTION], copy[C_HOLD_OFF], copy[C_REFUSED], copy[C_LOST],
                        copy[C_TURNED_AWAY], not whole)

    def measures_write(self, str role, Py_ssize_t index, uint64_t loop_lag_p50_us, uint64_t loop_lag_p99_us,
                       uint64_t commit_p99_us, uint64_t stored_bytes):
        """Shards only: write the process's measurements of itself."""
        cdef unsigned char* block = to_write(self) + process_at(self, role, index) + MEASURES_AT
        begin_block(block)
        store_plain(block, M_LAG_MEDIAN, loop_lag_p50_us)
        store_plain(block, M_LAG_MOST, loop_lag_p99_us)
        store_plain(block, M_COMMIT, commit_p99_us)
        store_plain(block, M_STORED, stored_bytes)
        end_block(block)

    def measures_read(self, str role, Py_ssize_t index):
        """The measurements of a process as `Measures`; a dead process's remain until its successor writes."""
        cdef uint64_t[M_WORDS] copy
        cdef const unsigned char* block = to_read(self) + process_at(self, role, index) + MEASURES_AT
        cdef bint whole = snapshot(self, block, M_WORDS, copy, NULL, 0, NULL)
        return Measures(copy[M_LAG_MEDIAN], copy[M_LAG_MOST], copy[M_COMMIT], copy[M_STORED], not whole)

    cpdef pair_add_sent(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t count):
        """Acceptor only: count a turn of `count` bytes that it is about to send to the shard."""
        cdef unsigned char* word = to_write(self) + sent_at(self, acceptor, shard)
        store_word(word, 0, load_plain(word, 0) + count)

    cpdef pair_add_taken(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t count):
        """Shard only: count a turn of `count` bytes that it has received from the acceptor."""
        cdef unsigned char* word = to_write(self) + taken_at(self, acceptor, shard)
        store_word(word, 0, load_plain(word, 0) + count)

    cpdef int64_t pair_in_flight(self, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
        """Bytes sent and not yet received, never below 0."""
        cdef const unsigned char* base = to_read(self)
        # Load `taken` first: bytes received were sent before, so the later load of `sent` includes them.
        cdef uint64_t taken = load_word(base + taken_at(self, acceptor, shard), 0)
        cdef int64_t bytes = <int64_t> (load_word(base + sent_at(self, acceptor, shard), 0) - taken)
        return bytes if bytes > 0 else 0

    cpdef pair_reset_sent(self, Py_ssize_t acceptor, Py_ssize_t shard):
        """Acceptor only, when it meets a new incarnation of the shard: nothing is in flight."""
        cdef unsigned char* base = to_write(self)
        store_word(base + sent_at(self, acceptor, shard), 0, load_word(base + taken_at(self, acceptor, shard), 0))

    cpdef pair_write_safe(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn):
        """Shard only: all turns of an incarnation of the acceptor up to `turn` are safe, none of it was refused."""
        store_word(to_write(self) + safe_at(self, acceptor, shard), 0, (incarnation << TURN_BITS) | turn)

    def pair_read_safe(self, Py_ssize_t acceptor, Py_ssize_t shard):
        """(incarnation of the acceptor, turn) written by an earlier incarnation of the shard; (0, 0) if by none."""
        cdef uint64_t word = load_word(to_read(self) + safe_at(self, acceptor, shard), 0)
        return word >> TURN_BITS, word & ((<uint64_t> 1 << TURN_BITS) - 1)

    cpdef pair_write_doing(
        self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn, uint64_t ordinal
    ):
        """Shard only: write the ordinal, from 1, of the operation it is processing, in a turn of an incarnation of the
        acceptor; 0 is none, and so is `FINISHES` or more.
        """
        if ordinal >= FINISHES_BIT:
            ordinal = 0
        store_word(to_write(self) + doing_at(self, acceptor, shard), 0, doing(incarnation, turn) | ordinal)

    cpdef pair_write_finishing(
        self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn, uint64_t life
    ):
        """Shard only: incarnation `life` has processed a whole turn of the acceptor, and finishes its own turn."""
        store_word(to_write(self) + doing_at(self, acceptor, shard), 0,
                   doing(incarnation, turn) | FINISHES_BIT | life % 2)

    def pair_read_doing(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn):
        """The ordinal of the last operation the shard processed in that turn of an incarnation of the acceptor; 0 if
        none, or if in another turn. `FINISHES`, plus 1 if the shard's incarnation was odd, if it was finishing its own
        turn.
        """
        cdef uint64_t word = load_word(to_read(self) + doing_at(self, acceptor, shard), 0)
        cdef uint64_t none = doing(incarnation, turn)
        return word - none if word >> ORDINAL_BITS == none >> ORDINAL_BITS else 0

    cpdef finishing_write(self, Py_ssize_t shard, uint64_t life, uint64_t queue):
        """Shard only: incarnation `life` finishes its turn for the queue of that id; 0 for none."""
        store_word(to_write(self) + process_at(self, "shard", shard), P_FINISHING + life % 2, queue)

    def finishing_read(self, Py_ssize_t shard, uint64_t life):
        """The queue id of the last `finishing_write` of a shard's incarnation, or of the last but one before it."""
        return load_word(to_read(self) + process_at(self, "shard", shard), P_FINISHING + life % 2)

    def bucket_full_at(self, uint64_t key, uint64_t now):
        """When a bucket is full again (nanoseconds of the monotonic clock), for messages and for bytes; at most `now`
        if it is full.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        return load_word(bucket, 1), load_word(bucket, 2)

    def bucket_is_full_in(self, uint64_t key, uint64_t now, uint64_t ahead, uint64_t octets_ahead):
        """Whether a bucket is full again within `ahead` nanoseconds for messages, `octets_ahead` for bytes."""
        cdef unsigned char* bucket = bucket_of(self, key, now)
        return load_word(bucket, 1) <= now + ahead and load_word(bucket, 2) <= now + octets_ahead

    def bucket_spend(self, uint64_t key, uint64_t now, uint64_t count, uint64_t rate, uint64_t octets,
                     uint64_t octets_rate):
        """Any acceptor: spend messages and bytes (below 2**34) from a bucket with these rates per second; a rate of 0
        is no limit.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        if rate:
            spend(bucket, 1, now, count // rate * SECOND + count % rate * SECOND // rate)
        if octets_rate:
            spend(bucket, 2, now, octets // octets_rate * SECOND + octets % octets_rate * SECOND // octets_rate)

    def bucket_waiting(self, uint64_t key, uint64_t now, int acceptor, int code):
        """One of the first eight acceptors: write the code (a byte) of the amount waiting there for a bucket; return
        the codes of all eight, a byte each.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        cdef uint64_t seen = load_word(bucket, 3)
        cdef uint64_t mask = <uint64_t> 255 << 8 * acceptor
        cdef uint64_t wanted
        if not 0 <= acceptor < 8 or not 0 <= code < 256:
            raise ValueError(f"no octet {code} of acceptor {acceptor}")
        while True:
            wanted = seen & ~mask | <uint64_t> code << 8 * acceptor
            if wanted == seen or exchange_word(bucket, 3, &seen, wanted):
                return wanted

    def user_queue_add(self, uint64_t key, uint64_t queue_id):
        """Any acceptor: add a queue that a user (a key above 0) publishes to. False if there is no place for more."""
        cdef unsigned char* users = to_write(self) + self.users_at
        cdef unsigned char* place
        cdef uint64_t seen
        cdef int i
        if not load_word(self.base, H_USERS):
            try:
                reserve(self, self.users_at, USERS * USER_SIZE)
            except OSError:
                return False
        for i in range(USERS):
            place = users + i * USER_SIZE
            if load_word(place, 0) == key and load_word(place, 1) == queue_id:
                return True
        for i in range(USERS):
            place = users + (key + i) % USERS * USER_SIZE
            seen = load_word(place, 1)
            if seen == 0 and exchange_word(place, 1, &seen, queue_id):
                store_word(place, 0, key)
                users_change(self)
                return True
        return False

    def user_queue_remove(self, uint64_t key, uint64_t queue_id):
        """Any acceptor: remove a deleted queue of a user. The acceptor found the queue there before."""
        cdef unsigned char* users = to_write(self) + self.users_at
        cdef unsigned char* place
        cdef uint64_t seen
        cdef int i
        for i in range(USERS):
            place = users + i * USER_SIZE
            seen = load_word(place, 1)
            if seen == queue_id and load_word(place, 0) == key:
                exchange_word(place, 1, &seen, 0)
        users_change(self)

    def user_queues(self, uint64_t key):
        """The ids of the queues that a user publishes to, on all acceptors together."""
        cdef const unsigned char* users = to_read(self) + self.users_at
        cdef const unsigned char* place
        cdef uint64_t id
        cdef int i
        found = set()
        if not load_word(self.base, H_USERS):
            return []  # the area has no memory yet
        for i in range(USERS):
            place = users + i * USER_SIZE
            if load_word(place, 0) == key:
                id = load_word(place, 1)
                if id:
                    found.add(id)
        return sorted(found)

    def users_changed(self):
        """A number that changes whenever an acceptor adds or removes a queue of a user."""
        return load_word(to_read(self), H_USERS)

    def claim_place(self, uint64_t key):
        """Any acceptor: the place of the claims under a key above 0, shared by acceptors; -1 if none is free."""
        cdef unsigned char* base = to_write(self)
        cdef unsigned char* place
        cdef uint64_t seen, given = load_word(base, H_PLACES)
        cdef Py_ssize_t i
        for i in range(PLACES):
            place = base + claims_at(self, i)
            if i >= <Py_ssize_t> given:
                try:
                    reserve(self, place - base, claims_size(self))
                except OSError:
                    return -1
            seen = load_word(place, 0)
            if seen == key:
                return i
            if seen == 0 and exchange_word(place, 0, &seen, key):
                seen = given
                while seen <= <uint64_t> i and not exchange_word(base, H_PLACES, &seen, i + 1):
                    pass
                return i
            if seen == key:  # another acceptor was quicker
                return i
        return -1

    def claim(self, Py_ssize_t place, Py_ssize_t acceptor, uint64_t incarnation, uint64_t count, uint64_t octets):
        """Incarnation of an acceptor only: claim the messages and bytes that it has, or is about to have, in flight.
        Return the claims of all others: of two concurrent claimants at least one sees the other's claim.
        """
        cdef unsigned char* words = to_write(self) + claims_at(self, place)
        cdef Py_ssize_t writer = claimant(self, acceptor, incarnation)
        cdef uint64_t other_count = 0, other_octets = 0
        cdef Py_ssize_t i
        store_word(words, 1 + 2 * writer, count)
        store_word(words, 2 + 2 * writer, octets)
        order_all()
        for i in range(2 * self.acceptors):
            if i != writer:
                other_count += load_word(words, 1 + 2 * i)
                other_octets += load_word(words, 2 + 2 * i)
        return other_count, other_octets

    def claims_clear(self, Py_ssize_t acceptor, uint64_t incarnation):
        """Clear all claims of an incarnation of an acceptor, which is dead or starting."""
        cdef unsigned char* base = to_write(self)
        cdef Py_ssize_t writer = claimant(self, acceptor, incarnation)
        cdef uint64_t place
        for place in range(load_word(base, H_PLACES)):
            store_word(base + claims_at(self, place), 1 + 2 * writer, 0)
            store_word(base + claims_at(self, place), 2 + 2 * writer, 0)

    def queue_open(self, Py_ssize_t slot, uint64_t queue_id, str vhost, str name, uint64_t since_us):
        """Owning shard: begin a queue's record, all numbers 0, even over an open one.

        The flow epoch keeps the value of the slot's last writer: the shard reads it and continues counting from there.
        Over a record of the same queue, the fields of `flow`, which acceptors read all the time, also keep their values
        until the next write.
        ValueError for a vhost or name of more than 255 bytes, OSError (ENOSPC) if there is no memory for the slot.
        """
        cdef unsigned char* block = to_write(self) + slot_at(self, slot)
        cdef unsigned char* names = self.base + self.names_at + slot * NAMES_SIZE
        cdef uint64_t[NAMES_WORDS] packed
        cdef size_t used = pack_names(
            packed, vhost.encode("utf-8", "surrogateescape"), name.encode("utf-8", "surrogateescape"))
        cdef size_t i
        reserve(self, block - self.base, SLOT_SIZE)
        reserve(self, names - self.base, NAMES_SIZE)
        begin_block(block)
        clear_numbers(block, load_plain(block, Q_OPEN) and load_plain(block, Q_ID) == queue_id)
        for i in range(used):
            store_plain(names, i, packed[i])
        store_word(block, Q_ID, queue_id)
        store_plain(block, Q_SINCE, since_us)
        store_word(block, Q_OPEN, 1)  # last: a reader that sees it finds memory behind the names
        end_block(block)

    def gate_explain(self, Py_ssize_t shard, str reason):
        """The shard: write why its gate is saturated, "" if it is not; truncated to 255 bytes."""
        cdef unsigned char* block = to_write(self) + slot_at(self, shard)
        cdef unsigned char* names = self.base + self.names_at + shard * NAMES_SIZE
        cdef uint64_t[NAMES_WORDS] packed
        cdef size_t used = pack_names(packed, b"", reason.encode("utf-8", "surrogateescape")[:255])
        cdef size_t i
        begin_block(block)
        for i in range(used):
            store_plain(names, i, packed[i])
        end_block(block)

    def queue_close(self, Py_ssize_t slot):
        """Owning shard: empty the slot of a deleted queue. A slot that is not open is left alone."""
        cdef unsigned char* block = to_write(self) + slot_at(self, slot)
        if has_memory(self, slot) and load_plain(block, Q_OPEN):
            begin_block(block)
            clear_numbers(block, False)
            store_word(block, Q_ID, 0)
            store_plain(block, Q_SINCE, 0)
            store_word(block, Q_OPEN, 0)
            end_block(block)

    cpdef queue_write(
        self, Py_ssize_t slot, uint64_t ready, uint64_t unacked, uint64_t ready_bytes, uint64_t unacked_bytes,
        uint64_t published, uint64_t delivered, uint64_t acked, uint64_t redelivered, uint64_t dropped,
        uint64_t consumers, uint64_t flow_epoch, uint64_t saturated, uint64_t saturated_since_us,
        uint64_t stop_count, uint64_t resume_count, uint64_t stop_bytes, uint64_t resume_bytes, uint64_t aside=0,
        uint64_t unburied=0, uint64_t unburied_bytes=0, uint64_t published_bytes=0, uint64_t delivered_bytes=0,
        int64_t whole_bytes=-1, uint64_t left=0, uint64_t reserve=0):
        """Owning shard, at most once a queue and turn of its loop. ValueError if the slot is not open.

        Unburied messages count in the depth, whose bytes are of whole messages, or of bodies alone without
        `whole_bytes`. `reserve` is that of the queue's priority lane, in messages.
        """
        cdef uint64_t whole = ready_bytes + unacked_bytes if whole_bytes < 0 else whole_bytes
        cdef unsigned char* block = open_slot(self, slot)
        begin_block(block)
        store_plain(block, Q_READY, ready)
        store_plain(block, Q_UNACKED, unacked)
        store_plain(block, Q_READY_BYTES, ready_bytes)
        store_plain(block, Q_UNACKED_BYTES, unacked_bytes)
        store_plain(block, Q_PUBLISHED, published)
        store_plain(block, Q_DELIVERED, delivered)
        store_plain(block, Q_ACKED, acked)
        store_plain(block, Q_REDELIVERED, redelivered)
        store_plain(block, Q_DROPPED, dropped)
        store_plain(block, Q_CONSUMERS, consumers)
        store_plain(block, Q_SATURATED_SINCE, saturated_since_us)
        store_plain(block, Q_STOP_COUNT, stop_count)
        store_plain(block, Q_RESUME_COUNT, resume_count)
        store_plain(block, Q_STOP_BYTES, stop_bytes)
        store_plain(block, Q_RESUME_BYTES, resume_bytes)
        store_plain(block, Q_PUBLISHED_BYTES, published_bytes)
        store_plain(block, Q_DELIVERED_BYTES, delivered_bytes)
        store_plain(block, Q_WHOLE_BYTES, whole)
        store_word(block, Q_ASIDE, (STANDS_ASIDE if aside else 0) | (IS_LEFT if left else 0)
                   | min(reserve, RESERVE_MOST) << RESERVE_BITS)
        # Read one by one on the publish path: a reader that sees the flag must find an epoch and depths at least as
        # new.
        store_word(block, Q_DEPTH_COUNT, ready + unacked + unburied)
        store_word(block, Q_DEPTH_BYTES, whole + unburied_bytes)
        store_word(block, Q_EPOCH, flow_epoch)
        store_word(block, Q_SATURATED, saturated != 0)
        end_block(block)

    def queue_note_over(self, Py_ssize_t slot, uint64_t count, uint64_t octets):
        """Owning shard: record the largest overshoot of the depth above its stop marks."""
        note_depth(self, slot, Q_OVER_COUNT, count, Q_OVER_BYTES, octets)

    def queue_note_peak(self, Py_ssize_t slot, uint64_t count, uint64_t octets):
        """Owning shard: record the largest depth since the queue, once above a stop mark, was last at its
        resume marks.
        """
        note_depth(self, slot, Q_PEAK_COUNT, count, Q_PEAK_BYTES, octets)

    def queue_note_lent(self, Py_ssize_t slot, uint64_t count, uint64_t octets):
        """Owning shard: record the amount lent to the queue beyond its stop marks; 0 ends the loan."""
        cdef unsigned char* block = open_slot(self, slot)
        begin_block(block)
        store_plain(block, Q_LENT, min(count, LENT_MOST) << LENT_BITS | min((octets + KIBIBYTE - 1) // KIBIBYTE, LENT_MOST))
        end_block(block)

    def queue_read(self, Py_ssize_t slot):
        """The record of a slot as a `QueueGauge`, all fields of one write; None if the slot is not open."""
        cdef const unsigned char* block = readable_slot(self, slot)
        cdef uint64_t[Q_WORDS] copy
        cdef uint64_t[NAMES_WORDS] packed
        if not load_word(block, Q_OPEN):
            return None  # it may never have been opened, and then its names have no memory
        cdef bint whole = snapshot(self, block, Q_WORDS, copy, self.base + self.names_at + slot * NAMES_SIZE,
                                   NAMES_WORDS, packed)
        if not copy[Q_OPEN]:
            return None
        vhost, name = unpack_names(packed)
        return QueueGauge(copy[Q_ID], vhost, name, copy[Q_READY], copy[Q_UNACKED], copy[Q_READY_BYTES],
                          copy[Q_UNACKED_BYTES], copy[Q_PUBLISHED], copy[Q_DELIVERED], copy[Q_ACKED],
                          copy[Q_REDELIVERED], copy[Q_DROPPED], copy[Q_CONSUMERS], copy[Q_EPOCH],
                          copy[Q_SATURATED] != 0, copy[Q_SATURATED_SINCE], copy[Q_STOP_COUNT], copy[Q_RESUME_COUNT],
                          copy[Q_STOP_BYTES], copy[Q_RESUME_BYTES], copy[Q_ASIDE] & STANDS_ASIDE != 0,
                          copy[Q_ASIDE] & IS_LEFT != 0, copy[Q_OVER_COUNT], copy[Q_OVER_BYTES],
                          copy[Q_PUBLISHED_BYTES], copy[Q_DELIVERED_BYTES], copy[Q_PEAK_COUNT], copy[Q_PEAK_BYTES],
                          copy[Q_WHOLE_BYTES], copy[Q_LENT] >> LENT_BITS, (copy[Q_LENT] & LENT_MOST) * KIBIBYTE,
                          copy[Q_ASIDE] >> RESERVE_BITS, copy[Q_SINCE], not whole)

    def queue_slots(self):
        """Yield the open slots in ascending order, the shards' own included; the cost depends on open slots only."""
        cdef Py_ssize_t slot = 0
        while slot < self.slots:
            if slot % SLOTS_A_CHUNK == 0:
                to_read(self)  # the gauges may be closed between two steps
                slot = next_with_memory(self, slot)
                if slot == self.slots:
                    return
            if load_word(readable_slot(self, slot), Q_OPEN):
                yield slot
            slot += 1

    def queues_written(self, uint64_t[::1] seen):
        """The slots of queues that were opened, closed or written since `seen`.

        `seen` has a word for each slot, 0 at first, and is updated. The cost depends on open slots only, as with
        `queue_slots`.
        """
        cdef Py_ssize_t slot = self.shards
        cdef uint64_t sequence
        if seen.shape[0] != self.slots:
            raise ValueError(f"{seen.shape[0]} words for {self.slots} slots")
        found = []
        while slot < self.slots:
            if slot % SLOTS_A_CHUNK == 0 or slot == self.shards:
                to_read(self)
                slot = next_with_memory(self, slot)
                if slot == self.slots:
                    break
            sequence = load_word(readable_slot(self, slot), SEQUENCE)
            if sequence != seen[slot]:
                seen[slot] = sequence
                found.append(slot)
            slot += 1
        return found

    cpdef bint saturated(self, Py_ssize_t slot) except -1:
        """Whether the queue is saturated: it wants its producers held."""
        return load_word(readable_slot(self, slot), Q_SATURATED) != 0

    cpdef bint aside(self, Py_ssize_t slot) except -1:
        """Whether the queue holds no producer, however deep it is."""
        return load_word(readable_slot(self, slot), Q_ASIDE) & STANDS_ASIDE != 0

    cpdef uint64_t flow_epoch(self, Py_ssize_t slot) except? 0xFFFFFFFFFFFFFFFF:
        """The number of changes of the saturated flag; read after the flag, it is at least as new."""
        return load_word(readable_slot(self, slot), Q_EPOCH)

    cpdef uint64_t depth_count(self, Py_ssize_t slot) except? 0xFFFFFFFFFFFFFFFF:
        """Messages ready, unacked and unburied."""
        return load_word(readable_slot(self, slot), Q_DEPTH_COUNT)

    cpdef uint64_t depth_bytes(self, Py_ssize_t slot) except? 0xFFFFFFFFFFFFFFFF:
        """Bytes of whole messages ready, unacked and unburied."""
        return load_word(readable_slot(self, slot), Q_DEPTH_BYTES)

    def backlog(self, tuple slots, uint64_t count, uint64_t octets):
        """0 if none of several queues is deeper than `count` and `octets`, 2 if one that is has consumers, else 1."""
        cdef int most = 0
        cdef const unsigned char* block
        for slot in slots:
            block = readable_slot(self, slot)
            if load_word(block, Q_DEPTH_COUNT) > count or load_word(block, Q_DEPTH_BYTES) > octets:
                most = max(most, 2 if load_word(block, Q_CONSUMERS) else 1)
        return most

    def flow(self, Py_ssize_t slot):
        """`aside`, `saturated`, `depth_count` and `depth_bytes`, read in that order."""
        cdef const unsigned char* block = readable_slot(self, slot)
        cdef bint aside = load_word(block, Q_ASIDE) & STANDS_ASIDE != 0
        cdef bint saturated = load_word(block, Q_SATURATED) != 0
        cdef uint64_t count = load_word(block, Q_DEPTH_COUNT)
        return aside, saturated, count, load_word(block, Q_DEPTH_BYTES)

    def is_calm(self, Py_ssize_t slot, uint64_t count, uint64_t octets):
        """Whether the queue is not saturated, does not stand aside, and is no deeper than `count` and `octets`."""
        cdef const unsigned char* block = readable_slot(self, slot)
        return (load_word(block, Q_SATURATED) == 0 and load_word(block, Q_ASIDE) & STANDS_ASIDE == 0
                and load_word(block, Q_DEPTH_COUNT) <= count and load_word(block, Q_DEPTH_BYTES) <= octets)

    def depths(self, const int64_t[::1] slots):
        """Messages and bytes (`depth_count`, `depth_bytes`) of all the slots together, then the maxima of a
        single slot.
        """
        cdef uint64_t count, octets, all_count = 0, all_octets = 0, most_count = 0, most_octets = 0
        cdef const unsigned char* block
        cdef Py_ssize_t i
        for i in range(slots.shape[0]):
            block = readable_slot(self, slots[i])
            count = load_word(block, Q_DEPTH_COUNT)
            octets = load_word(block, Q_DEPTH_BYTES)
            all_count += count
            all_octets += octets
            most_count = max(most_count, count)
            most_octets = max(most_octets, octets)
        return all_count, all_octets, most_count, most_octets


def remove_stale(directory=Path("/dev/shm")):
    """Unlink the gauges that crashed nodes of this user left in `directory` and return their paths.

    Only regular files named penstock-*.gauges that belong to this user, begin with the magic, and whose process has
    ended; a file that its creator still holds open (in another PID namespace) stays.
    """
    removed = []
    for path in sorted(Path(directory).glob("penstock-*.gauges")):
        try:
            if is_stale(path):
                path.unlink()
                removed.append(path)
        except OSError:  # another start was quicker, or the file is not readable
            continue
    return removed


cdef bint is_stale(path) except -1:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        prefix = os.pread(fd, _PREFIX.size, 0)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or not prefix.startswith(MAGIC):
            return False
        if len(prefix) == _PREFIX.size and is_running(_PREFIX.unpack(prefix)[3]):
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(fd)


cdef bint is_running(pid) except -1:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # the latter two: no valid pid
        return False
    except psutil.AccessDenied:
        return True


cdef Gauges build(int fd, path, epoch, acceptors, shards, queues, pid):
    """Write a new file's contents; owns `fd` from here on. The magic comes last: until then `open` refuses the file."""
    cdef Gauges gauges
    cdef Py_ssize_t slot
    try:
        check_counts(epoch, acceptors, shards, queues, pid)
        os.fchmod(fd, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # held until closed: `remove_stale` asks for it
        *_, size = areas(acceptors, shards, queues)
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    gauges = mapped(fd, path, True, epoch, acceptors, shards, queues, pid)
    reserve(gauges, 0, gauges.users_at)
    store_word(gauges.base, H_VERSION, LAYOUT_VERSION)
    store_word(gauges.base, H_EPOCH, epoch)
    store_word(gauges.base, H_PID, pid)
    store_word(gauges.base, H_ACCEPTORS, acceptors)
    store_word(gauges.base, H_SHARDS, shards)
    store_word(gauges.base, H_QUEUES, queues)
    for slot in range(gauges.shards):
        gauges.queue_open(slot, 0, "", "", epoch)
    store_word(gauges.base, H_MAGIC, int.from_bytes(MAGIC, sys.byteorder))
    return gauges


def check_counts(epoch, acceptors, shards, queues, pid):
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
    sent = processes + (3 + shards + acceptors) * PROCESS_SIZE
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


cdef Gauges mapped(int fd, path, bint writable, epoch, acceptors, shards, queues, pid):
    """Map a file with the facts of its header; owns `fd` from here on."""
    cdef Gauges gauges = Gauges.__new__(Gauges)
    gauges.fd = fd
    gauges.path = path
    gauges.writable = writable
    gauges.epoch, gauges.pid = epoch, pid
    gauges.acceptors, gauges.shards, gauges.queues, gauges.slots = acceptors, shards, queues, shards + queues
    (gauges.processes_at, gauges.sent_at, gauges.taken_at, gauges.safe_at, gauges.doing_at, gauges.buckets_at,
     gauges.users_at, gauges.claims_at, gauges.queues_at, gauges.names_at, gauges.size) = areas(acceptors, shards, queues)
    if os.fstat(fd).st_size != gauges.size:
        raise ValueError(f"{path} has {os.fstat(fd).st_size} octets, its header says {gauges.size}")
    gauges.present = <unsigned char*> calloc((gauges.slots + SLOTS_A_CHUNK - 1) // SLOTS_A_CHUNK, 1)
    if gauges.present == NULL:
        raise MemoryError()
    base = mmap(NULL, gauges.size, PROT_READ | PROT_WRITE if writable else PROT_READ, MAP_SHARED, fd, 0)
    if base == MAP_FAILED:
        raise OSError(errno, os.strerror(errno), str(path))
    gauges.base = <unsigned char*> base
    return gauges


cdef void release(Gauges gauges) noexcept:
    if gauges.base != NULL:
        munmap(gauges.base, gauges.size)
        gauges.base = NULL
    free(gauges.present)
    gauges.present = NULL
    if gauges.fd >= 0:
        close_fd(gauges.fd)
        gauges.fd = -1


cdef inline const unsigned char* to_read(Gauges gauges) except NULL:
    if gauges.base == NULL:
        raise ValueError("these gauges are closed")
    return gauges.base


cdef inline unsigned char* to_write(Gauges gauges) except NULL:
    if gauges.base == NULL:
        raise ValueError("these gauges are closed")
    if not gauges.writable:
        raise ValueError("these gauges were opened for reading")
    return gauges.base


cdef Py_ssize_t process_at(Gauges gauges, str role, Py_ssize_t index) except -1:
    cdef Py_ssize_t first, count
    if role == "acceptor":
        first, count = 2 + gauges.shards, gauges.acceptors
    elif role == "shard":
        first, count = 2, gauges.shards
    elif role == "console":
        first, count = 2 + gauges.shards + gauges.acceptors, 1
    elif role == "router" or role == "supervisor":
        first, count = role == "router", 1
    else:
        raise ValueError(f"no role of a process: {role!r}")
    if not 0 <= index < count:
        raise IndexError(f"{role} {index} of {count}")
    return gauges.processes_at + (first + index) * PROCESS_SIZE


cdef inline int check_pair(Gauges gauges, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    if not (0 <= acceptor < gauges.acceptors and 0 <= shard < gauges.shards):
        raise IndexError(f"acceptor {acceptor} of {gauges.acceptors}, shard {shard} of {gauges.shards}")
    return 0


cdef inline Py_ssize_t sent_at(Gauges gauges, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(gauges, acceptor, shard)
    return gauges.sent_at + acceptor * row_size(gauges.shards) + shard * WORD


cdef inline Py_ssize_t taken_at(Gauges gauges, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(gauges, acceptor, shard)
    return gauges.taken_at + shard * row_size(gauges.acceptors) + acceptor * WORD


cdef inline Py_ssize_t safe_at(Gauges gauges, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(gauges, acceptor, shard)
    return gauges.safe_at + shard * row_size(gauges.acceptors) + acceptor * WORD


cdef inline Py_ssize_t doing_at(Gauges gauges, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(gauges, acceptor, shard)
    return gauges.doing_at + shard * row_size(gauges.acceptors) + acceptor * WORD


cdef inline uint64_t doing(uint64_t incarnation, uint64_t turn) noexcept:
    return (incarnation << LIFE_AT) | ((turn & 0xFFFFFFFF) << ORDINAL_BITS)


cdef inline Py_ssize_t claims_size(Gauges gauges) noexcept:
    return row_size(1 + 4 * gauges.acceptors)


cdef inline Py_ssize_t claimant(Gauges gauges, Py_ssize_t acceptor, uint64_t incarnation) except -1:
    """The index of a writer of claims: an acceptor and its successor may live at the same time."""
    check_pair(gauges, acceptor, 0)
    return 2 * acceptor + incarnation % 2


cdef inline Py_ssize_t claims_at(Gauges gauges, Py_ssize_t place) except -1:
    if not 0 <= place < PLACES:
        raise IndexError(f"place {place} of {PLACES}")
    return gauges.claims_at + place * claims_size(gauges)


cdef unsigned char* bucket_of(Gauges gauges, uint64_t key, uint64_t now) except NULL:
    """The bucket of a key; else a full bucket, which holds no information, is taken over; else one is shared."""
    cdef unsigned char* buckets = to_write(gauges) + gauges.buckets_at
    cdef unsigned char* bucket
    cdef uint64_t seen
    cdef int i
    for i in range(PROBES):
        bucket = buckets + (key + i) % BUCKETS * BUCKET_SIZE
        if load_word(bucket, 0) == key:
            return bucket
    for i in range(PROBES):
        bucket = buckets + (key + i) % BUCKETS * BUCKET_SIZE
        seen = load_word(bucket, 0)
        if seen == 0 or (load_word(bucket, 1) <= now and load_word(bucket, 2) <= now):
            if exchange_word(bucket, 0, &seen, key):
                store_word(bucket, 3, 0)
                return bucket
            if seen == key:
                return bucket
    return buckets + key % BUCKETS * BUCKET_SIZE


cdef inline void spend(unsigned char* bucket, int word, uint64_t now, uint64_t cost) noexcept:
    cdef uint64_t seen = load_word(bucket, word)
    while not exchange_word(bucket, word, &seen, max(seen, now) + cost):
        pass


cdef inline void users_change(Gauges gauges) noexcept:
    cdef uint64_t seen = load_word(gauges.base, H_USERS)
    while not exchange_word(gauges.base, H_USERS, &seen, seen + 1):
        pass


cdef inline Py_ssize_t row_size(Py_ssize_t words) noexcept:
    return (words * WORD + LINE - 1) // LINE * LINE


cdef inline Py_ssize_t slot_at(Gauges gauges, Py_ssize_t slot) except -1:
    if not 0 <= slot < gauges.slots:
        raise IndexError(f"queue slot {slot} of {gauges.slots}")
    return gauges.queues_at + slot * SLOT_SIZE


cdef inline unsigned char* open_slot(Gauges gauges, Py_ssize_t slot) except NULL:
    """A slot for writing. ValueError if it is not open."""
    cdef unsigned char* block = to_write(gauges) + slot_at(gauges, slot)
    if not has_memory(gauges, slot) or not load_plain(block, Q_OPEN):
        raise ValueError(f"queue slot {slot} is not open")
    return block


cdef int note_depth(
    Gauges gauges, Py_ssize_t slot, int count_word, uint64_t count, int bytes_word, uint64_t octets
) except -1:
    cdef unsigned char* block = open_slot(gauges, slot)
    begin_block(block)
    store_plain(block, count_word, count)
    store_plain(block, bytes_word, octets)
    end_block(block)
    return 0


cdef inline const unsigned char* readable_slot(Gauges gauges, Py_ssize_t slot) except NULL:
    """The slot, or an empty one if it was never opened: reading a hole would allocate memory, or fail for
    lack of it.
    """
    cdef const unsigned char* block = to_read(gauges) + slot_at(gauges, slot)
    return block if has_memory(gauges, slot) else empty_slot


cdef inline bint has_memory(Gauges gauges, Py_ssize_t slot) noexcept:
    return gauges.present[slot // SLOTS_A_CHUNK] or next_with_memory(gauges, slot) == slot


cdef Py_ssize_t next_with_memory(Gauges gauges, Py_ssize_t slot) noexcept:
    """`slot` if its chunk has memory, else the first slot of the next chunk that does, or the number of slots."""
    cdef Py_ssize_t chunk = slot // SLOTS_A_CHUNK
    cdef off_t found
    if not gauges.present[chunk]:
        found = lseek(gauges.fd, gauges.queues_at + chunk * CHUNK, SEEK_DATA)
        if found < 0 and errno == ENXIO or found >= gauges.names_at:
            return gauges.slots
        if found >= gauges.queues_at + (chunk + 1) * CHUNK:
            return min((found - gauges.queues_at) // CHUNK * SLOTS_A_CHUNK, gauges.slots)
        gauges.present[chunk] = 1  # also if the file system does not report holes
    return slot


cdef int reserve(Gauges gauges, Py_ssize_t at, Py_ssize_t size) except -1:
    """Allocate memory for a range of the file, so that full shared memory is an OSError here and not a SIGBUS later."""
    while fallocate(gauges.fd, 0, at, size) < 0:
        if errno == EOPNOTSUPP:
            return 0
        if errno != EINTR:
            raise OSError(errno, os.strerror(errno), str(gauges.path))
    return 0


cdef void clear_numbers(unsigned char* block, bint same) noexcept:
    """Set the fields of `queue_write` to 0, except the flow epoch, which must not run backwards.

    If the slot keeps its queue, the fields that acceptors read stay: the flag, the depths, whether it stands aside.
    """
    cdef int i
    for i in range(Q_SATURATED, Q_WORDS):
        if not same or i not in (Q_SATURATED, Q_DEPTH_COUNT, Q_DEPTH_BYTES, Q_ASIDE):
            store_word(block, i, 0)


cdef size_t pack_names(uint64_t* packed, bytes vhost, bytes name) except 0:
    """Pack names as they lie in the file; return the number of words used."""
    cdef unsigned char* octets = <unsigned char*> packed
    cdef Py_ssize_t first = len(vhost), second = len(name)
    if first > NAME_MAX or second > NAME_MAX:
        raise ValueError(f"a vhost of {first} and a queue name of {second} octets; the most is {NAME_MAX} each")
    memset(octets, 0, NAMES_SIZE)
    octets[0], octets[1] = first, second
    memcpy(octets + 2, <const char*> vhost, first)
    memcpy(octets + 2 + first, <const char*> name, second)
    return (2 + first + second + WORD - 1) // WORD


cdef tuple unpack_names(const uint64_t* packed):
    cdef const unsigned char* octets = <const unsigned char*> packed
    cdef Py_ssize_t first = octets[0], second = octets[1]
    # Names need not be UTF-8, and a torn record may cut one anywhere.
    return (octets[2:2 + first].decode("utf-8", "replace"),
            octets[2 + first:2 + first + second].decode("utf-8", "replace"))


cdef bint snapshot(Gauges gauges, const unsigned char* block, size_t count, uint64_t* copy,
                   const unsigned char* tail, size_t more, uint64_t* tail_copy) except -1:
    """Copy a block, and a tail written under its sequence; False if its writer did not finish in time."""
    cdef int naps, spins
    for naps in range(NAPS):
        for spins in range(SPINS):
            if read_block(block, count, copy, tail, more, tail_copy):
                return True
            spin_pause()
        with nogil:
            usleep(NAP_US)
        to_read(gauges)  # another thread may have closed the gauges meanwhile
    return False

"""The processes of a node in the gauges: how each is, its signs of incarnation, its counters and measures."""

from libc.stdint cimport uint64_t

from penstock.batch.atomics cimport begin_block, end_block, load_word, store_plain, store_word
from penstock.memory.layout cimport *
from penstock.memory.mapped_file cimport MappedFile, snapshot, to_read, to_write

from penstock.memory.records import Counters, FlowSums, Measures, Process

# The kind of work, below the time of a beat, in its word.
cdef int WORK_BITS = 3


cdef class ProcessArea(MappedFile):
    """The area `processes`: a row for the supervisor, the router, each shard, each acceptor, the console, the
    balancer, the process of relays.
    """

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
                       uint64_t held_channels, uint64_t parked_bytes, uint64_t paused_connections,
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
        store_plain(block, C_HELD, held_channels)
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
        """Shards and acceptors: write the process's measurements of itself."""
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

    def flow_write(self, str role, Py_ssize_t index, held_us, uint64_t charged_bytes, stop_delays, resume_delays):
        """Acceptors only: write what it has held since its start; see `FlowSums`."""
        cdef unsigned char* block = to_write(self) + process_at(self, role, index) + FLOW_AT
        cdef uint64_t[F_WORDS] words
        words[F_CHARGED] = charged_bytes
        fill(words + F_HELD_QUEUE, held_us, HELD_WORDS)
        fill(words + F_STOPS, stop_delays, DELAY_WORDS)
        fill(words + F_RESUMES, resume_delays, DELAY_WORDS)
        cdef Py_ssize_t word
        begin_block(block)
        for word in range(1, F_WORDS):
            store_plain(block, word, words[word])
        end_block(block)

    def flow_read(self, str role, Py_ssize_t index):
        """What a process has held as `FlowSums`; a dead process's remain until its successor writes."""
        cdef uint64_t[F_WORDS] copy
        cdef const unsigned char* block = to_read(self) + process_at(self, role, index) + FLOW_AT
        cdef bint whole = snapshot(self, block, F_WORDS, copy, NULL, 0, NULL)
        cdef Py_ssize_t word
        words = [copy[word] for word in range(F_WORDS)]
        return FlowSums(tuple(words[F_HELD_QUEUE : F_HELD_QUEUE + HELD_WORDS]), copy[F_CHARGED],
                        tuple(words[F_STOPS : F_STOPS + DELAY_WORDS]), tuple(words[F_RESUMES : F_WORDS]), not whole)

    def finishing_write(self, Py_ssize_t shard, uint64_t incarnation, uint64_t queue):
        """Shard only: an incarnation finishes its turn for the queue of that id; 0 for none."""
        store_word(to_write(self) + process_at(self, "shard", shard), P_FINISHING + incarnation % 2, queue)

    def finishing_read(self, Py_ssize_t shard, uint64_t incarnation):
        """The queue id of the last `finishing_write` of a shard's incarnation, or of the last but one before it."""
        return load_word(to_read(self) + process_at(self, "shard", shard), P_FINISHING + incarnation % 2)


cdef int fill(uint64_t* words, numbers, Py_ssize_t count) except -1:
    cdef Py_ssize_t at
    if len(numbers) != count:
        raise ValueError(f"{count} numbers are wanted, not {len(numbers)}")
    for at in range(count):
        words[at] = numbers[at]
    return 0


cdef Py_ssize_t process_at(MappedFile file, str role, Py_ssize_t index) except -1:
    cdef Py_ssize_t first, count
    if role == "acceptor":
        first, count = 2 + file.shards, file.acceptors
    elif role == "shard":
        first, count = 2, file.shards
    elif role == "console":
        first, count = 2 + file.shards + file.acceptors, 1
    elif role == "balancer":
        first, count = 3 + file.shards + file.acceptors, 1
    elif role == "relay":
        first, count = 4 + file.shards + file.acceptors, 1
    elif role == "router" or role == "supervisor":
        first, count = role == "router", 1
    else:
        raise ValueError(f"no role of a process: {role!r}")
    if not 0 <= index < count:
        raise IndexError(f"{role} {index} of {count}")
    return file.processes_at + (first + index) * PROCESS_SIZE

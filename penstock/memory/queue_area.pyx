"""Queues in the gauges: a record for each, and the fields of it that acceptors read for every publish."""

from libc.errno cimport ENXIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset
from posix.types cimport off_t
from posix.unistd cimport lseek

from penstock.batch.atomics cimport begin_block, end_block, load_plain, load_word, store_plain, store_word
from penstock.memory.layout cimport *
from penstock.memory.mapped_file cimport MappedFile, reserve, snapshot, to_read, to_write

from penstock.memory.records import QueueCounters, QueueGauge, QueueMarks

cdef extern from "fcntl.h" nogil:
    int SEEK_DATA

# Makes a NamedTuple of a tuple of all its fields; the NamedTuple's own constructor takes longer.
cdef object tuple_as = tuple.__new__

cdef enum:  # flags in Q_ASIDE
    STANDS_ASIDE = 1
    IS_LAGGING = 2

# The upper half of Q_ASIDE: the reserve of a priority lane, in messages.
cdef int RESERVE_BITS = 32
cdef uint64_t RESERVE_MOST = 2**32 - 1

# Q_LENT: messages in the upper half, KiB in the lower one.
cdef int LENT_BITS = 32
cdef uint64_t LENT_MOST = 2**32 - 1
cdef uint64_t KIBIBYTE = 1024

cdef extern from *:
    """
    static const _Alignas(64) unsigned char empty_slot[256];
    """
    const unsigned char* empty_slot


cdef class QueueArea(MappedFile):
    """The areas `queue slots` and `names`.

    Slots 0 to `shards` - 1 are the shards' own gates; the vhost of a gate is "", its name the reason why it is
    saturated. The `queues` slots after them are for queues, `slots` in all.
    """

    def queue_open(self, Py_ssize_t slot, uint64_t queue_id, str vhost, str name, uint64_t since_us, int shard=0):
        """Owning shard, with its index: begin a queue's record, all numbers 0, even over an open one.

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
        store_word(block, Q_OPEN, 1 + shard)  # last: a reader that sees it finds memory behind the names
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

    def queue_write(
        self, Py_ssize_t slot, uint64_t ready, uint64_t unacked, uint64_t ready_bytes, uint64_t unacked_bytes,
        uint64_t published, uint64_t delivered, uint64_t acked, uint64_t redelivered, uint64_t dropped,
        uint64_t consumers, uint64_t flow_epoch, uint64_t saturated, uint64_t saturated_since_us,
        uint64_t stop_count, uint64_t resume_count, uint64_t stop_bytes, uint64_t resume_bytes, uint64_t aside=0,
        uint64_t unburied=0, uint64_t unburied_bytes=0, uint64_t published_bytes=0, uint64_t delivered_bytes=0,
        int64_t whole_bytes=-1, uint64_t lagging=0, uint64_t reserve=0):
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
        store_word(block, Q_ASIDE, (STANDS_ASIDE if aside else 0) | (IS_LAGGING if lagging else 0)
                   | min(reserve, RESERVE_MOST) << RESERVE_BITS)
        # Read one by one on the publish path: a reader that sees the flag must find an epoch and depths at least as
        # new.
        store_word(block, Q_DEPTH_COUNT, ready + unacked + unburied)
        store_word(block, Q_DEPTH_BYTES, whole + unburied_bytes)
        store_word(block, Q_EPOCH, flow_epoch)
        store_word(block, Q_SATURATED, saturated != 0)
        end_block(block)

    def queue_write_over(self, Py_ssize_t slot, uint64_t count, uint64_t nbytes):
        """Owning shard: record the largest overshoot of the depth above its stop marks."""
        record_depth(self, slot, Q_OVER_COUNT, count, Q_OVER_BYTES, nbytes)

    def queue_write_peak(self, Py_ssize_t slot, uint64_t count, uint64_t nbytes):
        """Owning shard: record the largest depth since the queue, once above a stop mark, was last at its
        resume marks.
        """
        record_depth(self, slot, Q_PEAK_COUNT, count, Q_PEAK_BYTES, nbytes)

    def queue_write_lent(self, Py_ssize_t slot, uint64_t count, uint64_t nbytes):
        """Owning shard: record the amount lent to the queue beyond its stop marks; 0 ends the loan."""
        cdef unsigned char* block = open_slot(self, slot)
        begin_block(block)
        store_plain(block, Q_LENT, min(count, LENT_MOST) << LENT_BITS
                    | min((nbytes + KIBIBYTE - 1) // KIBIBYTE, LENT_MOST))
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
        counters = tuple_as(QueueCounters, (
            copy[Q_PUBLISHED], copy[Q_DELIVERED], copy[Q_ACKED], copy[Q_REDELIVERED], copy[Q_DROPPED],
            copy[Q_PUBLISHED_BYTES], copy[Q_DELIVERED_BYTES]))
        marks = tuple_as(QueueMarks, (
            copy[Q_STOP_COUNT], copy[Q_RESUME_COUNT], copy[Q_STOP_BYTES], copy[Q_RESUME_BYTES]))
        return tuple_as(QueueGauge, (
            copy[Q_ID], vhost, name, copy[Q_READY], copy[Q_UNACKED], copy[Q_READY_BYTES], copy[Q_UNACKED_BYTES],
            counters, copy[Q_CONSUMERS], copy[Q_EPOCH], copy[Q_SATURATED] != 0, copy[Q_SATURATED_SINCE], marks,
            copy[Q_ASIDE] & STANDS_ASIDE != 0, copy[Q_ASIDE] & IS_LAGGING != 0, copy[Q_OVER_COUNT], copy[Q_OVER_BYTES],
            copy[Q_PEAK_COUNT], copy[Q_PEAK_BYTES], copy[Q_WHOLE_BYTES], copy[Q_LENT] >> LENT_BITS,
            (copy[Q_LENT] & LENT_MOST) * KIBIBYTE, copy[Q_ASIDE] >> RESERVE_BITS, copy[Q_SINCE], not whole))

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

    def queues_of(self, int shard):
        """(slot, queue id) of the queues that a shard has open; the cost depends on open slots only."""
        return [(slot, load_plain(readable_slot(self, slot), Q_ID)) for slot in self.queue_slots()
                if slot >= self.shards and load_plain(readable_slot(self, slot), Q_OPEN) == 1 + <uint64_t>shard]

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

    def saturated(self, Py_ssize_t slot):
        """Whether the queue is saturated: it wants its producers held."""
        return load_word(readable_slot(self, slot), Q_SATURATED) != 0

    def aside(self, Py_ssize_t slot):
        """Whether the queue holds no producer, however deep it is."""
        return load_word(readable_slot(self, slot), Q_ASIDE) & STANDS_ASIDE != 0

    def flow_epoch(self, Py_ssize_t slot):
        """The number of changes of the saturated flag; read after the flag, it is at least as new."""
        return load_word(readable_slot(self, slot), Q_EPOCH)

    def depth_count(self, Py_ssize_t slot):
        """Messages ready, unacked and unburied."""
        return load_word(readable_slot(self, slot), Q_DEPTH_COUNT)

    def depth_bytes(self, Py_ssize_t slot):
        """Bytes of whole messages ready, unacked and unburied."""
        return load_word(readable_slot(self, slot), Q_DEPTH_BYTES)

    def backlog(self, tuple slots, uint64_t count, uint64_t nbytes):
        """0 if none of several queues is deeper than `count` and `nbytes`, 2 if one that is has consumers, else 1."""
        cdef int most = 0
        cdef const unsigned char* block
        for slot in slots:
            block = readable_slot(self, slot)
            if load_word(block, Q_DEPTH_COUNT) > count or load_word(block, Q_DEPTH_BYTES) > nbytes:
                most = max(most, 2 if load_word(block, Q_CONSUMERS) else 1)
        return most

    def flow(self, Py_ssize_t slot):
        """`aside`, `saturated`, `depth_count` and `depth_bytes`, read in that order."""
        cdef const unsigned char* block = readable_slot(self, slot)
        cdef bint aside = load_word(block, Q_ASIDE) & STANDS_ASIDE != 0
        cdef bint saturated = load_word(block, Q_SATURATED) != 0
        cdef uint64_t count = load_word(block, Q_DEPTH_COUNT)
        return aside, saturated, count, load_word(block, Q_DEPTH_BYTES)

    def is_calm(self, Py_ssize_t slot, uint64_t count, uint64_t nbytes):
        """Whether the queue is not saturated, does not stand aside, and is no deeper than `count` and `nbytes`."""
        cdef const unsigned char* block = readable_slot(self, slot)
        return (load_word(block, Q_SATURATED) == 0 and load_word(block, Q_ASIDE) & STANDS_ASIDE == 0
                and load_word(block, Q_DEPTH_COUNT) <= count and load_word(block, Q_DEPTH_BYTES) <= nbytes)

    def depths(self, const int64_t[::1] slots):
        """Messages and bytes (`depth_count`, `depth_bytes`) of all the slots together, then the maxima of a
        single slot.
        """
        cdef uint64_t count, nbytes, all_count = 0, all_bytes = 0, most_count = 0, most_bytes = 0
        cdef const unsigned char* block
        cdef Py_ssize_t i
        for i in range(slots.shape[0]):
            block = readable_slot(self, slots[i])
            count = load_word(block, Q_DEPTH_COUNT)
            nbytes = load_word(block, Q_DEPTH_BYTES)
            all_count += count
            all_bytes += nbytes
            most_count = max(most_count, count)
            most_bytes = max(most_bytes, nbytes)
        return all_count, all_bytes, most_count, most_bytes


cdef inline Py_ssize_t slot_at(MappedFile file, Py_ssize_t slot) except -1:
    if not 0 <= slot < file.slots:
        raise IndexError(f"queue slot {slot} of {file.slots}")
    return file.queues_at + slot * SLOT_SIZE


cdef inline unsigned char* open_slot(MappedFile file, Py_ssize_t slot) except NULL:
    """A slot for writing. ValueError if it is not open."""
    cdef unsigned char* block = to_write(file) + slot_at(file, slot)
    if not has_memory(file, slot) or not load_plain(block, Q_OPEN):
        raise ValueError(f"queue slot {slot} is not open")
    return block


cdef int record_depth(
    MappedFile file, Py_ssize_t slot, int count_word, uint64_t count, int bytes_word, uint64_t nbytes
) except -1:
    cdef unsigned char* block = open_slot(file, slot)
    begin_block(block)
    store_plain(block, count_word, count)
    store_plain(block, bytes_word, nbytes)
    end_block(block)
    return 0


cdef inline const unsigned char* readable_slot(MappedFile file, Py_ssize_t slot) except NULL:
    """The slot, or an empty one if it was never opened: reading a hole would allocate memory, or fail for
    lack of it.
    """
    cdef const unsigned char* block = to_read(file) + slot_at(file, slot)
    return block if has_memory(file, slot) else empty_slot


cdef inline bint has_memory(MappedFile file, Py_ssize_t slot) noexcept:
    return file.present[slot // SLOTS_A_CHUNK] or next_with_memory(file, slot) == slot


cdef Py_ssize_t next_with_memory(MappedFile file, Py_ssize_t slot) noexcept:
    """`slot` if its chunk has memory, else the first slot of the next chunk that does, or the number of slots."""
    cdef Py_ssize_t chunk = slot // SLOTS_A_CHUNK
    cdef off_t found
    if not file.present[chunk]:
        found = lseek(file.fd, file.queues_at + chunk * CHUNK, SEEK_DATA)
        if found < 0 and errno == ENXIO or found >= file.names_at:
            return file.slots
        if found >= file.queues_at + (chunk + 1) * CHUNK:
            return min((found - file.queues_at) // CHUNK * SLOTS_A_CHUNK, file.slots)
        file.present[chunk] = 1  # also if the file system does not report holes
    return slot


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
    cdef unsigned char* data = <unsigned char*> packed
    cdef Py_ssize_t first = len(vhost), second = len(name)
    if first > NAME_MAX or second > NAME_MAX:
        raise ValueError(f"a vhost of {first} and a queue name of {second} bytes; the most is {NAME_MAX} each")
    memset(data, 0, NAMES_SIZE)
    data[0], data[1] = first, second
    memcpy(data + 2, <const char*> vhost, first)
    memcpy(data + 2 + first, <const char*> name, second)
    return (2 + first + second + WORD - 1) // WORD


cdef tuple unpack_names(const uint64_t* packed):
    cdef const unsigned char* data = <const unsigned char*> packed
    cdef Py_ssize_t first = data[0], second = data[1]
    # Names need not be UTF-8, and a torn record may cut one anywhere.
    return (data[2:2 + first].decode("utf-8", "replace"),
            data[2 + first:2 + first + second].decode("utf-8", "replace"))

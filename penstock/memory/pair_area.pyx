"""Pairs of an acceptor and a shard in the gauges: bytes in flight, and the turns that the shard has processed."""

from libc.stdint cimport int64_t, uint64_t

from penstock.batch.atomics cimport load_plain, load_word, store_word
from penstock.memory.layout cimport WORD, row_size
from penstock.memory.mapped_file cimport MappedFile, to_read, to_write

# The turn, below the acceptor's incarnation, in the word of a pair's safe turn.
cdef int TURN_BITS = 40
# The word of a shard's current operation: ordinal, turn and incarnation, each truncated to its bits.
cdef int ORDINAL_BITS = 24
cdef int INCARNATION_AT = 56
cdef uint64_t FINISHES_BIT = 1 << 23

FINISHES = 1 << 23
"""The ordinal that stands for the end of a shard's turn."""


cdef class PairArea(MappedFile):
    """The areas `sent`, `taken`, `safe` and `doing`: a word for each pair in each."""

    def pair_add_sent(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t count):
        """Acceptor only: count a turn of `count` bytes that it is about to send to the shard."""
        cdef unsigned char* word = to_write(self) + sent_at(self, acceptor, shard)
        store_word(word, 0, load_plain(word, 0) + count)

    def pair_add_taken(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t count):
        """Shard only: count a turn of `count` bytes that it has received from the acceptor."""
        cdef unsigned char* word = to_write(self) + taken_at(self, acceptor, shard)
        store_word(word, 0, load_plain(word, 0) + count)

    def pair_in_flight(self, Py_ssize_t acceptor, Py_ssize_t shard):
        """Bytes sent and not yet received, never below 0."""
        cdef const unsigned char* base = to_read(self)
        # Load `taken` first: bytes received were sent before, so the later load of `sent` includes them.
        cdef uint64_t taken = load_word(base + taken_at(self, acceptor, shard), 0)
        cdef int64_t bytes = <int64_t> (load_word(base + sent_at(self, acceptor, shard), 0) - taken)
        return bytes if bytes > 0 else 0

    def pair_reset_sent(self, Py_ssize_t acceptor, Py_ssize_t shard):
        """Acceptor only, when it meets a new incarnation of the shard: nothing is in flight."""
        cdef unsigned char* base = to_write(self)
        store_word(base + sent_at(self, acceptor, shard), 0, load_word(base + taken_at(self, acceptor, shard), 0))

    def pair_write_safe(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn):
        """Shard only: all turns of an incarnation of the acceptor up to `turn` are safe, none of it was refused."""
        store_word(to_write(self) + safe_at(self, acceptor, shard), 0, (incarnation << TURN_BITS) | turn)

    def pair_read_safe(self, Py_ssize_t acceptor, Py_ssize_t shard):
        """(incarnation of the acceptor, turn) written by an earlier incarnation of the shard; (0, 0) if by none."""
        cdef uint64_t word = load_word(to_read(self) + safe_at(self, acceptor, shard), 0)
        return word >> TURN_BITS, word & ((<uint64_t> 1 << TURN_BITS) - 1)

    def pair_write_doing(
        self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn, uint64_t ordinal
    ):
        """Shard only: write the ordinal, from 1, of the operation it is processing, in a turn of an incarnation of the
        acceptor; 0 is none, and so is `FINISHES` or more.
        """
        if ordinal >= FINISHES_BIT:
            ordinal = 0
        store_word(to_write(self) + doing_at(self, acceptor, shard), 0, doing(incarnation, turn) | ordinal)

    def pair_write_finishing(
        self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn,
        uint64_t shard_incarnation
    ):
        """Shard only: an incarnation has processed a whole turn of the acceptor, and finishes its own turn."""
        store_word(to_write(self) + doing_at(self, acceptor, shard), 0,
                   doing(incarnation, turn) | FINISHES_BIT | shard_incarnation % 2)

    def pair_read_doing(self, Py_ssize_t acceptor, Py_ssize_t shard, uint64_t incarnation, uint64_t turn):
        """The ordinal of the last operation the shard processed in that turn of an incarnation of the acceptor; 0 if
        none, or if in another turn. `FINISHES`, plus 1 if the shard's incarnation was odd, if it was finishing its own
        turn.
        """
        cdef uint64_t word = load_word(to_read(self) + doing_at(self, acceptor, shard), 0)
        cdef uint64_t none = doing(incarnation, turn)
        return word - none if word >> ORDINAL_BITS == none >> ORDINAL_BITS else 0


cdef inline int check_pair(MappedFile file, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    if not (0 <= acceptor < file.acceptors and 0 <= shard < file.shards):
        raise IndexError(f"acceptor {acceptor} of {file.acceptors}, shard {shard} of {file.shards}")
    return 0


cdef inline Py_ssize_t sent_at(MappedFile file, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(file, acceptor, shard)
    return file.sent_at + acceptor * row_size(file.shards) + shard * WORD


cdef inline Py_ssize_t taken_at(MappedFile file, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(file, acceptor, shard)
    return file.taken_at + shard * row_size(file.acceptors) + acceptor * WORD


cdef inline Py_ssize_t safe_at(MappedFile file, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(file, acceptor, shard)
    return file.safe_at + shard * row_size(file.acceptors) + acceptor * WORD


cdef inline Py_ssize_t doing_at(MappedFile file, Py_ssize_t acceptor, Py_ssize_t shard) except -1:
    check_pair(file, acceptor, shard)
    return file.doing_at + shard * row_size(file.acceptors) + acceptor * WORD


cdef inline uint64_t doing(uint64_t incarnation, uint64_t turn) noexcept:
    return (incarnation << INCARNATION_AT) | ((turn & 0xFFFFFFFF) << ORDINAL_BITS)

"""Claims in the gauges: messages and bytes in flight that acceptors count together."""

from libc.stdint cimport uint64_t

from penstock.batch.atomics cimport exchange_word, load_word, order_all, store_word
from penstock.memory.layout cimport H_PLACES, PLACES, row_size
from penstock.memory.mapped_file cimport MappedFile, reserve, to_write


cdef class ClaimArea(MappedFile):
    """The area `claims`."""

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

    def claim(self, Py_ssize_t place, Py_ssize_t acceptor, uint64_t incarnation, uint64_t count, uint64_t nbytes):
        """Incarnation of an acceptor only: claim the messages and bytes that it has, or is about to have, in flight.
        Return the claims of all others: of two concurrent claimants at least one sees the other's claim.
        """
        cdef unsigned char* words = to_write(self) + claims_at(self, place)
        cdef Py_ssize_t writer = claimant(self, acceptor, incarnation)
        cdef uint64_t other_count = 0, other_bytes = 0
        cdef Py_ssize_t i
        store_word(words, 1 + 2 * writer, count)
        store_word(words, 2 + 2 * writer, nbytes)
        order_all()
        for i in range(2 * self.acceptors):
            if i != writer:
                other_count += load_word(words, 1 + 2 * i)
                other_bytes += load_word(words, 2 + 2 * i)
        return other_count, other_bytes

    def claims_clear(self, Py_ssize_t acceptor, uint64_t incarnation):
        """Clear all claims of an incarnation of an acceptor, which is dead or starting."""
        cdef unsigned char* base = to_write(self)
        cdef Py_ssize_t writer = claimant(self, acceptor, incarnation)
        cdef uint64_t place
        for place in range(load_word(base, H_PLACES)):
            store_word(base + claims_at(self, place), 1 + 2 * writer, 0)
            store_word(base + claims_at(self, place), 2 + 2 * writer, 0)


cdef inline Py_ssize_t claims_size(MappedFile file) noexcept:
    return row_size(1 + 4 * file.acceptors)


cdef inline Py_ssize_t claimant(MappedFile file, Py_ssize_t acceptor, uint64_t incarnation) except -1:
    """The index of a writer of claims: an acceptor and its successor may live at the same time."""
    if not 0 <= acceptor < file.acceptors:
        raise IndexError(f"acceptor {acceptor} of {file.acceptors}")
    return 2 * acceptor + incarnation % 2


cdef inline Py_ssize_t claims_at(MappedFile file, Py_ssize_t place) except -1:
    if not 0 <= place < PLACES:
        raise IndexError(f"place {place} of {PLACES}")
    return file.claims_at + place * claims_size(file)

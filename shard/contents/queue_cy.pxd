import cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from penstock.batch.batch_cy cimport Batch
from penstock.batch.pointers cimport address_of_bytearray, get64, put64
from penstock.batch.ranges_cy cimport RangeSet
from shard.contents.properties_cy cimport expiration_ms
from shard.contents.ready_line_cy cimport LINE_BITS, ReadyLine
from shard.contents.segment_cy cimport Origin, Range, Segment
from shard.contents.totals_cy cimport Totals

cdef enum:
    C_EXPIRED = 0
    C_REJECTED = 1
    C_MAXLEN = 2
    C_DELIVERY_LIMIT = 3
    C_PURGED = 4
    C_PERSISTENT = 1
    C_HAS_EXPIRATION = 4
    C_SENT_AGAIN = 256
    # The fate of messages popped from a queue: unacked, removed, to be dead-lettered, discarded.
    KEPT = 0
    DONE = 1
    DEAD = 2
    GONE = 3

cdef class Queue(ReadyLine):
    cdef public bint reading
    cdef int64_t own_from
    cdef readonly Totals totals
    cdef public object owner
    cdef int64_t ttl
    cdef int64_t now
    cdef readonly bint expiring
    cdef int64_t fresh
    cdef bint keeps_dead
    cdef public list dead
    cdef readonly int64_t delivery_limit
    cdef readonly dict deliveries
    cdef readonly bint stopped

    cpdef stop(self, bint stopped)

    cpdef configure(self, int64_t ttl, bint keeps_dead, int64_t delivery_limit)
    @cython.locals(dead=list)
    cpdef list take_dead(self)
    cpdef came_back(self, int64_t sequence, int64_t deliveries)
    cpdef int64_t delivery_count(self, int64_t sequence)
    @cython.locals(segment=Segment, body_bytes=int64_t, whole=int64_t, flags=uint32_t)
    cpdef int64_t enqueue(self, Batch batch, Py_ssize_t first, Py_ssize_t count, int64_t now=*, Origin origin=*)
    cpdef int64_t newest(self, Batch batch, Py_ssize_t row) except? -1
    @cython.locals(expiries=bytearray, p=cython.p_uchar, i=Py_ssize_t, own=int64_t)
    cdef int stamp(self, Segment segment, uint32_t flags, int64_t now) except -1
    @cython.locals(segment=Segment, before=int64_t, whole=int64_t, body_bytes=int64_t, flags=uint32_t)
    cpdef bint replace(self, int64_t sequence, Batch batch, int64_t now)
    @cython.locals(taken=list)
    cpdef list pop(self, int64_t count, int64_t limit, bint settled)
    @cython.locals(run=int64_t, picked=int64_t, nbytes=int64_t, total_spent=int64_t)
    cdef int64_t pop_onto(self, list taken, int64_t count, int64_t limit, bint settled) except -1
    @cython.locals(requeued=bint, redelivered=bint, sequence=int64_t, high=int64_t, index=Py_ssize_t, segment=Segment,
                   offset=Py_ssize_t, least=Py_ssize_t, fitting=Py_ssize_t, body_bytes=int64_t, whole=int64_t, spent=int64_t,
                   total=int64_t, total_spent=int64_t, item=Range)
    cdef (int64_t, int64_t) pick(self, list taken, int64_t count, int64_t limit, int fate)
    @cython.locals(fits=Py_ssize_t)
    cdef Py_ssize_t fitting(
        self, Segment segment, Py_ssize_t offset, Py_ssize_t count, int64_t limit, Py_ssize_t least, int fate
    ) except -1
    @cython.locals(claimed=list, stored=bint, segment=Segment, low=int64_t, part=int64_t, body_bytes=int64_t,
                   whole=int64_t)
    cpdef list claim(self, int64_t sequence, int64_t count)
    @cython.locals(rejected=list, offset=Py_ssize_t, count=Py_ssize_t)
    cdef int bury_again(self, Segment segment) except -1
    cpdef give_back(self, int64_t sequence, int64_t count)
    cpdef list positions(self)
    cpdef list delivery_counts(self)
    @cython.locals(segment=Segment, body_bytes=int64_t, whole=int64_t, flags=uint32_t)
    cpdef adopt(self, int64_t sequence, Batch batch, bint again, int64_t expiry, bytearray expiries)
    cpdef discard(self, int64_t sequence, int64_t count)
    cpdef go_on_from(self, int64_t priority, int64_t position, int64_t next_sequence, int64_t own_from)
    @cython.locals(pieces=list, found=list, segment=Segment, sequence=int64_t, count=int64_t, offset=int64_t,
                   body_bytes=int64_t)
    cpdef list again(self, RangeSet unacked)
    @cython.locals(pieces=list, segment=Segment, sequence=int64_t, end=int64_t, count=int64_t)
    cdef list pieces_of(self, RangeSet unacked)
    cpdef bint is_recovered(self, int64_t sequence)
    @cython.locals(segment=Segment, offset=Py_ssize_t, count=Py_ssize_t, body_bytes=int64_t, whole=int64_t)
    cpdef recover(self, list segments, dict delivered_to)
    cpdef close(self)
    @cython.locals(segment=Segment, sequence=int64_t)
    cdef int unstore_all(self) except -1
    @cython.locals(sequence=int64_t, high=int64_t, segment=Segment, offset=Py_ssize_t, count=int64_t, i=Py_ssize_t,
                   p=cython.p_uchar)
    cdef int64_t head_run(self, bint expired) except -1
    @cython.locals(dropped=int64_t, count=int64_t)
    cpdef int64_t expire(self, int64_t now)
    cpdef offered(self)
    @cython.locals(sequence=int64_t, segment=Segment)
    cpdef int64_t next_expiry(self)
    @cython.locals(segment=Segment, index=Py_ssize_t, offset=Py_ssize_t, part=int64_t, nbytes=int64_t, total=int64_t,
                   total_whole=int64_t, i=int64_t)
    cdef (int64_t, int64_t) forget(self, int64_t sequence, int64_t count, int fate)
    @cython.locals(origin=Origin)
    cdef int record_leaving(self, Segment segment, Py_ssize_t offset, Py_ssize_t count) except -1
    cpdef settle(self, int64_t sequence, int64_t count)
    @cython.locals(body_bytes=int64_t, whole=int64_t)
    cdef int end(self, int64_t sequence, int64_t count, int fate) except -1
    cpdef reject(self, int64_t sequence, int64_t count)
    @cython.locals(segment=Segment, offset=Py_ssize_t, part=int64_t, body_bytes=int64_t, item=Range, end=int64_t,
                   at=int64_t)
    cdef bint bury(self, int64_t sequence, int64_t count, int reason) except -1
    cpdef requeue(self, int64_t sequence, int64_t count)
    @cython.locals(deliveries=int64_t)
    cdef int requeue_counted(self, int64_t sequence) except -1
    @cython.locals(taken=list, dropped=int64_t, nbytes=int64_t, item=Range)
    cpdef int64_t drop(self, int64_t count, int64_t limit, int reason)
    @cython.locals(dropped=int64_t, excess=int64_t, nbytes=int64_t)
    @cython.locals(dropped=int64_t, low=int64_t, high=int64_t)
    cpdef int64_t drop_damaged(self)
    @cython.locals(segment=Segment, sequence=int64_t, count=int64_t, dropped=int64_t)
    cpdef int64_t drop_damaged_unacked(self, RangeSet unacked)
    cpdef int64_t drop_head(self, int64_t max_count, int64_t max_bytes)
    cpdef int64_t purge(self)

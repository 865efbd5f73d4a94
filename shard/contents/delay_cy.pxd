import cython
from libc.stdint cimport int64_t, uint32_t
from penstock.batch.batch_cy cimport Batch
from penstock.batch.pointers cimport address_of_bytearray, get64, put64
from shard.contents.properties_cy cimport delay_ms
from shard.contents.queue_cy cimport DEAD, GONE, Queue
from shard.contents.segment_cy cimport Origin, Range, Segment

cdef enum:
    C_DUE = 5
    # Bytes of whole messages that leave at once.
    AT_ONCE = 1048576
    # Entries that the heap may have beside two for each segment.
    SPARE = 1024

cdef extern from *:
    """
    #define PENSTOCK_LEFT (1LL << 62)
    """
    int64_t LEFT "PENSTOCK_LEFT"

cdef class DelayQueue(Queue):
    cdef list heap
    cdef int64_t began

    cpdef configure(self, int64_t ttl, bint keeps_dead, int64_t delivery_limit)
    cpdef int64_t enqueue(self, Batch batch, Py_ssize_t first, Py_ssize_t count, int64_t now=*, Origin origin=*)
    @cython.locals(expiries=bytearray, p=cython.p_uchar, i=Py_ssize_t)
    cdef int stamp(self, Segment segment, uint32_t flags, int64_t now) except -1
    @cython.locals(segment=Segment)
    cpdef recover(self, list segments, dict delivered_to)
    @cython.locals(p=cython.p_uchar, i=Py_ssize_t, offset=Py_ssize_t, count=Py_ssize_t)
    cdef int set_left(self, Segment segment) except -1
    cpdef adopt(self, int64_t sequence, Batch batch, bint again, int64_t expiry, bytearray expiries)
    @cython.locals(p=cython.p_uchar, i=Py_ssize_t, soonest=int64_t, due=int64_t)
    cdef int schedule(self, Segment segment, int64_t after) except -1
    @cython.locals(segment=Segment)
    cdef Segment segment_due(self, int64_t due, int64_t sequence)
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t merge(self, Py_ssize_t index, int64_t below) except -1
    @cython.locals(taken=int64_t, spent=int64_t, before=int64_t, due=int64_t, sequence=int64_t, segment=Segment)
    cpdef int64_t expire(self, int64_t now)
    @cython.locals(offset=Py_ssize_t, count=Py_ssize_t, total=int64_t)
    cdef int64_t leave(self, Segment segment, int64_t until, int fate) except -1
    @cython.locals(sequence=int64_t, p=cython.p_uchar, i=Py_ssize_t, due=int64_t, again=bint, item=Range,
                   body_bytes=int64_t, whole=int64_t)
    cdef int remove(self, Segment segment, Py_ssize_t offset, Py_ssize_t count, int fate) except -1
    cpdef int64_t next_expiry(self)
    @cython.locals(dropped=int64_t, before=int64_t, segment=Segment)
    cpdef int64_t drop(self, int64_t count, int64_t limit, int reason)
    @cython.locals(offset=Py_ssize_t, run=Py_ssize_t, dropped=Py_ssize_t)
    cdef int64_t drop_first(self, Segment segment, int64_t count, int64_t limit) except -1
    @cython.locals(dropped=int64_t, segment=Segment)
    cpdef int64_t drop_damaged(self)
    @cython.locals(index=Py_ssize_t, segment=Segment, first=int64_t)
    cpdef int64_t first_ready(self) except -1
    cdef bint has_ready(self, Segment segment)
    @cython.locals(found=list, index=Py_ssize_t, segment=Segment, offset=Py_ssize_t, count=Py_ssize_t)
    cpdef list survivors(self)
    cdef int64_t pop_onto(self, list taken, int64_t count, int64_t limit, bint settled) except -1
    cpdef list claim(self, int64_t sequence, int64_t count)
    cpdef int64_t page_out(self, int64_t nbytes, int64_t keep) except -1
    @cython.locals(excess=int64_t)
    cpdef int64_t page_out_beyond(self, int64_t count, int64_t nbytes, int64_t least) except -1
    cpdef close(self)

@cython.locals(expiries=bytearray)
cdef bytearray dues(Segment segment)
@cython.locals(runs=list, p=cython.p_uchar, i=Py_ssize_t, start=Py_ssize_t)
cdef list due_until(Segment segment, int64_t until)

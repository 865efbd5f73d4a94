import cython
from libc.stdint cimport int64_t
from penstock.batch.batch_cy cimport Batch, BatchBuilder
from shard.contents.properties_cy cimport priority_of
from shard.contents.queue_cy cimport Queue
from shard.contents.segment_cy cimport Origin, Range, Segment

cdef enum:
    C_HAS_PRIORITY = 8
    LINE_BITS = 48

cdef class PriorityQueue(Queue):
    cdef readonly int64_t max_priority
    cdef dict lines
    cdef list order

    @cython.locals(line=Queue, base=int64_t)
    cdef Queue line(self, int64_t priority)
    @cython.locals(by_line=dict, segment=Segment, line=Queue, part=list)
    cpdef recover(self, list segments, dict delivered_to)
    @cython.locals(line=Queue)
    cpdef give_back(self, int64_t sequence, int64_t count)
    @cython.locals(found=list, line=Queue)
    cpdef list survivors(self)
    @cython.locals(found=list, line=Queue)
    cpdef list ready_ranges(self)
    cpdef list live_from(self, int64_t sequence, int64_t end, int64_t nbytes)
    @cython.locals(found=list, line=Queue)
    cpdef list positions(self)
    @cython.locals(found=list, line=Queue)
    cpdef list delivery_counts(self)
    @cython.locals(line=Queue)
    cpdef adopt(self, int64_t sequence, Batch batch, bint again, int64_t expiry, bytearray expiries)
    @cython.locals(line=Queue)
    cpdef go_on_from(self, int64_t priority, int64_t position, int64_t next_sequence, int64_t own_from)
    cpdef bint is_recovered(self, int64_t sequence)
    @cython.locals(line=Queue, claimed=list)
    cpdef list claim(self, int64_t sequence, int64_t count)
    @cython.locals(gone=int64_t, line=Queue)
    cpdef int64_t page_out(self, int64_t nbytes, int64_t keep) except -1
    @cython.locals(gone=int64_t, line=Queue)
    cpdef int64_t page_out_front(self, int64_t nbytes, int64_t keep, bint spills) except -1
    @cython.locals(gone=int64_t, line=Queue)
    cpdef int64_t page_out_beyond(self, int64_t count, int64_t nbytes, int64_t least) except -1
    @cython.locals(line=Queue, batch=Batch)
    cpdef Batch batch_of(self, int64_t sequence)
    @cython.locals(wanted=list, line=Queue)
    cpdef list ahead(self, int64_t sequence, int64_t nbytes)
    @cython.locals(line=Queue)
    cpdef install(self, Segment segment, Batch batch)
    @cython.locals(line=Queue, first=int64_t)
    cpdef int64_t first_ready(self) except -1
    @cython.locals(line=Queue)
    cpdef record_position(self)
    @cython.locals(line=Queue)
    cpdef close(self)
    cpdef int64_t newest(self, Batch batch, Py_ssize_t row) except? -1
    cpdef bint is_ready(self, int64_t sequence)
    cdef Queue line_of(self, int64_t sequence)
    cdef int count(self, Queue line, int sign) except -1
    @cython.locals(line=Queue)
    cpdef configure(self, int64_t ttl, bint keeps_dead, int64_t delivery_limit)
    @cython.locals(line=Queue)
    cpdef stop(self, bint stopped)
    @cython.locals(dead=list, line=Queue)
    cpdef list take_dead(self)
    @cython.locals(high=int64_t, i=Py_ssize_t)
    cpdef int64_t enqueue(self, Batch batch, Py_ssize_t first, Py_ssize_t count, int64_t now=*, Origin origin=*)
    @cython.locals(builders=dict, builder=BatchBuilder, start=Py_ssize_t, stop=Py_ssize_t, end=Py_ssize_t,
                   priority=int64_t, sequence=int64_t, copied=Py_ssize_t)
    cdef int64_t enqueue_mixed(
        self, Batch batch, Py_ssize_t first, Py_ssize_t count, int64_t now, Origin origin
    ) except -1
    cdef int64_t highest(self, Batch batch, Py_ssize_t row) except -1
    @cython.locals(sequence=int64_t)
    cdef int64_t append(
        self, Queue line, Batch batch, Py_ssize_t first, Py_ssize_t count, int64_t now, Origin origin
    ) except -1
    @cython.locals(line=Queue, nbytes=int64_t, total_spent=int64_t, before=Py_ssize_t, i=Py_ssize_t, item=Range)
    cdef int64_t pop_onto(self, list taken, int64_t count, int64_t limit, bint settled) except -1
    @cython.locals(line=Queue, dropped=int64_t, expiring=bint)
    cpdef int64_t expire(self, int64_t now)
    @cython.locals(line=Queue)
    cpdef offered(self)
    @cython.locals(line=Queue, soonest=int64_t)
    cpdef int64_t next_expiry(self)
    @cython.locals(line=Queue)
    cpdef settle(self, int64_t sequence, int64_t count)
    @cython.locals(line=Queue)
    cpdef reject(self, int64_t sequence, int64_t count)
    cpdef int64_t size_of(self, int64_t sequence, int64_t count) except -1
    @cython.locals(line=Queue)
    cpdef requeue(self, int64_t sequence, int64_t count)
    @cython.locals(line=Queue)
    cpdef int64_t delivery_count(self, int64_t sequence)
    @cython.locals(line=Queue, before=int64_t, part=int64_t, dropped=int64_t)
    cpdef int64_t drop_damaged(self)
    cpdef int64_t drop(self, int64_t count, int64_t limit, int reason)

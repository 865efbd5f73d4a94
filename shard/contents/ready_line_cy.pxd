import cython
from libc.stdint cimport int64_t
from penstock.batch.ranges_cy cimport RangeSet
from shard.contents.line_cy cimport Line
from shard.contents.segment_cy cimport Segment

cdef enum:
    # Deliveries may have come so much further than was recorded.
    LEASE = 16384
    # Above these bits the number of a message has its priority.
    LINE_BITS = 48

cdef class ReadyLine(Line):
    cdef readonly bint durable
    cdef int64_t base
    cdef int64_t unseen_from
    cdef int64_t unseen_to
    cdef int64_t leased
    cdef readonly int64_t next_sequence
    cdef readonly int64_t cursor
    cdef readonly RangeSet requeued
    cdef readonly int64_t ready
    cdef readonly int64_t ready_bytes
    cdef readonly int64_t ready_whole
    cdef readonly int64_t unacked
    cdef readonly int64_t unacked_bytes
    cdef readonly int64_t unacked_whole

    cpdef bint is_ready(self, int64_t sequence)
    cpdef int64_t first_ready(self) except -1
    @cython.locals(sequence=int64_t, count=int64_t)
    cdef tuple next_ready(self, int64_t limit)
    cdef int put_next(self, bint requeued, int64_t sequence, int64_t count) except -1
    @cython.locals(found=list, ready=list, at=Py_ssize_t, index=Py_ssize_t, segment=Segment, start=int64_t,
                   end=int64_t, low=int64_t, high=int64_t)
    cpdef list survivors(self)
    @cython.locals(ranges=list)
    cpdef list ready_ranges(self)
    @cython.locals(found=list, index=Py_ssize_t, segment=Segment, low=int64_t, high=int64_t)
    cpdef list live_from(self, int64_t sequence, int64_t end, int64_t nbytes)
    @cython.locals(body_bytes=int64_t, whole=int64_t)
    cdef int put_back(self, int64_t sequence, int64_t count) except -1
    @cython.locals(i=int64_t)
    cpdef int64_t size_of(self, int64_t sequence, int64_t count) except -1
    cdef int correct(self) except -1
    cpdef int64_t position(self)
    cdef int extend_lease(self) except -1
    cpdef record_position(self)
    cpdef int64_t weight(self)
    @cython.locals(below=int64_t)
    cpdef int64_t page_out(self, int64_t nbytes, int64_t keep) except -1
    @cython.locals(first=int64_t, below=int64_t)
    cpdef int64_t page_out_beyond(self, int64_t count, int64_t nbytes, int64_t least) except -1
    @cython.locals(gone=int64_t, index=Py_ssize_t, below=int64_t, there=int64_t, segment=Segment)
    cpdef int64_t page_out_front(self, int64_t nbytes, int64_t keep, bint spills) except -1
    @cython.locals(end=int64_t)
    cdef bint has_ready(self, Segment segment)
    @cython.locals(index=Py_ssize_t, segment=Segment, last=Segment, number=int64_t)
    cdef int64_t reach(self, int64_t sequence, int64_t nbytes) except? -1
    @cython.locals(wanted=list, index=Py_ssize_t, segment=Segment)
    cpdef list ahead(self, int64_t sequence, int64_t nbytes)

import cython
from libc.stdint cimport int64_t
from penstock.batch.batch_cy cimport Batch, BatchBuilder
from shard.contents.segment_cy cimport SEGMENT_WEIGHT, Range, Segment

cdef enum:
    # Bytes up to which segments are merged.
    MERGED = 65536
    # Segments that the store already has are merged only up to this many bytes in memory.
    SMALL = 4096

cdef class Line:
    cdef readonly int64_t id
    cdef object journal
    cdef list segments
    cdef Py_ssize_t head
    cdef Py_ssize_t settled_segments
    cdef Py_ssize_t cursor_segment
    cdef public bint merges
    cdef public int64_t paged
    cdef public int64_t overhead
    cdef readonly bint estimated

    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, segment=Segment)
    cdef Py_ssize_t find(self, int64_t sequence) except -1
    @cython.locals(index=Py_ssize_t, segment=Segment)
    cdef Py_ssize_t find_cursor(self, int64_t sequence) except -1
    @cython.locals(body_bytes=int64_t)
    cdef int64_t segment_bytes(self, Segment segment, Py_ssize_t offset, Py_ssize_t count) except -1
    @cython.locals(whole=int64_t)
    cdef int64_t segment_whole(self, Segment segment, Py_ssize_t offset, Py_ssize_t count) except -1
    @cython.locals(segment=Segment, offset=Py_ssize_t, part=int64_t, total=int64_t, whole=int64_t)
    cdef (int64_t, int64_t) range_sizes(self, int64_t sequence, int64_t count)
    @cython.locals(segment=Segment)
    cpdef Batch batch_of(self, int64_t sequence)
    @cython.locals(segment=Segment, kept=list, index=Py_ssize_t)
    cdef int trim(self) except -1
    @cython.locals(last=Segment)
    cdef int record_pieces(self, list pieces) except -1
    cdef int put(self, Segment segment) except -1
    cdef int clear(self) except -1
    cpdef buried(self, Range item, Py_ssize_t offset, Py_ssize_t count)
    cdef int unstore(self, Segment segment, Py_ssize_t offset, Py_ssize_t count) except -1
    @cython.locals(batch=Batch)
    cpdef Batch load(self, Segment segment)
    cdef int fetch(self, Segment segment) except -1
    cdef bint fetched(self, Segment segment) except -1
    cpdef install(self, Segment segment, Batch batch)
    cdef int lessen(self, Segment segment, Py_ssize_t count, int64_t whole) except -1
    cdef int let_go(self, Segment segment) except -1
    @cython.locals(gone=int64_t, index=Py_ssize_t, at=Py_ssize_t, segment=Segment)
    cdef int64_t page_out_above(self, int64_t below, int64_t nbytes) except -1
    @cython.locals(last=Segment, segment=Segment, merged=Segment, first=Py_ssize_t, i=Py_ssize_t, nbytes=int64_t,
                   total=int64_t, whole=int64_t, stored=bint, builder=BatchBuilder)
    cdef Py_ssize_t merge(self, Py_ssize_t index, int64_t below) except -1
    cdef int64_t drop_contents(self, Segment segment, bint spills) except -1

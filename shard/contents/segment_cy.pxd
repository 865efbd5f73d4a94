import cython
from libc.stdint cimport int64_t
from penstock.batch.batch_cy cimport Batch, MESSAGE_WEIGHT
from penstock.batch.pointers cimport address_of_bytearray

cdef enum:
    # The memory that a segment takes beside its messages: the objects of the segment and its batch.
    SEGMENT_WEIGHT = 1100
    ENTRY_SIZE = 16

cdef class Source:
    cdef public int64_t last_report
    cdef public list left

cdef class Origin:
    cdef readonly Source source
    cdef readonly int64_t turn
    cdef readonly int64_t index

cdef class Segment:
    cdef public Batch batch
    cdef public Py_ssize_t first
    cdef readonly Py_ssize_t count
    cdef readonly int64_t sequence
    cdef public Py_ssize_t live
    cdef public int64_t expiry
    cdef public bytearray expiries
    cdef public int64_t body_bytes
    cdef public int64_t whole
    cdef public int64_t live_whole
    cdef public bint stored
    cdef public Py_ssize_t kept
    cdef public bytearray done
    cdef public int64_t nbytes
    cdef public bint mixed
    cdef public bint spilled
    cdef public bint again
    cdef public bint damaged
    cdef public bytearray unwanted
    cdef public Origin origin
    cdef public Py_ssize_t row
    cdef public list pieces
    @cython.locals(found=list, start=Py_ssize_t, size=Py_ssize_t, row=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t)
    cdef list came_from(self, Py_ssize_t offset, Py_ssize_t count)
    cpdef int64_t weight(self)
    cdef int hold(self, int64_t body_bytes, int64_t whole) except -1
    cdef int go_out(self) except -1
    cpdef stored_whole(self)
    cdef bint joins(self, Segment other)

    cpdef bint finish(self, Py_ssize_t offset, Py_ssize_t count) except -1
    cpdef reject(self, Py_ssize_t offset, Py_ssize_t count)
    cpdef list undone(self)
    cpdef list wanted(self)
    cpdef list rejected(self)

@cython.locals(p=cython.p_uchar, i=Py_ssize_t)
cdef bytearray with_bits(bytearray bits, Py_ssize_t size, Py_ssize_t first, Py_ssize_t count)
@cython.locals(runs=list, i=Py_ssize_t, start=Py_ssize_t)
cdef list runs_of(Py_ssize_t size, bytearray having, bytearray lacking, bytearray nor)

cdef class Range:
    cdef readonly Batch batch
    cdef readonly Py_ssize_t first
    cdef readonly Py_ssize_t count
    cdef readonly int64_t sequence
    cdef readonly bint redelivered
    cdef readonly int64_t body_bytes
    cdef readonly int64_t whole
    cdef readonly Segment segment

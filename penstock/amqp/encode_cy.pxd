import cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from penstock.batch.batch_cy cimport Batch, ENTRY_SIZE
from penstock.batch.pointers cimport (address_of_bytearray, address_of_bytes, copy, get16, get32, resize, store16, store32,
                              store64)

cdef enum:
    METHOD = 1
    HEADER = 2
    BODY = 3
    END = 0xCE
    BY_REFERENCE = 16384
    FORESEEN = 1048576

@cython.final
cdef class Output:
    cdef readonly list chunks
    cdef bytearray chunk
    cdef Py_ssize_t used
    cdef readonly int64_t size
    cdef readonly int64_t pops
    cdef readonly int64_t popped

    @cython.locals(at=Py_ssize_t)
    cpdef write(self, bytes data)
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t reserve(self, Py_ssize_t nbytes) except -1
    cdef int foresee(self, int64_t nbytes, Py_ssize_t count) except -1
    cdef int refer(self, object part) except -1
    cpdef list pop_chunks(self)
    @cython.locals(i=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, row=Py_ssize_t, address_size=Py_ssize_t,
                   header_size=Py_ssize_t, body_size=int64_t, method_size=Py_ssize_t, p=cython.p_uchar,
                   prefix_size=Py_ssize_t, suffix_size=Py_ssize_t, base=Py_ssize_t, tag=uint64_t, numbered=bint,
                   fixed=Py_ssize_t, most=int64_t, in_place=bint)
    cpdef contents(self, int channel, bytes prefix, int64_t first_tag, bint redelivered, bytes suffix, Batch batch,
                   Py_ssize_t first, Py_ssize_t count, int64_t frame_max)
    @cython.locals(at=Py_ssize_t, size=int64_t, p=cython.p_uchar, offset=int64_t, by_reference=bint)
    cdef int body(self, int channel, Batch batch, Py_ssize_t start, int64_t body_size, int64_t frame_max) except -1
    @cython.locals(i=int64_t, at=Py_ssize_t, p=cython.p_uchar)
    cpdef acks(self, int channel, int64_t first_tag, int64_t count, bint multiple, bint negative)

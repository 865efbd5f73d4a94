import cython
from libc.stdint cimport uint64_t
from penstock.batch.pointers cimport address_of_bytearray, copy, load64, read_bytes

cdef enum:
    MORE = 1
    LONG = 2
    COMMAND = 4
    GREETING_BYTES = 64
    # A partly received frame of this size or larger is read into a buffer of its own.
    LARGE_BYTES = 32 * 1024
    FRAME_BYTES_MAX = 0x7FFFFFFF

@cython.locals(buffers=list, last=Py_ssize_t, i=Py_ssize_t, size=Py_ssize_t)
cpdef list message(list frames)

@cython.final
cdef class Receiver:
    cdef readonly bytes peer
    cdef bytearray scratch
    cdef object view
    cdef unsigned char* data
    cdef bint greeted
    cdef bytes rest
    cdef list frames
    cdef bytearray large
    cdef bint large_more
    cdef Py_ssize_t filled

    cpdef object room(self)
    @cython.locals(messages=list, end=Py_ssize_t, at=Py_ssize_t)
    cpdef list received(self, Py_ssize_t count)
    @cython.locals(data=cython.p_uchar, flags=cython.uint, body=Py_ssize_t, announced=uint64_t, size=Py_ssize_t)
    cdef Py_ssize_t split(self, Py_ssize_t at, Py_ssize_t end, list messages) except -1
    @cython.locals(large=bytearray)
    cdef int begin_large(self, Py_ssize_t size, unsigned int flags, Py_ssize_t body, Py_ssize_t end) except -1
    cdef int add(self, object frame, unsigned int more, list messages) except -1
    cdef int command(self, bytes body) except -1

import cython
from libc.stdint cimport int64_t

@cython.final
cdef class Totals:
    cdef public int64_t published
    cdef public int64_t published_bytes
    cdef public int64_t delivered
    cdef public int64_t delivered_bytes
    cdef public int64_t acked
    cdef public int64_t redelivered
    cdef public int64_t dropped

    cdef int add(self, Totals other, int64_t sign) except -1

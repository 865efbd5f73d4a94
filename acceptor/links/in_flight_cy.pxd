import cython
from libc.stdint cimport int64_t

cdef enum:
    C_WHOLE = 4

@cython.final
cdef class Load:
    cdef readonly int64_t count
    cdef readonly int64_t nbytes
    cdef readonly int64_t count_weight
    cdef readonly int64_t bytes_weight

    cpdef add(self, int64_t count, int64_t nbytes, int64_t count_weight, int64_t bytes_weight)
    cpdef join(self, Load other)
    cpdef leave(self, Load other)
    cpdef bint mostly_passes(self) noexcept

@cython.final
cdef class InFlight:
    cdef readonly int64_t max_count
    cdef readonly int64_t max_bytes
    cdef readonly Load load
    cdef int64_t last
    cdef int64_t last_bytes

    @cython.locals(load=Load, count=int64_t, nbytes=int64_t)
    cpdef (int64_t, int64_t) room(self)
    cpdef bint is_empty(self) noexcept
    cpdef add(self, Load turn, int64_t count, int64_t nbytes, int64_t weight, int64_t byte_weight)
    cpdef forget(self)

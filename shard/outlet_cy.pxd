from libc.stdint cimport int64_t

cdef class Outlet:
    cdef object __weakref__
    cdef public int64_t window
    cdef readonly int64_t half
    cdef readonly int64_t of_consumer
    cdef readonly dict sleepers

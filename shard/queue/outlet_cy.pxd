from libc.stdint cimport int64_t

cdef class Outlet:
    cdef object __weakref__
    cdef public int64_t window
    cdef public int64_t lent
    cdef readonly int64_t nbytes
    cdef readonly int64_t of_consumer
    cdef readonly object share
    cdef readonly dict sleepers

import cython
from libc.stdint cimport int64_t

cdef class RangeSet:
    cdef list starts
    cdef list ends
    cdef readonly int64_t total

    @cython.locals(i=Py_ssize_t, n=Py_ssize_t, end=int64_t)
    cpdef add(self, int64_t start, int64_t count)
    @cython.locals(i=Py_ssize_t, end=int64_t, removed=list, low=int64_t, high=int64_t, a=int64_t, b=int64_t)
    cpdef list remove(self, int64_t start, int64_t count)
    @cython.locals(low=int64_t, high=int64_t)
    cpdef tuple pop_first(self, int64_t limit)
    @cython.locals(i=Py_ssize_t)
    cpdef bint holds(self, int64_t value)
    @cython.locals(i=Py_ssize_t)
    cpdef bint meets(self, int64_t start, int64_t end)
    cpdef (int64_t, int64_t) first_range(self)
    cpdef int64_t first(self) except? -1
    cpdef list ranges(self)
    cpdef clear(self)

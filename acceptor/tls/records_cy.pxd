import cython

cdef enum:
    C_HEADER = 5

@cython.final
cdef class Records:
    cdef int header
    cdef Py_ssize_t rest
    cdef readonly Py_ssize_t complete

    @cython.locals(step=Py_ssize_t)
    cpdef Py_ssize_t take(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most) except -1

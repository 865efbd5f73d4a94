import cython
from penstock.batch.batch_cy cimport Batch

cdef class Turn:
    cdef readonly object receiver
    cdef readonly Py_ssize_t lent
    cdef readonly list operations
    cdef readonly list parts
    cdef dict placed

    cpdef Py_ssize_t add(self, object operation) except -1
    cpdef Py_ssize_t reserve(self) except -1
    cpdef Py_ssize_t place(self, object part) except -1
    @cython.locals(key=tuple, known=tuple, part=Py_ssize_t)
    cpdef Py_ssize_t place_batch(self, Batch batch, Py_ssize_t first, Py_ssize_t count) except -1
    @cython.locals(places=list, apart=list, large=Py_ssize_t, part=object)
    cpdef list frames(self, object turn, object version, object last_report=*)

import cython

cdef class Operations:
    cdef dict classes
    cdef dict sizes

    @cython.locals(wire=list, at=Py_ssize_t)
    cpdef list read(self, list wires)

cpdef list to_wires(list operations)

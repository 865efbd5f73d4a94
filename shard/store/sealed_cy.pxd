cimport cython

cpdef bytes seal(str name, bytes key, bytes record)
cpdef bytes unseal(str name, bytes key, object value)

@cython.final
cdef class Sums:
    cdef readonly dict changes

    @cython.locals(owner=bytes)
    cpdef int replace(self, str name, object key, object old, object new) except -1
    cpdef object compare(self, bytes owner, object value)

@cython.final
cdef class Totals:
    cdef dict _known
    cdef dict _written

    @cython.locals(owner=bytes)
    cpdef object write(self, object txn, object environment, Sums sums)

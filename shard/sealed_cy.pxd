cimport cython
from libc.stdint cimport int64_t, uint64_t
from penstock.octets cimport address_of_bytes, load64

cpdef bytes seal(str name, bytes key, bytes record)
cpdef bytes unseal(str name, bytes key, object value)
@cython.locals(octets=bytes)
cpdef uint64_t checksum_of(object value)

@cython.final
cdef class Sums:
    cdef readonly dict changes

    @cython.locals(owner=bytes, count=int64_t, total=uint64_t)
    cpdef int replace(self, str name, object key, object old, object new) except -1
    cpdef object compare(self, bytes owner, object value)

@cython.final
cdef class Totals:
    cdef dict _known
    cdef dict _written

    @cython.locals(owner=bytes)
    cpdef object write(self, object txn, object environment, Sums sums)

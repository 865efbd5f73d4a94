import cython
from libc.stdint cimport uint64_t
from penstock.batch.pointers cimport address_of_bytes, load16, load32, load64, read_bytes

cdef enum:
    IDS_SIZE = 4

@cython.final
cdef class Fields:
    cdef bytes data
    cdef const unsigned char* p
    cdef Py_ssize_t at
    cdef Py_ssize_t end

    @cython.locals(fields=dict, bits=int, flags=uint64_t)
    cdef dict read(self, object spec, object read_table)
    cdef object value(self, str domain, object read_table)
    @cython.locals(at=Py_ssize_t)
    cdef uint64_t number(self, Py_ssize_t size) except? 0
    @cython.locals(at=Py_ssize_t)
    cdef bytes string(self, Py_ssize_t size)

cdef object spec_of(bytes data)
@cython.locals(reader=Fields)
cdef dict fields_of(object spec, bytes data, object read_table)
cpdef str short_string(bytes data)
@cython.locals(out=bytearray, bits=int, flags=int)
cdef bytes encoded(object spec, dict arguments)
cdef bytes written(str field, str domain, object value)

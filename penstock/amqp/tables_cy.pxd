import cython
from libc.stdint cimport int64_t
from penstock.batch.pointers cimport (address_of_bytearray, address_of_bytes, address_readonly, copy, load16, load32, load64,
                              read_bytes, resize, store32)

cdef enum:
    DEPTH_MAX = 64
    LONGSTR = 83    # S
    BYTES = 120     # x
    BOOL = 116      # t
    INT8 = 98       # b
    UINT8 = 66      # B
    INT16 = 115     # s
    UINT16 = 117    # u
    INT32 = 73      # I
    UINT32 = 105    # i
    INT64 = 108     # l
    INT64_TOO = 76  # L
    FLOAT = 102     # f
    DOUBLE = 100    # d
    DECIMAL = 68    # D
    TIMESTAMP = 84  # T
    TABLE = 70      # F
    ARRAY = 65      # A
    VOID = 86       # V

@cython.final
cdef class TableReader:
    cdef object buffer
    cdef const unsigned char[::1] view
    cdef const unsigned char* p
    cdef Py_ssize_t at

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t skip(self, Py_ssize_t end, Py_ssize_t size) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t inside(self, Py_ssize_t end, int depth) except -1
    @cython.locals(table=dict)
    cdef dict table(self, Py_ssize_t end, int depth)
    @cython.locals(array=list)
    cdef list array(self, Py_ssize_t end, int depth)
    @cython.locals(size=Py_ssize_t, data=bytes)
    cdef str name(self, Py_ssize_t end)
    @cython.locals(size=Py_ssize_t)
    cdef bytes long_bytes(self, Py_ssize_t end)
    @cython.locals(p=cython.p_const_uchar, kind=int, at=Py_ssize_t)
    cdef object value(self, Py_ssize_t end, int depth)
    @cython.locals(p=cython.p_const_uchar, at=Py_ssize_t, number=int64_t, high=int64_t, low=int64_t)
    cdef object integer(self, Py_ssize_t end, int kind)

@cython.locals(reader=TableReader, table=dict)
cpdef tuple decode_table(object buffer, Py_ssize_t offset, Py_ssize_t end)
@cython.locals(reader=TableReader, types=dict, start=Py_ssize_t)
cpdef tuple table_types(object buffer, Py_ssize_t offset, Py_ssize_t end)
@cython.locals(reader=TableReader, start=Py_ssize_t, spans=list)
cpdef list table_spans(object buffer, Py_ssize_t offset, Py_ssize_t end)
@cython.locals(out=bytearray)
cpdef bytes encode_table(object table)

cdef object text_or_bytes(bytes data)
cdef bytes encoded(object text)
@cython.locals(start=Py_ssize_t, data=bytes)
cdef int write_table(bytearray out, object table, int depth) except -1
@cython.locals(start=Py_ssize_t)
cdef int write_array(bytearray out, object array, int depth) except -1
cdef Py_ssize_t begin(bytearray out, int depth) except -1
cdef int finish(bytearray out, Py_ssize_t start) except -1
@cython.locals(at=Py_ssize_t)
cdef Py_ssize_t grow(bytearray out, Py_ssize_t size) except -1
cdef int write_value(bytearray out, object value, int depth) except -1
@cython.locals(at=Py_ssize_t, p=cython.p_uchar)
cdef int write_bytes(bytearray out, int code, bytes data) except -1
@cython.locals(at=Py_ssize_t, p=cython.p_uchar, number=int64_t)
cdef int write_integer(bytearray out, object value) except -1
cdef int write_float(bytearray out, object value) except -1
cdef int write_decimal(bytearray out, object value) except -1

import cython
from libc.stdint cimport int64_t, uint32_t
from penstock.batch.batch_cy cimport Batch
from penstock.batch.pointers cimport get16, get32, load16, load32

cdef enum:
    ENTRY_SIZE = 16
    # The type of a delay is none of those that are read here.
    OTHERWISE = -1

@cython.locals(flags=uint32_t, bit=uint32_t)
cdef Py_ssize_t property_at(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, uint32_t wanted) noexcept
@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, i=Py_ssize_t, value=int64_t,
               limit=int64_t)
cpdef int64_t expiration_ms(Batch batch, Py_ssize_t row)
@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t)
cpdef int priority_of(Batch batch, Py_ssize_t row)
@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t width_of(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int kind) noexcept
@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t, end=Py_ssize_t, name=Py_ssize_t, kind=int, width=Py_ssize_t,
               delay=int64_t)
cpdef int64_t delay_ms(Batch batch, Py_ssize_t row) except -1
cdef bint names_delay(const unsigned char* p, Py_ssize_t at) noexcept
@cython.locals(value=int64_t, sign=int64_t)
cdef int64_t whole_number(const unsigned char* p, Py_ssize_t at, int kind) noexcept
cdef int64_t delayed(Batch batch, Py_ssize_t row) except -1

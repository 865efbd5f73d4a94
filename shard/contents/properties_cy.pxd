import cython
from libc.stdint cimport int64_t, uint32_t
from penstock.batch.batch_cy cimport Batch
from penstock.batch.pointers cimport get16, get32, load16, load32

cdef enum:
    ENTRY_SIZE = 16

@cython.locals(flags=uint32_t, bit=uint32_t)
cdef Py_ssize_t property_at(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, uint32_t wanted) noexcept
@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, i=Py_ssize_t, value=int64_t,
               limit=int64_t)
cpdef int64_t expiration_ms(Batch batch, Py_ssize_t row)
@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t)
cpdef int priority_of(Batch batch, Py_ssize_t row)

import cython
from libc.stdint cimport uint32_t, uint64_t, int64_t
from penstock.batch.held cimport Held, start_of
from penstock.batch.pointers cimport (address, address_of_bytearray, address_readonly, copy, get16, get32, put16, put32, resize)

cdef enum:
    ENTRY_SIZE = 16
    # Bytes that a message counts in addition to its own.
    MESSAGE_WEIGHT = 64
    C_PERSISTENT = 1
    C_HAS_HEADERS = 2
    C_HAS_EXPIRATION = 4
    C_HAS_PRIORITY = 8
    C_HAS_USER_ID = 16
    C_HAS_CC = 32
    C_HAS_DIRECT_REPLY_TO = 64
    C_ODD_EXPIRATION = 128
    C_SENT_AGAIN = 256

@cython.final
cdef class Batch:
    cdef readonly object entries
    cdef readonly object contents
    cdef readonly Py_ssize_t count
    cdef Held entries_held
    cdef Held contents_held
    cdef const unsigned char* entry
    cdef const unsigned char* content

    cdef Py_ssize_t base(self) noexcept
    @cython.locals(at=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t end(self, Py_ssize_t i) noexcept
    @cython.locals(i=Py_ssize_t, total=int64_t)
    cpdef int64_t body_bytes(self, Py_ssize_t first, Py_ssize_t count) except -1
    @cython.locals(i=Py_ssize_t, total=int64_t, flags=uint32_t)
    cpdef (int64_t, uint32_t) survey(self, Py_ssize_t first, Py_ssize_t count)
    @cython.locals(entries=bytearray, p=cython.p_uchar, i=Py_ssize_t)
    cpdef Batch flagged(self, uint32_t flags)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t)
    cpdef tuple slices(self, Py_ssize_t first, Py_ssize_t count)
    @cython.locals(start=Py_ssize_t)
    cpdef Py_ssize_t nbytes(self, Py_ssize_t first, Py_ssize_t count) except -1
    @cython.locals(i=Py_ssize_t, total=int64_t)
    cpdef Py_ssize_t fit(self, Py_ssize_t first, Py_ssize_t count, int64_t limit) except -1
    cpdef int64_t whole(self, Py_ssize_t first, Py_ssize_t count) except -1
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t fit_whole(self, Py_ssize_t first, Py_ssize_t count, int64_t limit) except -1
    @cython.locals(i=Py_ssize_t, flags=uint32_t)
    cpdef uint32_t all_flags(self, Py_ssize_t first, Py_ssize_t count) except? 0xFFFFFFFF
    @cython.locals(i=Py_ssize_t, flags=uint32_t)
    cpdef uint32_t common_flags(self, Py_ssize_t first, Py_ssize_t count) except? 0xFFFFFFFF

@cython.final
cdef class BatchBuilder:
    cdef readonly bytearray entries
    cdef readonly bytearray contents
    cdef readonly object block
    cdef unsigned char[::1] block_view
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t count
    cdef readonly int64_t body_bytes
    cdef readonly Py_ssize_t used

    cpdef use(self, object block, Py_ssize_t nbytes)
    cdef int room(self, Py_ssize_t nbytes) except -1
    cdef int grow(self, Py_ssize_t nbytes) except -1
    cdef unsigned char* target(self) noexcept
    @cython.locals(p=cython.p_uchar)
    cdef int open_entry(self, Py_ssize_t address_size, Py_ssize_t header_size, int64_t body_size, uint32_t flags) except -1
    @cython.locals(p=cython.p_uchar, at=Py_ssize_t)
    cdef int append(self, const unsigned char* route, Py_ssize_t address_size, const unsigned char* source,
                    Py_ssize_t header, Py_ssize_t header_size, Py_ssize_t body, Py_ssize_t body_size, uint32_t flags) except -1
    cdef int write(self, const unsigned char* source, Py_ssize_t at, Py_ssize_t size) except -1
    @cython.locals(i=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, shift=int64_t, target=cython.p_uchar)
    cpdef extend(self, Batch batch, Py_ssize_t first, Py_ssize_t count)
    cpdef Batch finish(self)

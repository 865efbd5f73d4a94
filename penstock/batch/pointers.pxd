# Loads, stores, compare and copy on raw bytes; pointers.py has the plain twins.
# Pointers carry no bounds: callers check before they call, and the plain twins raise if they did not.
from libc.stdint cimport uint16_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcmp, memcpy
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING

cdef inline unsigned char* address(unsigned char[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef inline const unsigned char* address_readonly(const unsigned char[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef inline unsigned char* address_of_bytearray(bytearray data) noexcept:
    return <unsigned char*> PyByteArray_AS_STRING(data)

cdef inline const unsigned char* address_of_bytes(bytes data) noexcept:
    return <const unsigned char*> PyBytes_AS_STRING(data)

cdef inline int resize(bytearray data, Py_ssize_t size) except -1:
    return PyByteArray_Resize(data, size)

cdef inline bytes read_bytes(const unsigned char* p, Py_ssize_t at, Py_ssize_t size):
    return (<const char*> p)[at:at + size]

cdef inline bint equal(const unsigned char* a, Py_ssize_t at, const unsigned char* b, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    return memcmp(a + at, b + start, size) == 0

cdef inline void copy(unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    memcpy(target + at, source + start, size)

# Big-endian: the wire.
cdef inline uint32_t load16(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint32_t> p[at] << 8) | p[at + 1]

cdef inline uint32_t load32(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint32_t> p[at] << 24) | (<uint32_t> p[at + 1] << 16) | (<uint32_t> p[at + 2] << 8) | p[at + 3]

cdef inline uint64_t load64(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint64_t> load32(p, at) << 32) | load32(p, at + 4)

cdef inline void store16(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    p[at] = <unsigned char> (value >> 8)
    p[at + 1] = <unsigned char> value

cdef inline void store32(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    p[at] = <unsigned char> (value >> 24)
    p[at + 1] = <unsigned char> (value >> 16)
    p[at + 2] = <unsigned char> (value >> 8)
    p[at + 3] = <unsigned char> value

cdef inline void store64(unsigned char* p, Py_ssize_t at, uint64_t value) noexcept nogil:
    store32(p, at, <uint32_t> (value >> 32))
    store32(p, at + 4, <uint32_t> value)

# Little-endian: penstock's own columns.
cdef inline uint32_t get16(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, p + at, 2)
    return value

cdef inline uint32_t get32(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p + at, 4)
    return value

cdef inline uint64_t get64(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, p + at, 8)
    return value

cdef inline void put16(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    cdef uint16_t narrow = <uint16_t> value
    memcpy(p + at, &narrow, 2)

cdef inline void put32(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    memcpy(p + at, &value, 4)

cdef inline void put64(unsigned char* p, Py_ssize_t at, uint64_t value) noexcept nogil:
    memcpy(p + at, &value, 8)

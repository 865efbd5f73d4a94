from cpython.buffer cimport Py_buffer

cdef class Held:
    cdef Py_buffer buffer

cdef inline const unsigned char* start_of(Held held) noexcept:
    return <const unsigned char*> held.buffer.buf

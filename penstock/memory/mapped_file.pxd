from libc.stdint cimport int64_t, uint64_t


cdef class MappedFile:
    cdef unsigned char* base  # NULL once closed
    cdef unsigned char* present  # a flag for each chunk of queue slots known to have memory behind it
    cdef int fd
    cdef readonly bint writable
    cdef readonly object path
    cdef readonly uint64_t epoch
    cdef readonly int64_t pid
    cdef readonly Py_ssize_t acceptors
    cdef readonly Py_ssize_t shards
    cdef readonly Py_ssize_t queues
    cdef readonly Py_ssize_t slots
    cdef readonly Py_ssize_t processes_at
    cdef readonly Py_ssize_t sent_at
    cdef readonly Py_ssize_t taken_at
    cdef readonly Py_ssize_t safe_at
    cdef readonly Py_ssize_t doing_at
    cdef readonly Py_ssize_t buckets_at
    cdef readonly Py_ssize_t users_at
    cdef readonly Py_ssize_t claims_at
    cdef readonly Py_ssize_t queues_at
    cdef readonly Py_ssize_t names_at
    cdef readonly Py_ssize_t size


cdef int reserve(MappedFile file, Py_ssize_t at, Py_ssize_t size) except -1
cdef bint snapshot(MappedFile file, const unsigned char* block, size_t count, uint64_t* copy,
                   const unsigned char* tail, size_t more, uint64_t* tail_copy) except -1


cdef inline const unsigned char* to_read(MappedFile file) except NULL:
    if file.base == NULL:
        raise ValueError("these gauges are closed")
    return file.base


cdef inline unsigned char* to_write(MappedFile file) except NULL:
    if file.base == NULL:
        raise ValueError("these gauges are closed")
    if not file.writable:
        raise ValueError("these gauges were opened for reading")
    return file.base

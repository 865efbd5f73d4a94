# The constants and functions of consumer_ids.py.
from libc.stdint cimport uint64_t

cdef enum:
    SHARD_MASK = 255
    GETS_BIT = 62

cdef inline Py_ssize_t shard_of(uint64_t id) noexcept nogil:
    return <Py_ssize_t> (id & SHARD_MASK)

cdef inline uint64_t at_shard(uint64_t id, uint64_t shard) noexcept nogil:
    return (id & ~<uint64_t> SHARD_MASK) | shard

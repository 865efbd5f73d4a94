import cython
from libc.math cimport log
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define C_FIRST 0xBF58476D1CE4E5B9ULL
    #define C_SECOND 0x94D049BB133111EBULL
    #define C_MASK 0xFFFFFFFFFFFFFFFFULL
    """
    uint64_t C_FIRST
    uint64_t C_SECOND
    uint64_t C_MASK

@cython.final
cdef class Member:
    cdef readonly object name
    cdef readonly uint64_t seed
    cdef public double weight
    cdef public Py_ssize_t at

@cython.final
cdef class Rendezvous:
    cdef readonly list members
    cdef readonly dict known

    @cython.locals(member=Member)
    cpdef put(self, object name, uint64_t seed, double weight)
    @cython.locals(member=Member, last=Member)
    cpdef remove(self, object name)
    @cython.locals(member=Member, best=Member, least=double, score=double)
    cpdef object choose(self, uint64_t key)

cdef uint64_t mixed(uint64_t bits) noexcept
cdef double score_of(uint64_t bits, double weight) noexcept

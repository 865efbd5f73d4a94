import cython
from libc.stdint cimport int64_t

cdef class Work:
    cdef public int64_t left
    cdef public int64_t visited
    cpdef void spend(self, int64_t places)

cdef class Place:
    cdef readonly bint repeats
    cdef readonly dict words
    cdef public Place one
    cdef public Place more
    cdef readonly object tally

cdef class State:
    cdef readonly frozenset places
    cdef readonly int64_t generation
    cdef readonly dict steps
    cdef public dict found

cdef class TopicIndex:
    cdef readonly Place root
    cdef readonly dict known
    cdef readonly object memory
    cdef readonly int64_t generation
    cdef readonly dict states
    cdef public int64_t kept
    cpdef void forget(self) except *
    cdef State first(self)
    cdef State current(self, State state)
    cdef State state_of(self, frozenset places)

cdef class TopicWalk:
    cdef TopicIndex index
    cdef list words
    cdef Py_ssize_t at
    cdef State state
    cdef str word
    cdef object places
    cdef dict reached
    cdef readonly dict found
    cpdef bint advance(self, Work work) except -1
    @cython.locals(state=State, following=State)
    cdef void step(self, Work work) except *
    @cython.locals(left=int64_t, visited=int64_t, place=Place, child=Place, reached=dict)
    cdef void visit(self, Work work) except *
    @cython.locals(index=TopicIndex, following=State)
    cdef void arrive(self) except *
    @cython.locals(index=TopicIndex, left=int64_t, visited=int64_t, place=Place)
    cdef void gather(self, Work work) except *

cpdef list words_of(str key)
cdef void enter(dict reached, Place place) except *

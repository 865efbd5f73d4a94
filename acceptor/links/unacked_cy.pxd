import cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from penstock.batch.consumer_ids cimport GETS_BIT, at_shard, shard_of
from penstock.batch.pointers cimport address_of_bytearray, copy, get16, get32, get64, put32, put64, resize
from penstock.batch.settlement_rows cimport OF_COUNT, OF_KIND, OF_SEQUENCE, SETTLE_ACK, SETTLE_REQUEUE, SETTLED_ROW

cdef enum:
    ROW = 40
    SETTLEMENT_SIZE = 16
    NOBODY = 0

cdef class Settlements:
    cdef readonly bytearray rows
    cdef readonly Py_ssize_t count
    @cython.locals(p=cython.p_uchar, at=Py_ssize_t)
    cdef int add(self, uint64_t consumer, uint64_t sequence, uint32_t count, uint32_t kind) except -1
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t, kind=uint32_t)
    cpdef int extend(self, Settlements other, bint requeues) except -1
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t)
    cpdef int extend_returned(self, Settlements other) except -1
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t)
    cpdef int extend_held(self, Settlements other) except -1
    @cython.locals(ids=set, p=cython.p_uchar, row=Py_ssize_t)
    cpdef set consumers(self)
    @cython.locals(taken=Settlements, left=Settlements, p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t,
                   consumer=uint64_t)
    cpdef Settlements take_out(self, set ids, uint64_t shard)
    cpdef bytearray finish(self)

cdef class UnackedTags:
    cdef bytearray rows
    cdef Py_ssize_t head
    cdef Py_ssize_t tail
    cdef readonly int64_t next_tag
    cdef readonly int64_t total
    cdef readonly int64_t consumed
    cdef readonly int64_t acked
    cdef readonly int64_t whole
    cdef bytearray journal

    @cython.locals(p=cython.p_uchar, at=Py_ssize_t, tag=int64_t)
    cpdef int64_t deliver(self, int64_t consumer, int64_t sequence, int64_t count, uint32_t now=*, int64_t whole=*)
    cpdef int64_t skip(self, int64_t count)
    @cython.locals(p=cython.p_uchar, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, first=int64_t)
    cdef Py_ssize_t find(self, int64_t tag) noexcept
    @cython.locals(p=cython.p_uchar, i=Py_ssize_t, tag=uint64_t, kind=uint32_t, multiple=uint32_t, before=int64_t)
    cpdef settle(self, bytearray settlements, Py_ssize_t count, list builders)
    @cython.locals(index=Py_ssize_t, p=cython.p_uchar, at=Py_ssize_t, first=int64_t, size=int64_t, offset=int64_t,
                   whole=int64_t, before=int64_t)
    cdef bint settle_one(self, int64_t tag, uint32_t kind, list builders) except -1
    @cython.locals(index=Py_ssize_t, p=cython.p_uchar, at=Py_ssize_t, first=int64_t, part=int64_t)
    cdef bint settle_up_to(self, int64_t tag, uint32_t kind, list builders) except -1
    @cython.locals(p=cython.p_uchar)
    cpdef settle_all(self, uint32_t kind, list builders)
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t)
    cpdef leave(self, set ids)
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, older=list)
    cpdef list older_than(self, int64_t then)
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t, count=uint32_t)
    cpdef int hold(self, int shard, Settlements held) except -1
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, at=Py_ssize_t, count=uint32_t)
    cpdef hold_of(self, set ids, Settlements held)
    @cython.locals(consumer=uint64_t, sequence=uint64_t, builder=Settlements, whole=int64_t, part=int64_t)
    cdef int emit(self, unsigned char* p, Py_ssize_t at, int64_t offset, uint32_t count, uint32_t kind, list builders) except -1
    @cython.locals(p=cython.p_uchar, at=Py_ssize_t)
    cdef int note(self, uint64_t tag, uint64_t consumer, uint64_t sequence, uint32_t count, uint32_t when_and_kind,
                  int64_t whole) except -1
    cpdef settle_noted(self, bytearray settlements, Py_ssize_t count, list builders, bytearray journal)
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, data=bytes, rows=list, at=Py_ssize_t, count=int64_t)
    cpdef restore(self, bytearray journal)
    cpdef readdress(self, set ids, uint64_t shard)
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t)
    cdef int insert_after(self, Py_ssize_t index) except -1
    @cython.locals(p=cython.p_uchar, row=Py_ssize_t, kept=Py_ssize_t)
    cdef int compact(self) noexcept
    @cython.locals(p=cython.p_uchar)
    cdef int trim(self) noexcept

@cython.locals(p=cython.p_uchar, row=Py_ssize_t, consumer=uint64_t)
cpdef readdress_rows(bytearray rows, Py_ssize_t head, Py_ssize_t tail, set ids, uint64_t shard)

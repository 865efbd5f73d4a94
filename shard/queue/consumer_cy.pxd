import cython
from libc.stdint cimport int64_t
from penstock.batch.pointers cimport address_readonly, get32, get64
from penstock.batch.ranges_cy cimport RangeSet
from penstock.batch.settlement_rows cimport OF_COUNT, OF_KIND, OF_SEQUENCE, SETTLE_REJECT, SETTLE_REQUEUE, SETTLED_ROW
from shard.queue.outlet_cy cimport Outlet
from shard.contents.queue_cy cimport Queue
from shard.contents.segment_cy cimport Range

cdef class Hand:
    cdef object __weakref__
    cdef readonly str user
    cdef public int64_t count
    cdef public int64_t nbytes
    cdef public int64_t count_limit
    cdef public int64_t bytes_limit
    cdef readonly dict sleepers
    cdef readonly dict asleep
    cdef public bint reported

    cpdef bint is_full(self)
    cpdef sleep(self, Consumer consumer)

cdef class Group:
    cdef readonly int64_t id
    cdef public int64_t limit
    cdef public int64_t bytes_limit
    cdef readonly bint weighs
    cdef readonly Hand hand
    cdef public int64_t outstanding
    cdef public int64_t nbytes
    cdef public int64_t granted
    cdef public bint hungry
    cdef readonly set members
    cdef readonly dict sleepers

    cpdef bint is_limited(self)
    cpdef join(self, Hand hand)
    cdef int bear(self, int64_t count, int64_t nbytes) except -1

cdef class Consumer:
    cdef readonly int64_t id
    cdef readonly Queue queue
    cdef readonly bint no_ack
    cdef readonly RangeSet outstanding
    cdef readonly int64_t nbytes
    cdef public int64_t prefetch
    cdef public Group group
    cdef public int64_t window
    cdef public bint active
    cdef public object link
    cdef public bint cancelled
    cdef public Group channel
    cdef public int64_t priority
    cdef public object level
    cdef public int64_t age
    cdef public bint again
    cdef public bint elected
    cdef readonly int64_t settled_at
    cdef readonly int64_t usual
    cdef public object lease
    cdef public Outlet outlet

    @cython.locals(room=int64_t)
    cpdef int64_t credit(self)
    cpdef bint has_its_hands_full(self)
    cpdef bint waits_for_user(self)
    cpdef sleep_if_user_is_full(self)
    cpdef rest(self)
    cpdef bint lacks_grant(self)
    cpdef hold(self, Range item)
    cdef int bear(self, int64_t count, int64_t nbytes) except -1
    cdef int64_t weight_of(self, int64_t sequence, int64_t count) except -1
    cdef int lighten(self, int64_t count, int64_t nbytes) except -1
    @cython.locals(taken=list, item=Range, window=int64_t)
    cpdef list pop(self, int64_t count)
    @cython.locals(claimed=int64_t, low=int64_t, part=int64_t)
    cpdef int64_t claim(self, int64_t sequence, int64_t count, bint returned)
    @cython.locals(total=int64_t)
    cpdef int64_t let_go_all(self)
    @cython.locals(low=int64_t, high=int64_t)
    cpdef int64_t leave_to(self, RangeSet held)
    @cython.locals(low=int64_t, high=int64_t)
    cpdef hold_all(self, RangeSet held)
    @cython.locals(settled=int64_t, nbytes=int64_t, low=int64_t, part=int64_t)
    cpdef int64_t settle(self, int64_t sequence, int64_t count, int kind)
    @cython.locals(handed=int64_t, nbytes=int64_t, low=int64_t, part=int64_t)
    cdef int64_t hand_over(self, int64_t sequence, int64_t count, int kind, list taken) except -1
    @cython.locals(took=int64_t)
    cpdef record_settled(self, int64_t now)


cpdef dict settle_rows(const unsigned char[::1] rows, dict consumers)

cpdef dict hand_over_rows(const unsigned char[::1] rows, dict consumers, list taken)

cpdef dict hold_rows(const unsigned char[::1] rows, dict consumers)

@cython.locals(p=cython.p_const_uchar, at=Py_ssize_t, size=Py_ssize_t, consumer=Consumer, sequence=int64_t,
               count=int64_t, kind=int64_t, found=int64_t, touched=dict)
cdef dict apply_rows(const unsigned char[::1] rows, dict consumers, bint claims, list taken)

import cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from penstock.batch.batch_cy cimport (Batch, BatchBuilder, C_HAS_CC, C_HAS_DIRECT_REPLY_TO, C_HAS_EXPIRATION, C_HAS_HEADERS,
                                C_HAS_PRIORITY, C_HAS_USER_ID, C_ODD_EXPIRATION, C_PERSISTENT)
from penstock.batch.pointers cimport (address, address_of_bytearray, address_of_bytes, equal, load16, load32, load64, put16, put32,
                              put64, read_bytes, resize)
from penstock.batch.settlement_rows cimport SETTLE_ACK, SETTLE_REJECT, SETTLE_REQUEUE

cdef enum:
    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8
    END = 0xCE
    PUBLISH = 3932200
    ACK = 3932240
    REJECT = 3932250
    NACK = 3932280
    SETTLEMENT_SIZE = 16
    C_AT_ONCE = 131072
    C_LARGE = 16384
    C_FEW = 8
    C_ASSEMBLY = 1024
    C_MANY = 65536

cdef class Method:
    cdef readonly int channel
    cdef readonly bytes payload

cdef class Failure:
    cdef readonly int code
    cdef readonly str text
    cdef readonly int channel

cdef class Oversize:
    cdef readonly int channel
    cdef readonly int64_t size

cdef class PublishRun:
    cdef readonly int channel
    cdef readonly bytes frame
    cdef readonly bytes address
    cdef readonly bint mandatory
    cdef readonly bint immediate
    cdef BatchBuilder builder
    cdef readonly Batch batch

@cython.final
cdef class SettleRun:
    cdef readonly int channel
    cdef readonly bytearray rows
    cdef readonly Py_ssize_t count
    @cython.locals(p=cython.p_uchar)
    cdef int add(self, uint64_t tag, uint32_t kind, uint32_t multiple, uint32_t method) except -1

cdef class Assembly:
    cdef PublishRun run
    cdef bint expects_header
    cdef bint discards
    cdef int64_t body_left
    cdef int64_t held

@cython.final
cdef class Scanner:
    cdef public int64_t frame_max
    cdef public int64_t max_body
    cdef object arena
    cdef public bint failed
    cdef readonly bint large
    cdef readonly int64_t unfinished
    cdef readonly int64_t scans
    cdef readonly int64_t scanned
    cdef dict assemblies
    cdef Assembly streaming
    cdef int64_t frame_left
    cdef list events
    cdef PublishRun run
    cdef SettleRun settling

    @cython.locals(p=cython.p_uchar, pos=Py_ssize_t, kind=int, channel=int, size=int64_t, next_pos=Py_ssize_t, run=PublishRun)
    cpdef Py_ssize_t scan(self, unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, list events) except -1
    cpdef end(self)
    cpdef abandon(self)
    @cython.locals(most=int64_t)
    cpdef int64_t largest(self)
    @cython.locals(run=PublishRun, whole=Py_ssize_t)
    cdef Py_ssize_t publish_frame(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t end, int channel) except -1
    @cython.locals(after=Py_ssize_t)
    cdef Py_ssize_t repeats(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t end, int channel, PublishRun run) except -1
    @cython.locals(frame_size=Py_ssize_t, exchange=Py_ssize_t, key=Py_ssize_t, bits=int)
    cdef PublishRun open_run(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, int channel)
    @cython.locals(size=int64_t, body=Py_ssize_t, body_size=int64_t, flags=int, builder=BatchBuilder, after=Py_ssize_t)
    cdef Py_ssize_t whole_content(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t end, int channel, PublishRun run) except -1
    @cython.locals(builder=BatchBuilder)
    cdef int use_arena(self, PublishRun run, Py_ssize_t nbytes) except -1
    @cython.locals(id=int64_t)
    cdef bint method_frame(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, int channel) except -1
    @cython.locals(bits=int, kind=uint32_t, multiple=uint32_t)
    cdef bint settle_frame(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, int channel, int64_t id) except -1
    @cython.locals(assembly=Assembly, body_size=int64_t, flags=int, builder=BatchBuilder, run=PublishRun)
    cdef bint header_frame(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t size, int channel) except -1
    @cython.locals(assembly=Assembly)
    cdef bint body_frame(self, int64_t size, int channel) except -1
    @cython.locals(assembly=Assembly, builder=BatchBuilder, size=int64_t)
    cdef Py_ssize_t stream(self, unsigned char* p, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef int begin(self, int channel, Assembly assembly) except -1
    cdef int keep(self, Assembly assembly, int64_t nbytes) except -1
    cdef bint complete(self, Assembly assembly) except -1
    @cython.locals(assembly=Assembly)
    cdef bint unexpected_method(self, int channel) except -1
    cdef bint fail(self, int code, str text, int channel=*) except -1

cdef let_go(Assembly assembly)
cdef int64_t held_of(Assembly assembly)
cdef PublishRun again(PublishRun run)
@cython.locals(bits=uint32_t, flags=int, at=Py_ssize_t, end=Py_ssize_t, bit=int, length=Py_ssize_t, within=int)
cdef int content_flags(const unsigned char* p, Py_ssize_t start, Py_ssize_t size) noexcept
cdef bint asks_for_direct_reply(const unsigned char* p, Py_ssize_t at) noexcept
@cython.locals(size=Py_ssize_t, i=Py_ssize_t)
cdef bint plain_number(const unsigned char* p, Py_ssize_t at) noexcept
@cython.locals(at=Py_ssize_t, name=Py_ssize_t, size=Py_ssize_t, flags=int)
cdef int table_flags(const unsigned char* p, Py_ssize_t start, Py_ssize_t end, bint named, int depth) noexcept
@cython.locals(kind=int, size=int64_t)
cdef Py_ssize_t value_size(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int depth) noexcept

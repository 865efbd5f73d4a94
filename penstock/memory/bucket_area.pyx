"""Token buckets in the gauges: what all acceptors together have spent of a rate limit."""

from libc.stdint cimport uint64_t

from penstock.batch.atomics cimport exchange_word, load_word, store_word
from penstock.memory.layout cimport BUCKETS, BUCKET_SIZE, PROBES
from penstock.memory.mapped_file cimport MappedFile, to_write

# Nanoseconds, the unit of buckets.
cdef uint64_t SECOND = 1_000_000_000


cdef class BucketArea(MappedFile):
    """The area `buckets`."""

    def bucket_full_at(self, uint64_t key, uint64_t now):
        """When a bucket is full again (nanoseconds of the monotonic clock), for messages and for bytes; at most `now`
        if it is full.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        return load_word(bucket, 1), load_word(bucket, 2)

    def bucket_is_full_in(self, uint64_t key, uint64_t now, uint64_t ahead, uint64_t bytes_ahead):
        """Whether a bucket is full again within `ahead` nanoseconds for messages, `bytes_ahead` for bytes."""
        cdef unsigned char* bucket = bucket_of(self, key, now)
        return load_word(bucket, 1) <= now + ahead and load_word(bucket, 2) <= now + bytes_ahead

    def bucket_spend(self, uint64_t key, uint64_t now, uint64_t count, uint64_t rate, uint64_t nbytes,
                     uint64_t bytes_rate):
        """Any acceptor: spend messages and bytes (below 2**34) from a bucket with these rates per second; a rate of 0
        is no limit.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        if rate:
            spend(bucket, 1, now, count // rate * SECOND + count % rate * SECOND // rate)
        if bytes_rate:
            spend(bucket, 2, now, nbytes // bytes_rate * SECOND + nbytes % bytes_rate * SECOND // bytes_rate)

    def bucket_waiting(self, uint64_t key, uint64_t now, int acceptor, int code):
        """One of the first eight acceptors: write the code (a byte) of the amount waiting there for a bucket; return
        the codes of all eight, a byte each.
        """
        cdef unsigned char* bucket = bucket_of(self, key, now)
        cdef uint64_t seen = load_word(bucket, 3)
        cdef uint64_t mask = <uint64_t> 255 << 8 * acceptor
        cdef uint64_t wanted
        if not 0 <= acceptor < 8 or not 0 <= code < 256:
            raise ValueError(f"no octet {code} of acceptor {acceptor}")
        while True:
            wanted = seen & ~mask | <uint64_t> code << 8 * acceptor
            if wanted == seen or exchange_word(bucket, 3, &seen, wanted):
                return wanted


cdef unsigned char* bucket_of(MappedFile file, uint64_t key, uint64_t now) except NULL:
    """The bucket of a key; else a full bucket, which holds no information, is taken over; else one is shared."""
    cdef unsigned char* buckets = to_write(file) + file.buckets_at
    cdef unsigned char* bucket
    cdef uint64_t seen
    cdef int i
    for i in range(PROBES):
        bucket = buckets + (key + i) % BUCKETS * BUCKET_SIZE
        if load_word(bucket, 0) == key:
            return bucket
    for i in range(PROBES):
        bucket = buckets + (key + i) % BUCKETS * BUCKET_SIZE
        seen = load_word(bucket, 0)
        if seen == 0 or (load_word(bucket, 1) <= now and load_word(bucket, 2) <= now):
            if exchange_word(bucket, 0, &seen, key):
                store_word(bucket, 3, 0)
                return bucket
            if seen == key:
                return bucket
    return buckets + key % BUCKETS * BUCKET_SIZE


cdef inline void spend(unsigned char* bucket, int word, uint64_t now, uint64_t cost) noexcept:
    cdef uint64_t seen = load_word(bucket, word)
    while not exchange_word(bucket, word, &seen, max(seen, now) + cost):
        pass

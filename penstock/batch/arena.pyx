# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The arena: an acceptor's memory for large contents, which reach their consumer without being copied on the way.

An acceptor owns one: anonymous memory (memfd_create(2)) in blocks of one size. The sender of a turn lends contents that
lie in blocks instead of sending their bytes; the receiver maps the arena and reads in place.

A block has two words for every way it can be lent: how often it was lent that way, written by the lender, and how often
it was returned, written by the borrower. It is free when its owner has released it and every pair of words agrees.

    way s              owner -> shard s
    way S + s * A + a  shard s -> acceptor a        (S shards, A acceptors)

A borrower lends on before it returns a block, and the owner checks the ways in this order, so a block in transit never
looks free. Blocks borrowed by a process that is killed are never returned: owners begin a new arena when a process
dies, and the kernel frees the old one when no process maps it any more.
"""

import mmap
import os
import time
from collections import OrderedDict

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint64_t

from penstock.batch.atomics cimport load_word, store_word

cdef enum:
    # Words at the start of an arena, before those of the blocks.
    SERIAL
    BLOCKS
    SHARDS
    ACCEPTORS
    HEADER_WORDS

BLOCK_BYTES = 512 * 1024
"""Size of a block: that of a few reads of a socket."""


cdef class Mapping:
    """One process's map of an arena. OSError if it cannot be mapped, or has another serial number."""

    cdef readonly int fd
    cdef readonly list key  # by which another process opens it: pid, file descriptor, serial number
    cdef object memory
    cdef unsigned char[::1] view
    cdef unsigned char* base
    cdef Py_ssize_t blocks
    cdef Py_ssize_t shards
    cdef Py_ssize_t acceptors
    cdef Py_ssize_t ways
    cdef Py_ssize_t start

    def __cinit__(self):
        self.fd = -1

    def __init__(self, int fd, uint64_t serial):
        self.memory = mmap.mmap(fd, 0)
        self.view = self.memory
        self.base = &self.view[0]
        if load_word(self.base, SERIAL) != serial:
            raise OSError(f"file descriptor {fd} is not arena {serial}")
        self.blocks = load_word(self.base, BLOCKS)
        self.shards = load_word(self.base, SHARDS)
        self.acceptors = load_word(self.base, ACCEPTORS)
        self.ways = self.shards + self.shards * self.acceptors
        self.start = self.view.shape[0] - self.blocks * BLOCK_BYTES
        self.fd = fd
        self.key = [os.getpid(), fd, serial]

    def __dealloc__(self):
        if self.fd >= 0:
            os.close(self.fd)

    cdef size_t lent_word(self, Py_ssize_t block, Py_ssize_t way) noexcept:
        return HEADER_WORDS + 2 * (block * self.ways + way)

    cdef void count(self, size_t word) noexcept:
        store_word(self.base, word, load_word(self.base, word) + 1)

    cdef bint is_back(self, Py_ssize_t block) noexcept:
        """Whether the block is not on loan."""
        cdef Py_ssize_t way
        cdef size_t word
        cdef uint64_t returned
        for way in range(self.ways):
            word = self.lent_word(block, way)
            returned = load_word(self.base, word + 1)
            if load_word(self.base, word) != returned:
                return False
        return True


cdef class Loan:
    """Bytes of one block as a buffer, until this object dies: writable by the owner, read-only for a borrower."""

    cdef Mapping mapping
    cdef Py_ssize_t block
    cdef Py_ssize_t way  # by which they were lent, -1 for the owner
    cdef Py_ssize_t start
    cdef Py_ssize_t size
    cdef bytearray used  # the owner's

    def __init__(self):
        raise TypeError("Arena.lend or Borrower.borrow makes one")

    def __dealloc__(self):
        if self.used is not None:
            self.used[self.block] = 0
        elif self.mapping is not None:
            self.mapping.count(self.mapping.lent_word(self.block, self.way) + 1)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.mapping.base + self.start, self.size, self.used is None, flags)

    def __len__(self):
        return self.size

    def lend(self, part, Py_ssize_t receiver):
        """Lend a part of these bytes: an owner to shard `receiver`, a shard to acceptor `receiver`.

        Return the reference that `Borrower.borrow` takes. IndexError for a receiver that does not exist.
        """
        cdef const unsigned char[::1] data = part
        cdef Mapping mapping = self.mapping
        cdef Py_ssize_t way = receiver
        if not 0 <= receiver < (mapping.shards if self.way < 0 else mapping.acceptors) or self.way >= mapping.shards:
            raise IndexError(f"no way to {receiver}")
        if self.way >= 0:
            way += mapping.shards + self.way * mapping.acceptors
        mapping.count(mapping.lent_word(self.block, way))
        return [*mapping.key, way, self.block, &data[0] - mapping.base, data.shape[0]]


cdef Loan new_loan(Mapping mapping, Py_ssize_t block, Py_ssize_t way, Py_ssize_t start, Py_ssize_t size, bytearray used):
    cdef Loan loan = Loan.__new__(Loan)
    loan.mapping = mapping
    loan.block = block
    loan.way = way
    loan.start = start
    loan.size = size
    loan.used = used
    return loan


cdef class Arena:
    """The arena of an acceptor. OSError if there is no memory for it."""

    cdef readonly Py_ssize_t blocks
    cdef Py_ssize_t shards
    cdef Py_ssize_t acceptors
    cdef Mapping mapping
    cdef bytearray used
    cdef Py_ssize_t allocated  # blocks, from the first one on

    def __init__(self, nbytes, shards, acceptors):
        self.blocks = max(nbytes // BLOCK_BYTES, 1)
        self.shards = shards
        self.acceptors = acceptors
        self.begin()

    def begin(self):
        """Begin anew in other memory; loans of the old memory stay valid."""
        words = HEADER_WORDS + 2 * self.blocks * (self.shards + self.shards * self.acceptors)
        size = -(-words * 8 // mmap.PAGESIZE) * mmap.PAGESIZE + self.blocks * BLOCK_BYTES
        serial = time.monotonic_ns()
        fd = os.memfd_create("penstock-arena", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            os.posix_fallocate(fd, 0, size - self.blocks * BLOCK_BYTES)
            os.pwrite(fd, b"".join(n.to_bytes(8, "little") for n in (serial, self.blocks, self.shards, self.acceptors)), 0)
            self.mapping = Mapping(fd, serial)
        except BaseException:
            os.close(fd)
            raise
        self.used = bytearray(self.blocks)
        self.allocated = 0

    def lend(self):
        """A free block as a `Loan` of its owner, None if there is none. Low blocks first: they are in the caches."""
        cdef Py_ssize_t block
        for block in range(self.blocks):
            if not self.used[block] and self.mapping.is_back(block):
                if block >= self.allocated and not self.allocate(block):
                    return None
                self.used[block] = 1
                return new_loan(
                    self.mapping, block, -1, self.mapping.start + block * BLOCK_BYTES, BLOCK_BYTES, self.used)
        return None

    cdef bint allocate(self, Py_ssize_t block):
        """Get memory for the blocks up to this one; return whether there was any. Without it a write would raise
        SIGBUS.
        """
        start = self.mapping.start + self.allocated * BLOCK_BYTES
        try:
            os.posix_fallocate(self.mapping.fd, start, (block + 1 - self.allocated) * BLOCK_BYTES)
        except OSError:
            return False
        self.allocated = block + 1
        return True


cdef class Borrower:
    """The arenas that a process has borrowed from; the latest `most` stay mapped."""

    cdef Py_ssize_t most
    cdef object mappings

    def __init__(self, most):
        self.most = most
        self.mappings = OrderedDict()

    def borrow(self, reference):
        """The bytes of a reference. OSError if the lender is gone and this process has not mapped its arena before."""
        pid, fd, serial, way, block, start, size = reference
        mapping = self.mappings.get(serial)
        if mapping is None:
            mapping = self.mappings[serial] = self.open(pid, fd, serial)
            if len(self.mappings) > self.most:
                self.mappings.popitem(last=False)
        return memoryview(new_loan(mapping, block, way, start, size, None))

    def open(self, pid, fd, serial):
        mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        try:
            return Mapping(mine, serial)
        except BaseException:
            os.close(mine)
            raise

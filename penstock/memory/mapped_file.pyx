"""The file of gauges as one process maps it: making it, opening it, its header, and whole reads of its records."""

import fcntl
import os
import sys
from pathlib import Path

from libc.errno cimport EINTR, EOPNOTSUPP, errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.types cimport off_t
from posix.unistd cimport close as close_fd, usleep

from penstock.batch.atomics cimport load_word, read_block, spin_pause, store_word
from penstock.memory.layout cimport *

from penstock.memory.layout import HEADER, LAYOUT_VERSION, MAGIC, areas, check_counts

cdef extern from "fcntl.h" nogil:
    int fallocate(int fd, int mode, off_t offset, off_t length)

cdef enum:
    SPINS = 64  # attempts to read a block before the reader sleeps: a write takes some ten nanoseconds
    NAP_US = 50
    NAPS = 200  # times NAP_US: how long a preempted writer has to finish its write


cdef class MappedFile:
    """One mapping of the file. `create` makes the file, `open` maps an existing one; `close` unmaps.

    The areas of the file are subclasses without fields, so that `Gauges` can have all of them as its bases.
    """

    def __cinit__(self):
        self.fd = -1

    def __init__(self):
        raise TypeError("create or open makes one")

    def __dealloc__(self):
        release(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @classmethod
    def create(cls, path, *, epoch, acceptors, shards, queues, pid):
        """Make the file (mode 0600, sparse) and map it. `open` refuses it until `complete`.

        `epoch` is the start of the node in microseconds since 1970, `pid` the process whose death makes the file stale.
        FileExistsError if the file exists, OSError if there is no room, ValueError for impossible counts.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            return build(cls, fd, Path(path), epoch, acceptors, shards, queues, pid)
        except BaseException:
            os.unlink(path)
            raise

    def complete(self):
        """The creator only: store the magic, once everything that others rely on is in the file."""
        store_word(to_write(self), H_MAGIC, int.from_bytes(MAGIC, sys.byteorder))

    @classmethod
    def open(cls, path, *, writable=True):
        """Map the file at `path`. OSError if it cannot be read; ValueError if it is no gauges file of this version."""
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            facts = os.pread(fd, HEADER.size, 0)
            if len(facts) < HEADER.size or not facts.startswith(MAGIC):
                raise ValueError(f"{path} is not a gauges file")
            _, version, epoch, pid, acceptors, shards, queues = HEADER.unpack(facts)
            if version != LAYOUT_VERSION:
                raise ValueError(f"{path} has gauges of version {version}, this penstock has version {LAYOUT_VERSION}")
            check_counts(epoch, acceptors, shards, queues, pid)
        except BaseException:
            os.close(fd)
            raise
        return mapped(cls, fd, Path(path), writable, epoch, acceptors, shards, queues, pid)

    def close(self):
        """Unmap. The file stays: its creator unlinks it. Closing repeatedly does nothing."""
        release(self)

    def topology_version(self):
        """The topology version that acceptors must have reached before they route."""
        return load_word(to_read(self), H_TOPOLOGY)

    def set_topology_version(self, uint64_t version):
        """Router only: publish the version of a change that is stored and published."""
        store_word(to_write(self), H_TOPOLOGY, version)


cdef MappedFile build(cls, int fd, path, epoch, acceptors, shards, queues, pid):
    """Write a new file's header, but for its magic; owns `fd` from here on."""
    cdef MappedFile file
    try:
        check_counts(epoch, acceptors, shards, queues, pid)
        os.fchmod(fd, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # held until closed: `remove_stale` asks for it
        *_, size = areas(acceptors, shards, queues)
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    file = mapped(cls, fd, path, True, epoch, acceptors, shards, queues, pid)
    reserve(file, 0, file.users_at)
    store_word(file.base, H_VERSION, LAYOUT_VERSION)
    store_word(file.base, H_EPOCH, epoch)
    store_word(file.base, H_PID, pid)
    store_word(file.base, H_ACCEPTORS, acceptors)
    store_word(file.base, H_SHARDS, shards)
    store_word(file.base, H_QUEUES, queues)
    return file


cdef MappedFile mapped(cls, int fd, path, bint writable, epoch, acceptors, shards, queues, pid):
    """Map a file with the facts of its header; owns `fd` from here on."""
    cdef MappedFile file = cls.__new__(cls)
    file.fd = fd
    file.path = path
    file.writable = writable
    file.epoch, file.pid = epoch, pid
    file.acceptors, file.shards, file.queues, file.slots = acceptors, shards, queues, shards + queues
    (file.processes_at, file.sent_at, file.taken_at, file.safe_at, file.doing_at, file.buckets_at, file.users_at,
     file.claims_at, file.queues_at, file.names_at, file.size) = areas(acceptors, shards, queues)
    if os.fstat(fd).st_size != file.size:
        raise ValueError(f"{path} has {os.fstat(fd).st_size} bytes, its header says {file.size}")
    file.present = <unsigned char*> calloc((file.slots + SLOTS_A_CHUNK - 1) // SLOTS_A_CHUNK, 1)
    if file.present == NULL:
        raise MemoryError()
    base = mmap(NULL, file.size, PROT_READ | PROT_WRITE if writable else PROT_READ, MAP_SHARED, fd, 0)
    if base == MAP_FAILED:
        raise OSError(errno, os.strerror(errno), str(path))
    file.base = <unsigned char*> base
    return file


cdef void release(MappedFile file) noexcept:
    if file.base != NULL:
        munmap(file.base, file.size)
        file.base = NULL
    free(file.present)
    file.present = NULL
    if file.fd >= 0:
        close_fd(file.fd)
        file.fd = -1


cdef int reserve(MappedFile file, Py_ssize_t at, Py_ssize_t size) except -1:
    """Allocate memory for a range of the file, so that full shared memory is an OSError here and not a SIGBUS later."""
    while fallocate(file.fd, 0, at, size) < 0:
        if errno == EOPNOTSUPP:
            return 0
        if errno != EINTR:
            raise OSError(errno, os.strerror(errno), str(file.path))
    return 0


cdef bint snapshot(MappedFile file, const unsigned char* block, size_t count, uint64_t* copy,
                   const unsigned char* tail, size_t more, uint64_t* tail_copy) except -1:
    """Copy a block, and a tail written under its sequence; False if its writer did not finish in time."""
    cdef int naps, spins
    for naps in range(NAPS):
        for spins in range(SPINS):
            if read_block(block, count, copy, tail, more, tail_copy):
                return True
            spin_pause()
        with nogil:
            usleep(NAP_US)
        to_read(file)  # another thread may have closed the gauges meanwhile
    return False

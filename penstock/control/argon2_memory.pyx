# cython: cdivision=True
"""The memory in which argon2 computes, which the kernel gives (mmap(2)) and gets back.

From malloc it would come back to malloc, which keeps it in processes that keep their buffers (`process.keep_buffers`).
It is in huge pages if the kernel has them: faults of small ones, 4,864 for a password of ours, can take half as long as
the computation.
"""

from libc.stdint cimport uint8_t, uintptr_t
from posix.mman cimport (
    MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, madvise, mmap, munmap,
)

cdef enum:
    HUGE_PAGE_BYTES = 2 * 1024 * 1024


cdef size_t mapped_bytes(size_t nbytes) noexcept nogil:
    """Whole huge pages: a rest would be mapped in small ones."""
    return (nbytes + HUGE_PAGE_BYTES - 1) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES


cdef int allocate(uint8_t **memory, size_t nbytes) noexcept nogil:
    """`allocate_cbk`: argon2 reads only `memory`, which is NULL if there is none."""
    cdef void *found = mmap(
        NULL, mapped_bytes(nbytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
    )
    if found == MAP_FAILED:
        memory[0] = NULL
        return -1
    madvise(found, mapped_bytes(nbytes), MADV_HUGEPAGE)  # may fail: then the pages are small
    memory[0] = <uint8_t *> found
    return 0


cdef void release(uint8_t *memory, size_t nbytes) noexcept nogil:
    """`free_cbk`."""
    munmap(memory, mapped_bytes(nbytes))


ALLOCATE = <uintptr_t> allocate
RELEASE = <uintptr_t> release

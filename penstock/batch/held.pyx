"""The buffer of an object, read only, which stays where it is as long as this lives. A typed memoryview does the same at
five times the cost. The plain twin is in `penstock.batch.pointers`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


cdef class Held:
    """Holds the buffer of `source`. TypeError or BufferError if it has none that is contiguous."""

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

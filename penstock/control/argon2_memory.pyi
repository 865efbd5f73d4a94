"""Types of the compiled `argon2_memory.pyx`."""

from typing import Final

ALLOCATE: Final[int]
"""The address of a function for `allocate_cbk` of an `argon2_context`."""
RELEASE: Final[int]
"""The address of a function for `free_cbk`."""

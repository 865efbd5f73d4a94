"""Types of the compiled `layout.pyx`; `docs/gauges.md` describes the layout."""

from struct import Struct
from typing import Final

MAGIC: Final[bytes]
LAYOUT_VERSION: Final[int]
PREFIX: Final[Struct]
HEADER: Final[Struct]
LAYOUT: Final[dict[str, dict[str, int]]]

def check_counts(epoch: int, acceptors: int, shards: int, queues: int, pid: int) -> None: ...
def areas(acceptors: int, shards: int, queues: int) -> tuple[int, ...]: ...

"""Queues declared to hold, slow or refuse others: their arguments, and kinds of queues."""

from __future__ import annotations

from typing import Any

FULL: dict[str, Any] = {"x-max-length": 1, "x-overflow": "flow"}

KINDS: dict[str, dict[str, Any]] = {
    "unlimited": {},
    "marks": FULL,
    "marks of bytes": {"x-flow-stop-size": 1},
    "essential": {**FULL, "x-essential": True},
    "pace": {"x-pace-depth": 1},
    "rate": {"x-max-rate": 1},
    "rate of bytes": {"x-max-rate-bytes": 1},
    "lane": {**FULL, "x-lane-priority": 255},
    "ladder": {**FULL, "x-hold": "reject"},
    "reject": {"x-max-length": 0, "x-overflow": "reject"},
    "reject-publish": {"x-max-length": 0, "x-overflow": "reject-publish"},
    "reject-publish-dlx": {"x-max-length": 1, "x-overflow": "reject-publish-dlx"},
    "ring-strict": {"x-max-length": 0, "x-overflow": "ring-strict"},
}
"""Arguments of a declaration, by their purpose."""

STYLES: dict[str, dict[str, bool]] = {
    "exclusive": {"exclusive": True},
    "auto-delete": {"auto_delete": True},
    "plain": {},
    "durable": {"durable": True},
}

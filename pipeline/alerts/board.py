"""Which alerts stand, with hysteresis: plain values in, alerts out. No clock, no Spark, no socket.

How bad a thing is, is one number: at 1 and above it is raised, below `CLEARS_BELOW` it is cleared, and in between it
stays what it is, so that what hovers round its limit is told twice and not a hundred times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CLEARS_BELOW = 0.7
UNSEEN_US = 900_000_000
"""A queue or shard that is not heard of for so long is not there any more."""
HELD_MOST = 100_000
"""Sessions whose stops are remembered; beyond, the oldest are forgotten."""
SAID = ("depth", "depth_bytes", "stop_count", "stop_bytes")
"""What is said of a queue that will be full."""

Kind = Literal["queue-full", "shard-hot", "producer-held"]
Subject = tuple[str, ...]
"""What it is about: vhost and queue, node and shard, or node, connection, channel and user."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When alerts are raised: a queue that is full within `full_s` seconds, a shard whose load is `hot` times the mean
    of its node, a producer that is held for `held_s` seconds.
    """

    full_s: float = 600.0
    hot: float = 1.5
    held_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Alert:
    """`at` in µs since 1970; `facts` are numbers that say why."""

    kind: Kind
    raised: bool
    subject: Subject
    at: int
    facts: dict[str, Any]

    @property
    def routing_key(self) -> str:
        """As in `queue-full.raised./.orders`; a name with dots makes more words, and at most 255 octets count."""
        key = ".".join((self.kind, self.state, *self.subject))
        return key.encode()[:255].decode(errors="ignore")

    @property
    def state(self) -> str:
        return "raised" if self.raised else "cleared"

    def body(self) -> bytes:
        told = {"kind": self.kind, "state": self.state, "subject": list(self.subject), "at": self.at, **self.facts}
        return json.dumps(told, ensure_ascii=False).encode()


@dataclass(slots=True)
class Board:
    """`standing`: what is raised, since when, and when it was last looked at; `held`: since when sessions are;
    `batches`: the last that was taken of each stream, so that one that comes again after a crash tells nothing twice.
    """

    limits: Limits
    standing: dict[tuple[Kind, Subject], tuple[int, int]] = field(default_factory=dict)
    held: dict[Subject, int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)

    def look(self, kind: Kind, subject: Subject, badness: float, at: int, facts: dict[str, Any]) -> list[Alert]:
        """How bad something is now; the alert that follows from it, if one does."""
        key = kind, subject
        if badness >= 1 and key not in self.standing:
            self.standing[key] = at, at
            return [Alert(kind, True, subject, at, facts)]
        if key in self.standing:
            since, _ = self.standing[key]
            self.standing[key] = since, at
            if badness < CLEARS_BELOW:
                del self.standing[key]
                return [Alert(kind, False, subject, at, {**facts, "seconds": (at - since) / 1e6})]
        return []

    def queues(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Rows of `streams.queue_rows`: vhost, queue, at, `seconds` until it is full (None: not foreseen), `SAID`."""
        found = []
        for row in rows:
            seconds = row["seconds"]
            badness = 0.0 if seconds is None else self.limits.full_s / max(seconds, 1e-3)
            facts = {"full_in": seconds, **{name: row[name] for name in SAID}}
            found += self.look("queue-full", (row["vhost"], row["queue"]), badness, row["at"], facts)
        return found

    def shards(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Rows of one time: node, shard, at, rate (messages a second)."""
        nodes: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            nodes.setdefault(row["node"], []).append(row)
        found = []
        for own in nodes.values():
            mean = sum(row["rate"] for row in own) / len(own)
            for row in own:
                ratio = row["rate"] / mean if mean and len(own) > 1 else 0.0
                facts = {"rate": row["rate"], "mean": mean, "ratio": ratio}
                subject = row["node"], str(row["shard"])
                found += self.look("shard-hot", subject, ratio / self.limits.hot, row["at"], facts)
        return found

    def flow(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Rows of the table `flow`, in order of time: who is held from now on, and who is not any more."""
        found = []
        for row in rows:
            session = row["node"], row["connection"], str(row["channel"]), row["user"]
            if row["action"] == "stop":
                self.held.setdefault(session, row["ts"])
                if len(self.held) > HELD_MOST:
                    del self.held[next(iter(self.held))]
            elif row["action"] == "resume" and row["outcome"] != "other-cause":
                self.held.pop(session, None)
                found += self.look("producer-held", session, 0.0, row["ts"], {"held_s": row["stopped_ms"] / 1e3})
        return found

    def tick(self, now: int) -> list[Alert]:
        """Time passes (µs since 1970): who has been held for too long by now, and what is not there any more."""
        found = []
        for kind, subject in [key for key, (_, seen) in self.standing.items() if seen + UNSEEN_US < now]:
            if kind != "producer-held" or subject not in self.held:
                found += self.look(kind, subject, 0.0, now, {"unseen": True})
        for session, since in self.held.items():
            held_s = (now - since) / 1e6
            if held_s >= self.limits.held_s:
                found += self.look("producer-held", session, held_s / self.limits.held_s, now, {"held_s": held_s})
        return found

    def saved(self) -> str:
        """What a restart goes on from."""
        return json.dumps(
            {
                "standing": [[kind, list(subject), *times] for (kind, subject), times in self.standing.items()],
                "held": [[list(session), at] for session, at in self.held.items()],
                "batches": self.batches,
            }
        )

    @classmethod
    def restored(cls, limits: Limits, text: str | None) -> Board:
        """From what was saved; an empty one where that is not whole: then alerts that stand are told again."""
        board = cls(limits)
        try:
            told = json.loads(text or "{}")
            standing = {(kind, tuple(subject)): (int(at), int(seen)) for kind, subject, at, seen in told["standing"]}
            board.standing = standing
            board.held = {tuple(session): int(at) for session, at in told["held"]}
            board.batches = {name: int(number) for name, number in told["batches"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(limits)
        return board

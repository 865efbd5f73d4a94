"""The state of alerts, with hysteresis: plain values in, alerts out. No clock, no Spark, no socket.

The badness of a subject is one number: at 1 and above its alert is raised, below `CLEARS_BELOW` it is cleared, and in
between it stays as it is, so a value that hovers around its limit gives two alerts and not a hundred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CLEARS_BELOW = 0.7
UNSEEN_US = 900_000_000
"""A queue or shard without rows for this long is taken for gone."""
HELD_MOST = 100_000
"""Channels whose stops are kept; beyond this number the oldest are dropped."""
FACTS = ("depth", "depth_bytes", "stop_count", "stop_bytes")
"""The facts in an alert about a queue that will be full."""

Kind = Literal["queue-full", "shard-hot", "producer-held"]
Subject = tuple[str, ...]
"""The subject of an alert: node, vhost and queue; node and shard; or node, connection, channel and user."""
WORDS: dict[Kind, int] = {"queue-full": 3, "shard-hot": 2, "producer-held": 4}
"""How many words a subject of each kind has."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When alerts are raised: a queue will be full within `full_s` seconds, a shard's load is `hot` times the mean of
    its node, a producer is held for `held_s` seconds.
    """

    full_s: float = 600.0
    hot: float = 1.5
    held_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Alert:
    """A change of state; `at` is in µs since 1970, `facts` are the numbers behind it. One that is `repeated` may have
    been published before.
    """

    kind: Kind
    raised: bool
    subject: Subject
    at: int
    facts: dict[str, Any]
    repeated: bool = False

    @property
    def routing_key(self) -> str:
        """The routing key, such as `queue-full.raised.node-1./.orders`: a name with dots gives more words, and the key
        is cut at 255 bytes.
        """
        key = ".".join((self.kind, self.state, *self.subject))
        return key.encode()[:255].decode(errors="ignore")

    @property
    def state(self) -> str:
        """The state as a word of the routing key."""
        return "raised" if self.raised else "cleared"

    def body(self) -> bytes:
        """Return the JSON body of the message."""
        content = {"kind": self.kind, "state": self.state, "subject": list(self.subject), "at": self.at, **self.facts}
        content["repeated"] = self.repeated
        return json.dumps(content, ensure_ascii=False).encode()


@dataclass(slots=True)
class Board:
    """`standing`: raised alerts, with the times when they were raised and last checked; `held`: the times since when
    channels are held; `batches`: the last batch processed of each stream, so that one repeated after a crash raises
    nothing twice; `unpublished`: alerts that are not known to be published.
    """

    limits: Limits
    standing: dict[tuple[Kind, Subject], tuple[int, int]] = field(default_factory=dict)
    held: dict[Subject, int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    unpublished: list[Alert] = field(default_factory=list)

    def assess(self, kind: Kind, subject: Subject, badness: float, at: int, facts: dict[str, Any]) -> list[Alert]:
        """Return the alert that follows from a subject's present badness, if any."""
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
        """Process rows of `streams.queue_rows`: node, vhost, queue, at, `seconds` until full (None: not foreseen),
        `unsure_seconds`, and `FACTS`.

        Only what is foreseen raises an alert. An alert that stands is not cleared by a line that says nothing, unless
        this line too is far from the mark.
        """
        found = []
        for row in rows:
            seconds = row["seconds"]
            badness = self._near(seconds)
            if seconds is None:
                badness = min(self._near(row["unsure_seconds"]), CLEARS_BELOW)
            subject = row["node"], row["vhost"], row["queue"]
            facts = {"full_in": seconds, **{name: row[name] for name in FACTS}}
            found += self.assess("queue-full", subject, badness, row["at"], facts)
        return found

    def _near(self, seconds: float | None) -> float:
        return 0.0 if seconds is None else self.limits.full_s / max(seconds, 1e-3)

    def shards(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Process rows of one time: node, shard, at, rate (messages a second)."""
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
                found += self.assess("shard-hot", subject, ratio / self.limits.hot, row["at"], facts)
        return found

    def flow(self, rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
        """Process rows of the table `flow`, in order of time: record channels that are held, and release
        resumed ones.
        """
        found = []
        for row in rows:
            channel = row["node"], row["connection"], str(row["channel"]), row["user"]
            if row["action"] == "stop":
                self.held.setdefault(channel, row["ts"])
                if len(self.held) > HELD_MOST:
                    del self.held[next(iter(self.held))]
            elif row["action"] == "resume" and row["outcome"] != "other-cause":
                self.held.pop(channel, None)
                found += self.assess("producer-held", channel, 0.0, row["ts"], {"held_s": row["stopped_ms"] / 1e3})
        return found

    def tick(self, now: int) -> list[Alert]:
        """Advance the time (µs since 1970): raise alerts for channels held too long, clear those of subjects gone
        unseen.
        """
        found = []
        for kind, subject in [key for key, (_, seen) in self.standing.items() if seen + UNSEEN_US < now]:
            if kind != "producer-held" or subject not in self.held:
                found += self.assess(kind, subject, 0.0, now, {"unseen": True})
        for channel, since in self.held.items():
            held_s = (now - since) / 1e6
            if held_s >= self.limits.held_s:
                found += self.assess("producer-held", channel, held_s / self.limits.held_s, now, {"held_s": held_s})
        return found

    def to_json(self) -> str:
        """Serialize the state for a restart."""
        return json.dumps(
            {
                "standing": [[kind, list(subject), *times] for (kind, subject), times in self.standing.items()],
                "held": [[list(channel), at] for channel, at in self.held.items()],
                "batches": self.batches,
                "unpublished": [
                    [each.kind, each.raised, list(each.subject), each.at, each.facts] for each in self.unpublished
                ],
            }
        )

    @classmethod
    def from_json(cls, limits: Limits, text: str | None) -> Board:
        """Restore a saved state. If it is incomplete the board is empty, and standing alerts are raised once more.
        Unpublished alerts are `repeated`.
        """
        board = cls(limits)
        try:
            state = json.loads(text or "{}")
            standing = {(kind, tuple(subject)): (int(at), int(seen)) for kind, subject, at, seen in state["standing"]}
            if any(len(subject) != WORDS[kind] for kind, subject in standing):  # of an earlier release
                return cls(limits)
            board.standing = standing
            board.held = {tuple(channel): int(at) for channel, at in state["held"]}
            board.batches = {name: int(number) for name, number in state["batches"].items()}
            board.unpublished = [
                Alert(kind, bool(raised), tuple(subject), int(at), dict(facts), repeated=True)
                for kind, raised, subject, at, facts in state["unpublished"]
            ]
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(limits)
        return board

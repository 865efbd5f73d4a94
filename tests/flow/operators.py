"""Operators' actions, as rules."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.attacks import Attacks
from tests.flow.world import KINDS
from tests.simulator.policies import OWNERS, POLICIES, SHARED

# Stops of operators: of everything, of publishes to the queue of a kind or to an exchange, or of a user.
STOPS = ("all", "user", "exchange some", "exchange ", *(f"queue {kind}" for kind in ("count", "bytes", "free")))


class Operators(Attacks):
    """Operators change policies, and stop publishes."""

    @rule(kind=st.sampled_from([*KINDS]), definition=st.sampled_from(POLICIES))
    def change_policy(self, kind: str, definition: dict[str, Any] | None) -> None:
        """Change the limits of a kind's queues, which hold as soon as each process has received them."""
        if not self.node.router_lives or (definition is not None and "lane-key" in definition and not self.lanes):
            return
        self.node.policy(kind, f"^{kind}-", definition)
        self.note_policy(kind, definition or {})
        # Also those that are to be deleted, and those of a shard that is dead now.
        self.changed.update(dict.fromkeys(kept.name for kept in self.queues.values() if kept.kind == kind))

    @rule(whose=st.sampled_from([*OWNERS]), definition=st.sampled_from(SHARED))
    def limit_together(self, whose: str, definition: dict[str, Any] | None) -> None:
        """Set a rate, or marks, for queues with something in common; or none."""
        apply_to, vhost, pattern = OWNERS[whose]
        if definition is not None and whose == "exchange" and self.share is not None:
            definition = definition | {"flow-share": f"{self.share} %"}  # this policy replaces the one with the share
        if self.node.router_lives:
            self.node.policy(f"rate of {whose}", pattern, definition, apply_to, vhost)

    @rule(asked=st.booleans())
    def overtake(self, asked: bool) -> None:
        """Let publishes to free queues overtake parked ones, on every channel, or not."""
        if self.node.router_lives:
            self.node.policy("overtaking", "^guest$", {"overtaking": "destination"} if asked else None, "users")

    @rule(what=st.sampled_from(STOPS))
    def operator_stop(self, what: str) -> None:
        """Stop publishes: producers concerned wait from when their acceptor has the stop until it is lifted."""
        if not self.node.router_lives:
            return
        names: dict[str, str | None] = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))
        kind, _, name = what.partition(" ")
        if kind == "user":
            names["user"] = "guest"
        elif kind != "all":
            name = self.living()[name].name if name in self.living() else name
            names |= {"vhost": "/", kind: name}
        stop = self.node.router.command("flow_stop", author="ann", reason="", seconds=None, **names)
        self.node.publish_changes()
        number = stop["number"]
        self.stops = {each: counts for each, counts in self.stops.items() if each in self.node.router.topology.stops}
        self.stops[number] = None

    @rule(which=st.integers(0, 9))
    def operator_start(self, which: int) -> None:
        """Lift a stop."""
        if self.stops and self.node.router_lives:
            number = sorted(self.stops)[which % len(self.stops)]
            del self.stops[number]
            self.node.router.command("flow_lift", number=number)
            self.node.publish_changes()

"""Whether a supervisor takes the place of another one."""

from __future__ import annotations

from pathlib import Path

from ops.successor import RUNTIME, TRIAL, Successor


def test_it_takes_its_variables_out_of_the_environment() -> None:
    variables = {RUNTIME: "/run/x", TRIAL: "1", "HOME": "/"}
    assert Successor.take(variables) == Successor(Path("/run/x"), is_trial=True)
    assert variables == {"HOME": "/"}


def test_a_supervisor_starts_a_node_unless_it_is_told() -> None:
    assert Successor.take({}) is None
    assert Successor.take({TRIAL: "1"}) is None
    assert Successor.take({RUNTIME: "/run/x"}) == Successor(Path("/run/x"), is_trial=False)

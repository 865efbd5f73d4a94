"""Tables of states in pages: only the text between markers is made anew."""

from __future__ import annotations

from enum import Enum

import pytest

from ops import life_cycles, reference
from penstock.states.transitions import Transitions


class Light(Enum):
    RED = "stop"
    DARK_AMBER = "wait"
    GREEN = "go"


class Pass(Enum):
    TIME = "time passes"
    FAULT = "it fails"


LIGHT = Transitions({
    Light.RED: {Pass.FAULT: Light.DARK_AMBER, Pass.TIME: Light.GREEN},
    Light.DARK_AMBER: {},
    Light.GREEN: {Pass.TIME: Light.RED, Pass.FAULT: Light.DARK_AMBER},
})  # fmt: skip
PAGE = """before
<!-- states of a light -->
old
<!-- end of states -->
after
"""
MADE = """before
<!-- states of a light -->
<!-- Made by `make docs` from tests/ops/test_life_cycles.py: change it there. -->

| state | meaning |
| --- | --- |
| *red* | stop |
| *dark-amber* | wait |
| *green* | go |

| event | in | leads to |
| --- | --- | --- |
| time passes | *red* | *green* |
| time passes | *green* | *red* |
| it fails | *red*, *green* | *dark-amber* |

<!-- end of states -->
after
"""


def test_states_and_transitions_are_written_between_the_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(life_cycles.TABLES, "a light", LIGHT)
    assert life_cycles.filled(PAGE) == MADE
    assert life_cycles.filled(MADE) == MADE


def test_a_page_without_markers_stays_as_it_is() -> None:
    assert life_cycles.filled("# Lights\n") == "# Lights\n" and not life_cycles.names_in("# Lights\n")


def test_a_marker_that_names_no_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        life_cycles.filled(PAGE)


def test_every_table_is_in_one_page() -> None:
    named = [name for path in reference.DOCS.glob("*.md") for name in life_cycles.names_in(path.read_text())]
    assert sorted(named) == sorted(life_cycles.TABLES)

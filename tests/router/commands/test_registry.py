"""The commands of the control socket."""

from __future__ import annotations

from router.commands.registry import COMMANDS, NOT_AUDITED


def test_what_only_lists_leaves_no_record_and_all_else_does() -> None:
    listing = {name for name in COMMANDS if name.endswith("_list")}
    assert listing <= NOT_AUDITED <= COMMANDS.keys()
    assert not {name for name in NOT_AUDITED if name.endswith(("_set", "_add", "_delete", "_clear"))}

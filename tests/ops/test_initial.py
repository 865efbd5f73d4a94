"""`penstock init`: a file that a node starts with, and whose comments are true."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.initial import FIRST, init, lines
from penstock.settings import Settings
from penstock.settings.sources import known_keys, load_settings
from penstock.settings.values import MIB


def run(*words: str) -> str:
    app = Typer()
    app.command()(init)
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None:
        raise done.exception
    return str(done.stdout)


def settings_in(text: str) -> str:
    """Return the file with its settings in force: those that the file names with an empty text stay as they are."""
    found = (line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in text.splitlines())
    return "\n".join(line for line in found if not line.endswith('= ""'))


def test_the_file_as_it_is_changes_nothing_but_the_directory(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    said = run(str(file), "--data", str(tmp_path / "data"))
    assert said.splitlines()[0] == f"wrote {file}"
    written = tomllib.loads(file.read_text())
    assert written.pop("data") == str(tmp_path / "data")
    assert all(not section or section == {"automatic": {}} for section in written.values())
    found, usual = load_settings(file), Settings(data=tmp_path / "data")
    assert found.model_copy(update={"store": usual.store}) == usual  # the disk has filled up meanwhile


@pytest.mark.parametrize("every", [False, True])
def test_its_comments_are_the_settings_of_this_machine(tmp_path: Path, every: bool) -> None:
    """With all comments in force the settings are the same, sizes but for parts of a MiB."""
    usual = Settings(data=tmp_path)
    keys = tuple(known_keys(Settings)) if every else FIRST
    file = tmp_path / "all.toml"
    file.write_text(settings_in("\n".join(lines(usual, keys))))
    found = load_settings(file)
    before, after = usual.model_dump(), found.model_dump()
    for name in ("memory_limit",):
        assert 0 <= before.pop(name) - after.pop(name) < MIB
    for section, name in (("store", "limit"), ("store", "spill_limit"), ("memory", "process_limit")):
        assert 0 <= before[section].pop(name) - after[section].pop(name) < MIB
    assert after == before


def test_each_setting_has_its_meaning_before_it(tmp_path: Path) -> None:
    text = run("-", "--all")
    names = [line.split(" =")[0].lstrip("#") for line in text.splitlines() if " = " in line and line[:2] != "# "]
    assert len(names) == len(list(known_keys(Settings)))
    assert "# TCP port AMQP is served on; 0 takes a free one\n#port = 5672\n" in text
    assert max(map(len, text.splitlines())) < 150


def test_a_file_is_not_replaced_unasked(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("port = 1\n")
    with pytest.raises(CommandError, match="already; --force replaces it"):
        run(str(file))
    assert file.read_text() == "port = 1\n"
    run(str(file), "--force")
    assert "#port = 5672" in file.read_text()
    with pytest.raises(CommandError, match="cannot write"):
        run(str(tmp_path / "none" / "penstock.toml"))

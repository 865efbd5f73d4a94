"""The node that a command addresses: the option nearest to the command counts, and nothing is ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ops import cli
from ops.errors import CommandError
from ops.naming import data_directory, inherited
from penstock.settings.errors import SettingsError

Flag = Annotated[bool, typer.Option("--flag", callback=inherited)]


@pytest.mark.parametrize(
    "command",
    [
        ["--data", "{}", "flow", "stop", "--all"],
        ["flow", "--data", "{}", "stop", "--all"],
        ["flow", "stop", "--all", "--data", "{}"],
        ["--data", "/nowhere", "flow", "--data", "/nowhere", "stop", "--all", "--data", "{}"],
        ["--data", "/nowhere", "flow", "--data", "{}", "stop", "--all"],
        ["--config", "{}/node.toml", "flow", "stop", "--all"],
        ["--config", "{}/node.toml", "flow", "hold-offs", "clear"],
        ["--config", "{}/node.toml", "vhost", "list"],
    ],
    ids=" ".join,
)
def test_a_node_is_named_before_a_command_behind_it_or_in_between(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(f'data = "{tmp_path}"\n')
    done = CliRunner().invoke(cli.app, [word.format(tmp_path) for word in command])
    assert isinstance(done.exception, CommandError)
    assert str(done.exception) == f"no node runs on {tmp_path}"


def test_a_configuration_that_cannot_be_read_is_an_error() -> None:
    done = CliRunner().invoke(cli.app, ["--config", "/no/such.toml", "vhost", "list"])
    assert isinstance(done.exception, SettingsError)


def test_a_flag_of_a_group_is_that_of_its_commands() -> None:
    app, inner = typer.Typer(), typer.Typer()
    notified: list[bool] = []

    @inner.callback()
    def group(flag: Flag = False) -> None:
        pass

    @inner.command()
    def list_(flag: Flag = False) -> None:
        notified.append(flag)

    app.add_typer(inner, name="things")

    @app.callback()
    def top() -> None:
        pass

    for words in (["things", "list-"], ["things", "--flag", "list-"], ["things", "list-", "--flag"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert notified == [False, True, True]


def test_a_directory_has_to_be_there_unless_it_may_be_new(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert data_directory(tmp_path) == tmp_path
    assert data_directory(missing, new=True) == missing
    with pytest.raises(CommandError, match=f"^there is no data directory {missing}$"):
        data_directory(missing)
    missing.touch()
    with pytest.raises(CommandError, match=f"^there is no data directory {missing}$"):
        data_directory(missing)

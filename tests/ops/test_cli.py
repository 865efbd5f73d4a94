"""Refusals of the command `penstock`: one line, status 2, nothing begun. Successful runs: tests/broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from ops import cli
from ops.errors import ForkEnded
from penstock import __version__
from penstock.settings import Settings

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def penstock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "ops", *arguments],
        cwd=ROOT,
        env={**clean, "COLUMNS": "200", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serve", "--prot", "1"], "No such option: --prot (Possible options: --host, --port)"),
        (["serve", "extra"], "Got unexpected extra argument(s) (extra)"),
        (["server"], "No such command 'server'. Did you mean 'serve', 'user'?"),
        (["serve", "--port"], "Option '--port' requires an argument."),
        (
            ["serve", "--port", "99999"],
            "port: Input should be less than or equal to 65535, got 99999 (on the command line)",
        ),
        (
            ["serve", "--set", "flow.max_cont=1"],
            "unknown setting 'flow.max_cont' by --set; did you mean 'flow.max_count'?",
        ),
        (["serve", "--config", "/no/such.toml"], "cannot read /no/such.toml: no such file"),
        (["status", "--config", "/no/such.toml"], "cannot read /no/such.toml: no such file"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], line: str) -> None:
    done = penstock(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: {line}\n")


@pytest.mark.parametrize("command", [[], ["flow"], ["flow", "stop"], ["store", "dump"]])
def test_h_is_help_too(command: list[str]) -> None:
    short, long = penstock(*command, "-h"), penstock(*command, "--help")
    assert (short.returncode, short.stdout, short.stderr) == (0, long.stdout, "")


@pytest.mark.parametrize("command", [[], ["flow"], ["flow", "stop"]])
def test_a_help_text_that_nobody_reads_to_its_end_is_no_error(command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as unread:
        done = subprocess.run(
            [sys.executable, "-m", "ops", *command, "--help"],
            cwd=ROOT, stdout=unread, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    script = penstock(_PENSTOCK_COMPLETE=f"source_{shell}")
    assert (script.returncode, script.stderr) == (0, "")
    assert "_PENSTOCK_COMPLETE" in script.stdout


@pytest.mark.parametrize("command", [["vhost", "list"], ["user", "delete", "bob"], ["permission", "list", "--json"]])
def test_commands_need_a_node(command: list[str], tmp_path: Path) -> None:
    done = penstock(*command, "--data", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: no node runs on {tmp_path}\n")


def test_status_and_serve_are_told_so_too(tmp_path: Path) -> None:
    done = penstock("--data", str(tmp_path), "status")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"penstock: no node runs on {tmp_path}\n")
    done = penstock("--config", "/no/such.toml", "serve")
    assert (done.returncode, done.stderr) == (2, "penstock: cannot read /no/such.toml: no such file\n")


@pytest.mark.parametrize(
    "command",
    [
        *(["flow"], ["flow", "incidents"], ["flow", "events"], ["vhost", "list"], ["store", "check"]),
        *(["rebalance", "status"], ["shard", "list"]),
    ],
    ids=" ".join,
)
def test_a_directory_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    done = penstock(*command, "--data", f"{tmp_path}/none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"penstock: there is no data directory {tmp_path}/none\n"


def test_a_password_is_no_argument() -> None:
    done = penstock("user", "add", "bob", "secret")
    assert (done.returncode, done.stderr) == (2, "penstock: Got unexpected extra argument(s) (secret)\n")


def test_a_mistake_in_the_environment() -> None:
    done = penstock("serve", PENSTOCK_SHARD="3")
    line = "unknown setting 'shard' in the environment (PENSTOCK_SHARD); did you mean 'shards'?"
    assert (done.returncode, done.stderr) == (2, f"penstock: {line}\n")


def test_help_says_of_each_flag_what_the_settings_say() -> None:
    done = penstock("serve", "--help")
    assert done.returncode == 0
    for name in ("host", "port", "acceptors", "shards", "data", "log_level"):
        assert f"--{name.replace('_', '-')}" in done.stdout
        description = Settings.model_fields[name].description
        assert description
        assert description in done.stdout


def test_alone_it_shows_its_help() -> None:
    done = penstock()
    assert "serve" in done.stdout
    assert (done.returncode, done.stderr) == (2, "")


def test_version() -> None:
    done = penstock("--version")
    assert (done.returncode, done.stdout) == (0, f"penstock {__version__}\n")


def test_a_forked_process_ends_with_its_own_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 would be the end of a help text that nobody reads."""
    for raised, status in ((ForkEnded(1), 1), (SystemExit(1), 0)):
        monkeypatch.setattr(cli, "app", Mock(side_effect=raised))
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == status

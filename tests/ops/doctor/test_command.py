"""`penstock doctor`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from ops.doctor import command
from ops.doctor.finding import Finding, advice, ok, problem
from penstock.settings import Settings
from penstock.settings.errors import SettingsError

FOUND = [ok("cores", "4"), advice("swap", "in use", "less"), problem("room", "none", "a disk")]


def run(*words: str) -> tuple[int, str]:
    app = Typer()
    app.command()(command.doctor)
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_findings_with_their_remedies() -> None:
    assert list(command.lines(FOUND)) == [
        "ok       cores          4",
        "advice   swap           in use",
        "                        → less",
        "PROBLEM  room           none",
        "                        → a disk",
        "problems: 1, advice: 1",
    ]


@pytest.mark.parametrize(("found", "status"), [(FOUND[:2], 0), (FOUND, 1)])
def test_a_problem_makes_the_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[Finding], status: int
) -> None:
    monkeypatch.setattr(command, "findings", lambda settings: iter(found))
    assert run("--data", str(tmp_path)) == (status, "\n".join(command.lines(found)) + "\n")


def test_this_machine(tmp_path: Path) -> None:
    """Every check can be made here, and says something; nothing stays in the directory."""
    status, said = run("--data", str(tmp_path / "data"), "--json")
    found = [Finding(**each) for each in json.loads(said)]
    assert {"modules", "files", "shared memory", "flush", "file system", "clock", "port amqp"} <= {
        each.check for each in found
    }
    assert all(bool(each.remedy) is (each.level != "ok") for each in found)
    assert status == int(any(each.level == "PROBLEM" for each in found))
    assert not list(tmp_path.iterdir())


def test_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("prot = 5672\n")
    with pytest.raises(SettingsError, match="prot"):
        run("--config", str(file))


def test_all_checks_have_names_of_their_own(tmp_path: Path) -> None:
    names = [each.check for each in command.findings(Settings(data=tmp_path))]
    assert len(names) == len(set(names))

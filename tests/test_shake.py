"""`make shake`: the choice of tests to repeat, and the result of repeating them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import shake
from tests.waiting import wait_for

MODULE = """\
import pytest

LIMIT = 3


@pytest.fixture
def number():
    return LIMIT


def helper(value):
    return value + 1


def test_by_fixture(number):
    assert number


@pytest.mark.skipif(False, reason="a decorator")
def test_by_helper():
    assert helper(1)


def test_by_itself():
    assert True


class TestMany:
    def test_inside(self):
        assert True
"""


def line(text: str) -> int:
    return MODULE.splitlines().index(text) + 1


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("import pytest", []),
        ("LIMIT = 3", ["test_by_fixture"]),
        ("    return LIMIT", ["test_by_fixture"]),
        ("    return value + 1", ["test_by_helper"]),
        ('@pytest.mark.skipif(False, reason="a decorator")', ["test_by_helper"]),
        ("def test_by_itself():", ["test_by_itself"]),
        ("    def test_inside(self):", ["TestMany"]),
        ("", []),
    ],
)
def test_a_test_has_changed_with_what_it_uses(changed: str, tests: list[str]) -> None:
    assert shake.tests_at(MODULE, {line(changed)}) == tests


def test_all_tests_of_a_new_file() -> None:
    every = ["test_by_fixture", "test_by_helper", "test_by_itself", "TestMany"]
    assert shake.tests_at(MODULE, set(range(1, MODULE.count("\n") + 1))) == every


def test_lines_that_a_diff_changes() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@ def test():\n-a\n+b\n@@ -4,0 +5,3 @@\n+c\n+d\n+e\n@@ -9,2 +12,0 @@\n-f\n-g\n"
    assert shake.changed_lines(diff) == {1, 5, 6, 7, 12, 13}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch off main: one test changed, one added and committed, one not yet known to git."""
    (tmp_path / "tests").mkdir()
    module, helper = tmp_path / "tests" / "test_module.py", tmp_path / "tests" / "helper.py"
    module.write_text(MODULE)
    helper.write_text("def test_not(): ...\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "branch")
    module.write_text(MODULE.replace("assert helper(1)", "assert helper(2)"))
    (tmp_path / "tests" / "test_added.py").write_text("def test_added():\n    assert True\n")
    commit(tmp_path)
    helper.write_text("def test_not(): ...\n\n\n")
    (tmp_path / "tests" / "test_unknown.py").write_text("def test_unknown():\n    assert True\n")
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=root, check=True)


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=some")


CHANGED = ["tests/test_added.py::test_added", "tests/test_module.py::test_by_helper"]


def test_what_a_branch_adds_or_changes(repository: Path) -> None:
    assert list(shake.changed_tests(repository, shake.base(repository))) == [
        *CHANGED,
        "tests/test_unknown.py::test_unknown",
    ]


def test_what_main_does_meanwhile_is_not_of_the_branch(repository: Path) -> None:
    git(repository, "stash", "--quiet", "--include-untracked")
    git(repository, "checkout", "--quiet", "main")
    (repository / "tests" / "test_main.py").write_text("def test_main():\n    assert True\n")
    commit(repository)
    git(repository, "checkout", "--quiet", "branch")
    assert list(shake.changed_tests(repository, shake.base(repository))) == CHANGED


def test_without_a_main_branch_the_base_has_to_be_said(repository: Path) -> None:
    git(repository, "branch", "--quiet", "--move", "main", "trunk")
    with pytest.raises(SystemExit, match="say --base COMMIT"):
        shake.base(repository)
    assert list(shake.changed_tests(repository, "trunk"))[:2] == CHANGED


@pytest.mark.slow
def test_failures_are_counted(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A test fails in the third of four runs, so the exit status is 1; a test named as an argument is repeated too."""
    monkeypatch.chdir(repository)
    (repository / "tests" / "test_unknown.py").write_text(
        "import pathlib\n\n\ndef test_unknown():\n"
        "    with pathlib.Path('runs').open('a+') as runs:\n        runs.write('x')\n"
        "        runs.seek(0)\n        assert runs.read() != 'xxx', 'the third'\n"
    )
    named = "tests/test_module.py::test_by_itself"
    assert shake.main(["--times", "4", named]) == 1
    said = capfd.readouterr().out
    assert "failed 1 of 4 times: tests.test_unknown::test_unknown\n1 unsteady" in said
    assert "AssertionError: the third" in said and f"\n  {named}\n" in said
    assert shake.main(["--times", "1"]) == 0
    assert "passed 1 times" in capfd.readouterr().out


@pytest.mark.slow
def test_a_run_that_cannot_be_has_failed(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    assert shake.main(["--times", "1", "tests/test_nowhere.py"]) == 1
    assert "failed 1 of 1 times: the run" in capfd.readouterr().out


def runs(pid: int) -> bool:
    """Whether a process is still running; a zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_busy_processes_end() -> None:
    """Busy processes end with the `with` block, and with the process that started them if that is killed."""
    with shake.busy(2) as spinning:
        assert [each.poll() for each in spinning] == [None, None]
    assert None not in [each.poll() for each in spinning]
    program = (
        "from tests import shake\nwith shake.busy(2) as spinning:\n"
        "    print(*[each.pid for each in spinning], flush=True)\n    spinning[0].wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        assert all(map(runs, pids))
        starter.kill()
    wait_for(lambda: not any(map(runs, pids)))

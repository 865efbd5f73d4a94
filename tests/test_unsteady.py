"""Runs of pytest with `--unsteady`: the choice of failed tests to run again, and the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unsteady import MOST, TIMES, name_of

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[1]

FAILS_ONCE = """
def {name}():
    counted = pathlib.Path("{name}.txt")
    times = int(counted.read_text()) if counted.exists() else 0
    counted.write_text(str(times + 1))
    assert times != {fails_at}, "the first failure of {name}"
"""


def fails_once(name: str, fails_at: int = 0) -> str:
    """Return a test that fails in its first run, or after `fails_at` runs."""
    return FAILS_ONCE.format(name=name, fails_at=fails_at)


PLUGINS = "-p xdist.plugin -p pytest_timeout -p _hypothesis_pytestplugin -p tests.unsteady"
WORKERS = ["-n2", "--dist", "loadgroup"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # Loading the plugins of all other installed packages would cost more than the tests do.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Run(pytester)


class Run:
    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeini(f"[pytest]\nmarkers = slow\naddopts = -m 'not slow' {PLUGINS}")
        self.args = ["--unsteady"]

    def __call__(self, *sources: str, at: str = "tests/test_some.py") -> pytest.RunResult:
        path = self.pytester.path / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import pathlib, pytest\n" + "\n".join(sources))
        return self.pytester.runpytest_subprocess(*self.args, at)

    def times(self, name: str) -> int:
        """Return how often a test made by `fails_once` was run."""
        return int((self.pytester.path / f"{name}.txt").read_text())


GOOD = "def test_good():\n    pass\n"
BAD = "def test_bad():\n    assert False, 'always'\n"


@pytest.mark.parametrize("workers", [WORKERS, pytest.param([], marks=pytest.mark.slow)])
def test_what_fails_once_is_unsteady(run: Run, workers: list[str]) -> None:
    run.args += workers
    result = run(GOOD, fails_once("test_once"))
    assert result.ret == 0
    assert "unsteady: tests/test_some.py::test_once" in result.outlines
    result.stdout.fnmatch_lines(["*the first failure of test_once*"])
    assert result.parseoutcomes() == {"passed": 1, "unsteady": 1}
    assert run.times("test_once") == 1 + TIMES


@pytest.mark.slow
def test_without_the_option_it_fails(run: Run) -> None:
    run.args = []
    result = run(GOOD, fails_once("test_once"))
    assert (result.ret, result.parseoutcomes()) == (1, {"passed": 1, "failed": 1})
    assert run.times("test_once") == 1


def test_what_always_fails_is_a_failure(run: Run) -> None:
    result = run(GOOD, BAD)
    assert (result.ret, result.parseoutcomes()) == (1, {"passed": 1, "failed": 1})
    result.stdout.fnmatch_lines(["failed again: tests/test_some.py::test_bad"])


@pytest.mark.parametrize("fails_at", [1, pytest.param(TIMES, marks=pytest.mark.slow)])
def test_one_failure_when_run_again_is_enough(run: Run, fails_at: int) -> None:
    """Two tests fail: one never again, the other once more."""
    twice = fails_once("test_twice", fails_at).replace(f"!= {fails_at}", f"not in (0, {fails_at})")
    result = run(fails_once("test_once"), twice)
    assert (result.ret, result.parseoutcomes()) == (1, {"failed": 2})
    assert run.times("test_twice") == 1 + fails_at


@pytest.mark.parametrize("count", [MOST, MOST + 1])
def test_so_many_may_fail(run: Run, count: int) -> None:
    names = [f"test_{number}" for number in range(count)]
    result = run(*map(fails_once, names))
    few = count <= MOST
    assert (result.ret, result.parseoutcomes()) == ((0, {"unsteady": count}) if few else (1, {"failed": count}))
    assert [run.times(name) for name in names] == [1 + TIMES if few else 1] * count


@pytest.mark.slow
def test_a_property_test_is_not_run_again(run: Run) -> None:
    given = "from hypothesis import given, strategies, settings\n@settings(database=None)\n@given(strategies.just(1))"
    body = fails_once("test_property").replace("()", "(one)", 1).strip()
    result = run(GOOD, fails_once("test_once"), f"{given}\n{body}")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["not run again: tests/test_some.py::test_property (property test)"])
    assert run.times("test_once") == 1


@pytest.mark.slow
def test_a_model_is_not_run_again(run: Run) -> None:
    result = run(
        "from hypothesis.stateful import RuleBasedStateMachine, rule",
        "class Machine(RuleBasedStateMachine):\n    @rule()\n    def step(self):\n        assert False",
        "TestMachine = Machine.TestCase",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["not run again: *TestMachine::runTest (property test)"])


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "kind"), [("simulator",) * 2, ("faults", "fault"), ("differential",) * 2])
def test_what_looks_for_rare_faults_is_not_run_again(run: Run, folder: str, kind: str) -> None:
    result = run(fails_once("test_once"), at=f"tests/{folder}/test_some.py")
    assert (result.ret, run.times("test_once")) == (1, 1)
    result.stdout.fnmatch_lines([f"not run again: tests/{folder}/test_some.py::test_once ({kind} test)"])
    assert (ROOT / "tests" / folder).is_dir()


@pytest.mark.slow
def test_a_crash_is_not_run_again(run: Run) -> None:
    run.args += WORKERS
    result = run("def test_crash():\n    import os\n    os._exit(1)\n")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["not run again: tests/test_some.py::test_crash (its worker crashed)"])


@pytest.mark.slow
def test_what_runs_into_its_timeout_every_time_fails(run: Run) -> None:
    hangs = "@pytest.mark.timeout(0.1)\ndef test_hangs():\n    import threading\n    threading.Event().wait()\n"
    result = run(hangs)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["failed again: tests/test_some.py::test_hangs"])


@pytest.mark.slow
def test_what_could_not_be_collected_fails_the_run(run: Run) -> None:
    (run.pytester.path / "tests").mkdir()
    (run.pytester.path / "tests" / "test_broken.py").write_text("import nothing_of_that_name\n")
    run.args += ["--continue-on-collection-errors", "tests/test_broken.py"]
    result = run(fails_once("test_once"))
    assert result.ret != 0 and run.times("test_once") == 1


@pytest.mark.slow
def test_a_run_that_was_ended_early_has_failed(run: Run) -> None:
    """Tests that were never run did not pass."""
    run.args += ["--maxfail=1"]
    result = run(fails_once("test_once"), BAD)
    assert (result.ret, run.times("test_once")) == (1, 1)


@pytest.mark.slow
def test_failures_of_fixtures_and_skips(run: Run) -> None:
    """A test counts once, however many of its parts fail; a test skipped when run again did not pass."""
    result = run(
        f"@pytest.fixture\n{fails_once('around').strip().replace('assert', 'yield; assert')}",
        "def test_around(around):\n    assert pathlib.Path('around.txt').read_text() != '1'\n",
    )
    assert (result.ret, result.parseoutcomes()) == (0, {"unsteady": 1})
    result = run(f"{fails_once('test_skips').rstrip()}\n    pytest.skip('not now')\n")
    assert (result.ret, result.parseoutcomes()) == (1, {"failed": 1})


@pytest.mark.slow
def test_names_are_taken_as_they_are(run: Run) -> None:
    """A test is found by name despite parameters, a marker that is deselected and a group of workers."""
    once = fails_once("test_once").strip().replace("()", "(text)", 1)
    marks = "@pytest.mark.slow\n@pytest.mark.xdist_group('some')\n@pytest.mark.parametrize('text', ['a@b ::[c'])"
    run.args += [*WORKERS, "-m", "slow"]
    result = run(f"{marks}\n{once}")
    assert (result.ret, result.parseoutcomes()) == (0, {"unsteady": 1})
    assert "unsteady: tests/test_some.py::test_once[a@b ::[c]" in result.outlines


def test_the_name_without_its_group() -> None:
    assert name_of("tests/a.py::test[x@y]@spark") == "tests/a.py::test[x@y]"
    assert name_of("tests/a.py::test[x@y]") == "tests/a.py::test[x@y]"
    assert name_of("tests/a@b.py::test") == "tests/a@b.py::test"
    assert name_of("tests/a.py::test@spark") == "tests/a.py::test"

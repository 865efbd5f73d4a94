"""A pytest plugin: `--unsteady` distinguishes a test that failed once from one that keeps failing.

If at most `MOST` tests fail, each is run again `TIMES` times after all others have ended, alone in a process of its
own. A test that passes every time is printed as `unsteady: NAME` with its first failure; if all do, the run counts as
passed. Everything else stays failed. Not run again at all are

- tests that look for rare failures: property tests, the simulator, faults, and differential tests;
- tests during which a worker crashed;
- runs in which something could not be collected, or that were interrupted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from _pytest.terminal import TerminalReporter

MOST = 3
TIMES = 3
SECONDS = 900
"""Seconds that one test may take when run alone, setup and teardown included. Its own timeout is much shorter."""

NEVER = {
    "tests/simulator/": "simulator test",
    "tests/faults/": "fault test",
    "tests/differential/": "differential test",
}
PROPERTY = "hypothesis"
"""The marker that Hypothesis gives to property tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --unsteady."""
    parser.addoption(
        "--unsteady",
        action="store_true",
        help=f"run up to {MOST} failed tests again, {TIMES} times each, and let pass those that pass every time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in the process that the user started."""
    if config.getoption("--unsteady") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Unsteady(config), "unsteady tests")


class Unsteady:
    """The failures of a run, in the process that the user started.

    `failed` has the first report of each failed test, by name; `unsteady` those of tests that passed when run again.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failed: dict[str, pytest.TestReport] = {}
        self.not_collected = False
        self.unsteady: dict[str, pytest.TestReport] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record whether something could not be collected."""
        self.not_collected |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test's first failure."""
        if report.failed:
            self.failed.setdefault(name_of(report.nodeid), report)

    # Last, when workers have ended; the terminal's own hook, which prints the summary, resumes after all others.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Run the failed tests again; the run has passed if they all pass every time."""
        ended_early = session.shouldfail or session.shouldstop
        if exitstatus != pytest.ExitCode.TESTS_FAILED or ended_early or self.not_collected or not self.failed:
            return
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(terminal, TerminalReporter)
        terminal.line("")
        if not self.may_run_again(terminal):
            return
        for name in self.failed:
            if failure := first_failure(self.config.rootpath, name):
                terminal.write_line(f"failed again: {name}\n{failure}")
                return
            terminal.write_line(f"passed {TIMES} times when run again: {name}")
        self.unsteady = self.failed
        reclassify(terminal, self.unsteady.values())
        session.exitstatus = pytest.ExitCode.OK

    def may_run_again(self, terminal: TerminalReporter) -> bool:
        """Whether the failed tests are few enough, and all of a kind that is run again; print why not."""
        if len(self.failed) > MOST:
            terminal.write_line(f"{len(self.failed)} tests failed, none is run again: that is done for up to {MOST}")
            return False
        reasons = {name: reason for name, report in self.failed.items() if (reason := why_not(report))}
        for name, reason in reasons.items():
            terminal.write_line(f"not run again: {name} ({reason})")
        return not reasons

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the unsteady tests with their failures."""
        if self.unsteady:
            terminalreporter.write_sep("=", "UNSTEADY")
        for name, report in self.unsteady.items():
            terminalreporter.write_line(f"unsteady: {name}", yellow=True)
            report.toterminal(terminalreporter._tw)


def why_not(report: pytest.TestReport) -> str:
    """Return the reason why a failed test is not run again; "" if it may be."""
    if PROPERTY in report.keywords:
        return "property test"
    for folder, kind in NEVER.items():
        if report.nodeid.startswith(folder):
            return kind
    if report.when not in ("setup", "call", "teardown"):
        return "its worker crashed"
    return ""


def name_of(nodeid: str) -> str:
    """Return a test's name as the command line takes it, without the group that pytest-xdist appends."""
    at = nodeid.rfind("@")
    return nodeid[:at] if at > nodeid.rfind("]") and at > nodeid.rfind("::") else nodeid


def first_failure(root: Path, name: str) -> str:
    """Run a test alone until it fails, at most `TIMES` times; return the output, or "" if it never fails."""
    for _ in range(TIMES):
        if failure := failure_of(root, name):
            return failure
    return ""


def failure_of(root: Path, name: str) -> str:
    """Run a test alone; return "" if it, and nothing else, ran and passed, otherwise the output."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        # The test was selected already, so its markers do not matter.
        asked = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "", f"--junit-xml={results}", name]
        try:
            done = subprocess.run(
                asked, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as late:
            return f"{(late.stdout or b'').decode(errors='replace')}\nnot ended after {SECONDS} s"
        if done.returncode == 0 and outcomes(results) == ["passed"]:
            return ""
        return done.stdout.decode(errors="replace") or f"exit status {done.returncode}"


def outcomes(results: Path) -> list[str]:
    """Return the outcome of each test in a JUnit results file: passed, failure, error or skipped."""
    cases = ElementTree.parse(results).iter("testcase")
    return [
        next((each.tag for each in case if each.tag in ("failure", "error", "skipped")), "passed") for case in cases
    ]


def reclassify(terminal: TerminalReporter, unsteady: Iterable[pytest.TestReport]) -> None:
    """Have the summary count tests as unsteady, by the first report of each; no other has failed."""
    for category in ("failed", "error"):
        terminal.stats.pop(category, None)
    terminal.stats["unsteady"] = list(unsteady)
    terminal._set_main_color()

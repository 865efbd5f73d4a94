"""Repeat the tests that a branch adds or changes, with every core busy, to find unsteady ones before a commit.

make shake                                        # against the branch point from origin/main, or main make shake
BASE=HEAD~3 TIMES=100 make shake TESTS='tests/acceptor/gates/test_deadline_queue.py
tests/shard/turns/test_room.py::test_a_queue'   # these as well

A test counts as changed if one of its lines is, or a line of a function, fixture or constant of its file that it uses.
Changes to other files are not followed: name the tests that rely on them.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

TIMES = 30
BASES = ("origin/main", "main")
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)

SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))\n"
"""A program that keeps a core busy as long as its parent, whose pid is the argument, is running."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Repeat the changed tests; return 1 if one has failed."""
    options = parsed(arguments)
    root = Path.cwd()
    tests = dict.fromkeys(changed_tests(root, options.base or base(root))) | dict.fromkeys(options.tests)
    if not tests:
        print("no test was added or changed")
        return 0
    print(f"{options.times} times, with {os.cpu_count()} busy processes beside:", *tests, sep="\n  ")
    with busy(os.cpu_count() or 1):
        failed = repeated(root, list(tests), options.times)
    for name, times in failed.most_common():
        print(f"failed {times} of {options.times} times: {name}")
    print(f"{len(failed)} unsteady" if failed else f"passed {options.times} times")
    return 1 if failed else 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make shake", description="repeat changed tests on busy cores")
    parser.add_argument("tests", nargs="*", help="further tests, as pytest takes them")
    parser.add_argument("--base", help=f"the commit to compare with; by default where the branch left {BASES[0]}")
    parser.add_argument("--times", type=int, default=TIMES)
    return parser.parse_args(arguments)


# Which tests


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command."""
    done = subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def base(root: Path) -> str:
    """Return the commit where this branch left the main one."""
    known = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes").split()
    name = next((name for name in BASES if name in known), None)
    if name is None:
        raise SystemExit(f"neither {' nor '.join(BASES)} is known here: say --base COMMIT (make shake BASE=COMMIT)")
    return git(root, "merge-base", name, "HEAD").strip()


def changed_tests(root: Path, since: str) -> Iterator[str]:
    """Yield the tests that were added or changed since a commit, committed or not."""
    named = git(root, "diff", "--name-only", "--diff-filter=d", since, "--", "tests").splitlines()
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", "tests").splitlines()
    for path in sorted({*named, *new}):
        if not re.fullmatch(r"test_\w+\.py", Path(path).name):
            continue
        text = (root / path).read_text()
        diff = "" if path in new else git(root, "diff", "--unified=0", since, "--", path)
        lines = set(range(1, text.count("\n") + 2)) if path in new else changed_lines(diff)
        for name in tests_at(text, lines):
            yield f"{path}::{name}"


def changed_lines(diff: str) -> set[int]:
    """Return the current numbers of added or changed lines, and of the lines around removed ones."""
    found: set[int] = set()
    for first, count in HUNK.findall(diff):
        start, size = int(first), int(count or 1)
        found.update(range(start, start + size) if size else (start, start + 1))
    return found


def tests_at(text: str, lines: set[int]) -> list[str]:
    """Return the names of the tests in a module's text that depend on any of these lines."""
    body = ast.parse(text).body
    touched = {name for node in body if lines & lines_of(node) for name in defined(node)}
    uses = {name: used(node) for node in body for name in defined(node)}
    while more := {name for name, names in uses.items() if names & touched} - touched:
        touched |= more
    return [name for node in body if is_test(node) for name in defined(node) if name in touched]


def lines_of(node: ast.stmt) -> set[int]:
    """Return the line numbers of a statement, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    first = min((each.lineno for each in decorators), default=node.lineno)
    return set(range(first, (node.end_lineno or node.lineno) + 1))


def defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines; imports define none that matter."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def used(node: ast.stmt) -> set[str]:
    """Return the names that a statement reads, and the names of its parameters, which are fixtures."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}


def is_test(node: ast.stmt) -> bool:
    """Whether pytest collects a statement; a state machine of Hypothesis is a class made by assignment."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test_")
    if isinstance(node, ast.ClassDef | ast.Assign):
        return any(name.startswith("Test") for name in defined(node))
    return False


# Repeating them


@contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `count` processes that only keep a core busy. They end with this process, however it ends."""
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        spinning += (subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) for _ in range(count))
        yield spinning
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def repeated(root: Path, tests: list[str], times: int) -> Counter[str]:
    """Run the tests `times` times; return how often each failed. Print the first failure of each."""
    failed: Counter[str] = Counter()
    for number in range(1, times + 1):
        output, names = once(root, tests)
        if names - failed.keys():
            print(output)
        failed.update(names)
        print(f"{number}: {'failed: ' + ', '.join(sorted(names)) if names else 'passed'}", flush=True)
    return failed


def once(root: Path, tests: list[str]) -> tuple[str, set[str]]:
    """Run the tests once; return the output and the names of failed tests, or "the run" if pytest could not run."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        asked = [sys.executable, "-m", "pytest", "-q", "-n0", f"--junit-xml={results}", *tests]
        done = subprocess.run(asked, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "", set()
        output = done.stdout.decode(errors="replace")
        if done.returncode != pytest.ExitCode.TESTS_FAILED:
            return output, {"the run"}
        cases = ElementTree.parse(results).iter("testcase")
        return output, {
            f"{case.get('classname')}::{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        }


if __name__ == "__main__":
    sys.exit(main())

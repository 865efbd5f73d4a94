"""The tour of the code (docs/code-tour.md) names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "code-tour.md").read_text()
STEP = re.compile(r"`([\w/]+\.py)`\s+·\s+`([\w.]+)`")
PATH = re.compile(r"`((?:acceptor|shard|router|penstock|ops|tests)/[\w/]*(?:\.pyx?)?)`")
STEPS = STEP.findall(TOUR)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def names_of(path: Path) -> set[str]:
    """The functions, classes and methods (`Class.method`) that a module defines."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, FUNCTIONS)}
    return found


def test_each_of_the_seven_walks_has_steps() -> None:
    walks = re.split(r"^## \d\. ", TOUR, flags=re.MULTILINE)[1:]
    assert len(walks) == 7
    assert all(len(STEP.findall(walk)) >= 5 for walk in walks)


@pytest.mark.parametrize(("path", "name"), sorted(set(STEPS)))
def test_a_step_names_a_function_of_a_file(path: str, name: str) -> None:
    assert name in names_of(ROOT / path)


@pytest.mark.parametrize("path", sorted(set(PATH.findall(TOUR))))
def test_a_path_exists(path: str) -> None:
    assert (ROOT / path).exists()

"""The list of suites, and of the tests that are left out: names, reasons and patterns."""

from __future__ import annotations

import re

from tests.conformance.suites import LeftOut, load


def test_every_test_left_out_is_named_once_and_has_a_reason() -> None:
    for suite in load():
        named = [test for entry in suite.left_out for test in entry.tests]
        assert len(named) == len(set(named)), suite.name
        assert all(entry.tests and len(entry.reason.split()) > 2 for entry in suite.left_out), suite.name


def test_an_id_names_the_test_with_all_its_parameters_and_no_other() -> None:
    (pattern,) = LeftOut(("tests/a.py::test_b",), "a reason of words").patterns()
    assert re.fullmatch(pattern, "tests/a.py::test_b")
    assert re.fullmatch(pattern, "tests/a.py::test_b[one-two]")
    assert not re.fullmatch(pattern, "tests/a.py::test_bc")


def test_a_star_stands_for_anything() -> None:
    (pattern,) = LeftOut(("tests/a.py::*[tls*]",), "a reason of words").patterns()
    assert re.fullmatch(pattern, "tests/a.py::test_b[tls-1]")
    assert not re.fullmatch(pattern, "tests/a.py::test_b[plain]")

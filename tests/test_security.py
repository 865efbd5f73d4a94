"""The threat model: the tests that it names are there."""

from __future__ import annotations

import re

from tests.twins import ROOT

MODEL = (ROOT / "SECURITY.md").read_text()


def test_each_threat_has_a_defence_and_a_test_that_is_there() -> None:
    threats = MODEL.partition("| threat |")[2].partition("\n\n")[0].splitlines()[2:]
    assert threats
    for row in threats:
        threat, defence, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert threat and defence
        paths = re.findall(r"`(tests/[^`]*)`", tests)
        assert paths, threat
        sources = [path for each in paths for path in [ROOT / each, *(ROOT / each).glob("*.py")]]
        assert all((ROOT / each).exists() for each in paths), threat
        text = "".join(path.read_text() for path in sources if path.is_file())
        for name in re.findall(r"`(test_\w+)`", tests):
            assert f"def {name}(" in text, name

"""The error that commands report: one line to their user, and status 2."""

from __future__ import annotations

import sys

import pytest

from pipeline.__main__ import main


def test_it_is_one_line_and_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pipeline", "report", "--telemetry", "/t"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "pipeline: no output given: use --html FILE, --json FILE or both\n")

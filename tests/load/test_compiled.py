"""Programs in C: compiled once, and when their sources change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from load import compiled


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled, "DIRECTORY", tmp_path)
    monkeypatch.setattr(compiled, "BUILD", tmp_path / "build")
    return tmp_path


def test_a_program_is_compiled_again_once_a_header_has_changed(directory: Path) -> None:
    header = directory / "answer.h"
    header.write_text("#define ANSWER 0")
    (directory / "program.c").write_text('#include "answer.h"\nint main(void) { return ANSWER; }')
    first = compiled.compiled("program", header.name).stat().st_mtime_ns
    assert compiled.compiled("program", header.name).stat().st_mtime_ns == first
    os.utime(header, ns=(first + 10**9, first + 10**9))
    assert compiled.compiled("program", header.name).stat().st_mtime_ns != first


def test_what_does_not_compile_says_why(directory: Path) -> None:
    (directory / "program.c").write_text("int main(void) { return nothing; }")
    with pytest.raises(OSError, match=r"^program\.c does not compile: .*error: .*nothing[^\n]*$"):
        compiled.compiled("program")

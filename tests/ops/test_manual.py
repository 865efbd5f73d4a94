"""The manual pages: complete, and understood by groff without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ops.cli import COMMANDS
from ops.manual import main, pages
from penstock.settings import Settings
from penstock.settings.sources import known_keys

FOUND = pages()


def shown(name: str) -> str:
    """Return a page as a terminal shows it. The test is skipped if groff is not installed."""
    program = shutil.which("groff")
    if program is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [program, "-K", "utf8", "-ww", "-man", "-T", "utf8", "-P", "-c"], input=FOUND[name], capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def test_every_command_has_a_part() -> None:
    text = shown("penstock.1")
    titles = {line.strip() for line in text.splitlines()}
    assert all(any(title.startswith(f"penstock {each.name}") for title in titles) for each in COMMANDS)
    assert "penstock queue move VHOST QUEUE SHARD" in titles


def test_texts_keep_their_hyphens_and_examples_their_line() -> None:
    text = shown("penstock.1")
    assert "penstock serve --data /var/lib/penstock --set flow.max_count=100000\n" in text
    assert "`" not in text.replace("`penstock", "")


def test_every_setting_is_named() -> None:
    text = shown("penstock.toml.5")
    lines = [line.strip() for line in text.splitlines()]
    for key in known_keys(Settings):
        name = key.rpartition(".")[2]
        assert any(line == name or line.startswith(f"{name} ") for line in lines), key
    assert "[rebalance.automatic]" in lines and "[listeners.NAME]" in lines
    assert "TCP port AMQP is served on; 0 takes a free one. Default: 5672" in " ".join(text.split())


def test_no_text_becomes_a_request(tmp_path: Path) -> None:
    main(tmp_path / "man")
    assert {path.name for path in (tmp_path / "man").iterdir()} == {*FOUND}
    requests = {line.split()[0] for text in FOUND.values() for line in text.splitlines() if line[:1] in (".", "'")}
    assert requests <= {".TH", ".nh", ".SH", ".SS", ".TP", ".PP", ".IP", ".EX", ".EE", ".B"}

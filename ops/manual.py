"""Writes the manual pages, penstock(1) and penstock.toml(5), from the command line's own definitions and the settings.

Pages are in the language of man(7): a line that begins with a point is a request, a backslash begins an escape.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel

from ops.cli import app
from ops.deferred import Placeholder
from ops.reference import default_of, range_of
from penstock import __version__
from penstock.settings import Settings
from penstock.settings.sources import model_of, named_model_of

CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
STRONG = re.compile(r"\*\*([^*]+)\*\*")
EXAMPLE = "Example: "

SUMMARY = """\
An AMQP 0-9-1 broker whose reason to exist is producer flow control. When consumers fall behind it stops exactly the
producers that feed the full queue, says which ones, why and for how much longer, and lets them go as soon as there is
room. Clients of RabbitMQ connect as they are.

The commands below are for the node that runs on a data directory: \\fB--data\\fR \\fIDIR\\fR, or the one in a
configuration file, \\fB--config\\fR \\fIFILE\\fR, before the command or after it. Those that only read do so in shared
memory.
"""
FILE = """\
A file in TOML, which `penstock serve --config FILE` reads. `penstock init` writes a first one, `penstock config check`
finds mistakes, and `penstock config show` lists all settings with their origins. Sizes are numbers of bytes, or texts
such as `"64 MiB"`.
"""
STATUS = (
    ("0", "done"),
    ("1", "what a command was to find out is not so, as its text says: no node runs, a check has failed"),
    ("2", "refused or failed; the reason is one line on standard error"),
    ("130", "ended by Ctrl-C"),
)
ENVIRONMENT = (
    ("PENSTOCK_DATA", "the data directory"),
    ("PENSTOCK_\\fIKEY\\fP", "any setting, in capitals, with two underscores for a dot: PENSTOCK_FLOW__MAX_COUNT"),
    ("NO_COLOR", "print without colors"),
)


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"penstock.1": "\n".join(_command_page()) + "\n", "penstock.toml.5": "\n".join(_settings_page()) + "\n"}


def main(directory: Path) -> None:
    """Write the pages into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)


# penstock(1)


def _command_page() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    context = root.make_context("penstock", [], resilient_parsing=True)
    yield from _heading("PENSTOCK", 1)
    yield from (".SH NAME", r"penstock \- AMQP 0\-9\-1 broker with producer flow control")
    yield from (".SH SYNOPSIS", r".B penstock", r"[\-\-config \fIFILE\fR] [\-\-data \fIDIR\fR] \fICOMMAND\fR ...")
    yield from (".SH DESCRIPTION", *_paragraphs(SUMMARY, marked=False))
    yield from (".SH OPTIONS", *_parameters(root, context))
    yield ".SH COMMANDS"
    for name, command in root.commands.items():
        yield from _command(command.load() if isinstance(command, Placeholder) else command, name, context)
    yield from (".SH EXIT STATUS", *_terms(STATUS))
    yield from (".SH ENVIRONMENT", *_terms(ENVIRONMENT))
    yield from (".SH SEE ALSO", r"\fBpenstock.toml\fR(5)")


def _command(command: Any, path: str, above: Any) -> Iterator[str]:
    """Yield a command, and those below it."""
    context = command.make_context(path.rpartition(" ")[2], [], parent=above, resilient_parsing=True)
    usage = " ".join(piece.strip("[]{}") for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    yield f".SS {_escaped(f'penstock {path} {usage}'.rstrip())}"
    yield from _paragraphs(command.help or "")
    yield from _parameters(command, context)
    for name, below in getattr(command, "commands", {}).items():
        yield from _command(below, f"{path} {name}", context)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            yield from (".TP", rf"\fB{_escaped(record[0])}\fR", *_paragraphs(record[1], ".IP"))


# penstock.toml(5)


def _settings_page() -> Iterator[str]:
    yield from _heading("PENSTOCK.TOML", 5)
    yield from (".SH NAME", r"penstock.toml \- settings of a penstock node")
    yield from (".SH DESCRIPTION", *_paragraphs(FILE))
    yield from (".SH SETTINGS", *_settings(Settings))
    yield from _sections(Settings, "")
    yield from (".SH SEE ALSO", r"\fBpenstock\fR(1)")


def _sections(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section, named = model_of(field), named_model_of(field)
        below = section or named
        if below is not None:
            yield f".SH [{_escaped(prefix + name)}{'.NAME' if named else ''}]"
            yield from _paragraphs(below.__doc__ or "")
            yield from _settings(below)
            yield from _sections(below, f"{prefix}{name}.")


def _settings(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if model_of(field) is None and named_model_of(field) is None:
            bounds = range_of(field)
            text = f"{field.description}. Default: {default_of(field)}" + (f"; {bounds}." if bounds else ".")
            yield from (".TP", rf"\fB{_escaped(name)}\fR", *_paragraphs(text, ".IP"))


# The language of man(7)


def _heading(title: str, section: int) -> Iterator[str]:
    yield f'.TH {title} {section} "" "penstock {__version__}" "penstock"'
    yield ".nh"


def _terms(terms: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, meaning in terms:
        yield from (".TP", rf"\fB{term}\fR", _escaped(meaning))


def _paragraphs(text: str, between: str = ".PP", *, marked: bool = True) -> Iterator[str]:
    """Yield the lines of a text, with a request `between` its paragraphs. Examples stay on a line of their own. Unless
    the text is not `marked`, Markdown becomes fonts.
    """
    for number, paragraph in enumerate(each for each in text.split("\n\n") if each.strip()):
        words = " ".join(paragraph.split())
        if number:
            yield between
        if words.startswith(EXAMPLE):
            yield from (".EX", _escaped(words.removeprefix(EXAMPLE)), ".EE")
        else:
            yield _marked(words) if marked else words.replace("--", r"\-\-")


def _marked(text: str) -> str:
    plain = _escaped(LINK.sub(r"\1", text))
    return STRONG.sub(r"\\fB\1\\fR", CODE.sub(r"\\fB\1\\fR", plain))


def _escaped(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    main(Path(sys.argv[1]))

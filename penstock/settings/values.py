"""The types of settings, with the notations a user may write them in."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from penstock.settings.machine import half_the_cores, usable_memory
from penstock.text import amounts

MEMORY_SHARE = 0.4
KIB = 1024
MIB = 1024 * KIB


def _parse_bytes(value: object) -> object:
    """Parse a size such as "64 MiB"; a number is bytes, and -1 no limit where a limit is optional."""
    if not isinstance(value, str):
        return value
    return amounts.NO_LIMIT if value.strip() == str(amounts.NO_LIMIT) else amounts.size(value)


def parse_names(value: object) -> object:
    """Parse names such as "one,two"."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


def _parse_durability(value: object) -> object:
    """Parse a durability, with an interval such as "interval=50 ms"."""
    if not isinstance(value, str):
        return value
    text = value.lower().replace(" ", "").removesuffix("ms")
    if text not in ("commit", "none") and not re.fullmatch(r"interval=[1-9]\d{0,5}", text):
        raise ValueError("is none of commit, interval=N ms, none")
    return text


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError("a name has 1 to 64 letters, digits, hyphens and underscores")
    return name


def lower(value: object) -> object:
    """Return a text in lower case; any other value as it is."""
    return value.lower() if isinstance(value, str) else value


SIZE = BeforeValidator(_parse_bytes)
"""Marks a setting as a number of bytes."""

Bytes = Annotated[int, SIZE]
ProcessCount = Annotated[int, AfterValidator(lambda count: count or half_the_cores())]
ProcessMemory = Annotated[Bytes, AfterValidator(lambda limit: limit or usable_memory())]
MemoryLimit = Annotated[Bytes, AfterValidator(lambda limit: limit or int(usable_memory() * MEMORY_SHARE))]
Names = Annotated[tuple[str, ...], BeforeValidator(parse_names)]
Durability = Annotated[str, BeforeValidator(_parse_durability)]
Directory = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
FilePath = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
FilePaths = Annotated[tuple[FilePath, ...], BeforeValidator(parse_names)]
Name = Annotated[str, AfterValidator(_check_name)]
GoalName = Literal["load", "held", "bytes", "queues"]
Goals = Annotated[tuple[GoalName, ...], BeforeValidator(parse_names)]
Network = IPv4Network | IPv6Network
Networks = Annotated[tuple[Network, ...], BeforeValidator(parse_names)]
Mode = Annotated[Literal["off", "dry-run", "on"], BeforeValidator(lower)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower)]

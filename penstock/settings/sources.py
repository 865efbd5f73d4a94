"""Where settings come from: a file, the environment, the command line; each as a tree of keys, checked and merged.

Precedence is written here and nowhere else (`read_configuration`): defaults, then the TOML file, then the environment
(`PENSTOCK_PORT`, `PENSTOCK_FLOW__MAX_COUNT`), then flags and `--set KEY=VALUE`; the later wins. The supervisor and the
command line load settings; the other processes get theirs resolved, and do without what reads them.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as SourceError

from penstock.settings import Settings

ENV_PREFIX = "PENSTOCK_"
ENV_NESTED = "__"

Tree: TypeAlias = dict[str, Any]


FOREIGN = {
    "default-queue-limit": "flow.max_bytes",
    "default-flow-stop-threshold": "flow.stop_percent",
    "default-flow-resume-threshold": "flow.resume_percent",
    "systemUsage.memoryUsage": "memory_limit",
    "systemUsage.storeUsage": "store.limit",
    "systemUsage.tempUsage": "store.spill_limit",
}
"""Settings of Qpid C++ and ActiveMQ, and what they are called here."""


class SettingsError(ValueError):
    """A setting that cannot be used; the text is one line for who wrote it, naming the key and its origin."""


class Sourced(Settings, BaseSettings):
    """What the sources of pydantic-settings are asked for; each text is taken apart by the type of its setting."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTED, enable_decoding=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the sources say: all settings, and where each that was given comes from, by dotted key."""

    settings: Settings
    origins: Mapping[str, str]


def load_settings(
    config: Path | None = None, flags: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
) -> Settings:
    """The settings of a configuration (`read_configuration`)."""
    return read_configuration(config, flags, assignments).settings


def read_configuration(
    config: Path | None = None, flags: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
) -> Configuration:
    """Read every source.

    `config` is a TOML file; `flags` maps top-level names to values, None being a flag that was not given;
    `assignments` are "dotted.key=value" texts. SettingsError says what is wrong with which of them.
    """
    layers = [("in the environment", environment())]
    if config is not None:
        layers.insert(0, (f"in {config}", toml(config)))
    layers.append(("on the command line", {key: value for key, value in (flags or {}).items() if value is not None}))
    layers.extend(("by --set", assignment(text)) for text in assignments)
    merged: Tree = {}
    origins: dict[str, str] = {}
    for origin, foreign_layer in layers:
        layer = in_own_names(foreign_layer, FOREIGN, origin)
        for key in leaves(Settings, layer):
            check_known(Settings, key, origin)
            origins[key] = origin
        merge(merged, layer)
    try:
        return Configuration(Settings(**merged), origins)
    except ValidationError as error:
        raise SettingsError(first_complaint(error, origins)) from None


def model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section; None if the field is a setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted key of every setting, in the order of the model."""
    for name, field in model.model_fields.items():
        section = model_of(field)
        if section:
            yield from known_keys(section, f"{prefix}{name}.")
        else:
            yield prefix + name


def _sections(model: type[BaseModel]) -> set[str]:
    return {key.rpartition(".")[0] for key in known_keys(model)} - {""}


def leaves(model: type[BaseModel], tree: Tree, prefix: str = "") -> Iterator[str]:
    """Dotted keys of a tree; only a section of the model is looked into, so that its name is no key itself."""
    for name, value in tree.items():
        key = prefix + name
        if key in _sections(model) and isinstance(value, dict):
            yield from leaves(model, value, f"{key}.")
        else:
            yield key


def check_known(model: type[BaseModel], key: str, origin: str) -> None:
    """SettingsError if there is no such setting, naming the nearest one."""
    known = list(known_keys(model))
    if key in known:
        return
    if key in _sections(model):
        raise SettingsError(f"{key!r} is a section, not a setting ({origin}); its settings are {key}.…")
    raise SettingsError(f"unknown setting {key!r} {origin}{_suggestion(key, known)}")


def _suggestion(key: str, known: list[str]) -> str:
    """The nearest known key; a last part that is right in another section counts before likeness of letters."""
    last = key.rpartition(".")[2].replace("-", "_")
    nearest = [name for name in known if name.rpartition(".")[2] == last]
    nearest = nearest or difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    if not nearest:
        ends = {name.rpartition(".")[2]: name for name in known}
        nearest = [ends[end] for end in difflib.get_close_matches(last.lower(), ends, n=1, cutoff=0.0)]
    return f"; did you mean {nearest[0]!r}?"


def in_own_names(tree: Tree, foreign: Mapping[str, str], origin: str) -> Tree:
    """The tree with settings of other brokers, by dotted key, called as they are here.

    SettingsError if it has one under both names.
    """
    own: Tree = {}
    merge(own, _copied(tree))
    for name, key in foreign.items():
        value = _taken(own, name.split("."))
        if value is None:
            continue
        if key in _dotted(own):
            raise SettingsError(f"{name!r} and {key!r} are the same setting ({origin})")
        merge(own, _nested(key, value))
    return own


def _copied(tree: Tree) -> Tree:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in tree.items()}


def _taken(tree: Tree, path: list[str]) -> Any:
    """What was at a path of the tree, None if nothing was; sections that it leaves empty go as well."""
    first, *rest = path
    if first not in tree or (rest and not isinstance(tree[first], dict)):
        return None
    if not rest:
        return tree.pop(first)
    value = _taken(tree[first], rest)
    if value is not None and not tree[first]:
        del tree[first]
    return value


def _dotted(tree: Tree, prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def _nested(key: str, value: Any) -> Tree:
    """{"flow": {"max_count": 5}} of "flow.max_count" and 5."""
    tree: Any = value
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def environment() -> Tree:
    """What variables say. SettingsError if one of ours names no setting."""
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            key = name[len(ENV_PREFIX) :].lower().replace(ENV_NESTED, ".")
            if key not in _sections(Settings):
                check_known(Settings, key, f"in the environment ({name})")
    try:
        return EnvSettingsSource(Sourced)()
    except SourceError as error:
        raise SettingsError(f"the environment cannot be read: {error}") from None


def toml(config: Path) -> Tree:
    """What a file says. SettingsError if it cannot be read."""
    if not config.is_file():  # the source below takes a missing file for an empty one
        raise SettingsError(f"cannot read {config}: {'not a file' if config.exists() else 'no such file'}")
    try:
        return TomlConfigSettingsSource(Sourced, toml_file=config)()
    except OSError as error:
        raise SettingsError(f"cannot read {config}: {error.strerror}") from None
    except ValueError as error:  # of TOML or of UTF-8
        raise SettingsError(f"cannot read {config}: {' '.join(str(error).split())}") from None


def assignment(text: str) -> Tree:
    """{"flow": {"max_count": "5"}} of "flow.max_count=5". SettingsError if it is no assignment."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set wants KEY=VALUE, not {text!r}")
    return _nested(key.strip(), value.strip())


def merge(into: Tree, layer: Tree) -> None:
    """Lay one tree over another, section by section."""
    for key, value in layer.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def first_complaint(error: ValidationError, origins: Mapping[str, str]) -> str:
    """One line on the first thing that is wrong: the key, why, and where that value comes from."""
    complaint = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in complaint["loc"])
    text = complaint["msg"].removeprefix("Value error, ")
    if key in origins:
        return f"{key}: {text}, got {complaint['input']!r} ({origins[key]})"
    return f"{key}: {text}"

"""Sources of settings: a file, the environment, the command line; each as a tree of keys, checked and merged.

Precedence is defined here and nowhere else (`read_configuration`): defaults, then the TOML file, then the environment
(`PENSTOCK_PORT`, `PENSTOCK_FLOW__MAX_COUNT`), then flags and `--set KEY=VALUE`; the later wins. Only the supervisor and
the command line load settings; the other processes receive them resolved, and need not import this module's
dependencies.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as SourceError

from penstock.settings.errors import SettingsError
from penstock.settings.model import Settings

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
"""Settings of Qpid C++ and ActiveMQ, with their names here."""


class Sourced(Settings, BaseSettings):
    """The model that the sources of pydantic-settings read; each setting's own type parses its text."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTED, enable_decoding=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings, and the origin of each that was given, by dotted key."""

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
    `assignments` are "dotted.key=value" texts. SettingsError names the wrong one and the reason.
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
        raise SettingsError(first_error(error, origins)) from None


def model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section; None if the field is a setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def named_model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of each section of a field that has sections by names which users choose; None if it has none."""
    kind = field.annotation
    model = get_args(kind)[-1] if get_origin(kind) is dict else None
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _named(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {name: named for name, field in model.model_fields.items() if (named := named_model_of(field))}


def known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted key of every setting, in the order of the model, except those in sections that users name."""
    for name, field in model.model_fields.items():
        section = model_of(field)
        if section:
            yield from known_keys(section, f"{prefix}{name}.")
        elif named_model_of(field) is None:
            yield prefix + name


def _sections(model: type[BaseModel]) -> set[str]:
    return {key.rpartition(".")[0] for key in known_keys(model)} - {""} | _named(model).keys()


def leaves(model: type[BaseModel], tree: Tree, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a tree; only a section of the model is descended into, so that its name is no key
    itself.
    """
    for name, value in tree.items():
        key = prefix + name
        in_section = key in _sections(model) or key.rpartition(".")[0] in _named(model)
        if in_section and isinstance(value, dict):
            yield from leaves(model, value, f"{key}.")
        else:
            yield key


def check_known(model: type[BaseModel], key: str, origin: str) -> None:
    """Raise SettingsError, naming the nearest setting, if there is no such setting."""
    known = list(_keys_beside(model, key))
    if key in known:
        return
    if key in _sections(model) or key.rpartition(".")[0] in _named(model):
        raise SettingsError(f"{key!r} is a section, not a setting ({origin}); its settings are {key}.…")
    raise SettingsError(f"unknown setting {key!r} {origin}{_suggestion(key, known)}")


def _keys_beside(model: type[BaseModel], key: str) -> Iterator[str]:
    """Yield the keys that there are; for one in a section that a user names, those of the same section."""
    section, _, _ = key.rpartition(".")
    named = _named(model).get(section.partition(".")[0]) if "." in section else None
    if named is None:
        yield from known_keys(model)
    else:
        yield from (f"{section}.{name}" for name in named.model_fields)


def _suggestion(key: str, known: list[str]) -> str:
    """The nearest known key; an exact last part in another section counts before similar spelling."""
    last = key.rpartition(".")[2].replace("-", "_")
    nearest = [name for name in known if name.rpartition(".")[2] == last]
    nearest = nearest or difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    if not nearest:
        ends = {name.rpartition(".")[2]: name for name in known}
        nearest = [ends[end] for end in difflib.get_close_matches(last.lower(), ends, n=1, cutoff=0.0)]
    return f"; did you mean {nearest[0]!r}?"


def in_own_names(tree: Tree, foreign: Mapping[str, str], origin: str) -> Tree:
    """Rename other brokers' settings in a tree, by dotted key, to the names used here.

    SettingsError if the tree has a setting under both names.
    """
    own: Tree = {}
    merge(own, _copied(tree))
    for name, key in foreign.items():
        value = _pop_path(own, name.split("."))
        if value is None:
            continue
        if key in _dotted(own):
            raise SettingsError(f"{name!r} and {key!r} are the same setting ({origin})")
        merge(own, _nested(key, value))
    return own


def _copied(tree: Tree) -> Tree:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in tree.items()}


def _pop_path(tree: Tree, path: list[str]) -> Any:
    """Remove and return the value at a path of the tree, None if there is none; sections left empty are removed too."""
    first, *rest = path
    if first not in tree or (rest and not isinstance(tree[first], dict)):
        return None
    if not rest:
        return tree.pop(first)
    value = _pop_path(tree[first], rest)
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
    """The settings in environment variables. SettingsError if a variable with our prefix names no setting."""
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
    """The settings in a TOML file. SettingsError if it cannot be read."""
    if not config.is_file():  # the source below treats a missing file as an empty one
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
    """Merge one tree into another, section by section."""
    for key, value in layer.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def first_error(error: ValidationError, origins: Mapping[str, str]) -> str:
    """One line on the first invalid setting: its key, the reason, and the origin of the value. Values in sections that
    users name are not quoted: an address may have a password.
    """
    complaint = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in complaint["loc"])
    text = complaint["msg"].removeprefix("Value error, ")
    if not key:  # of settings that do not fit together
        return str(text)
    if str(complaint["loc"][0]) in _named(Settings):
        origin = next((each for given, each in origins.items() if f"{given}.".startswith(f"{key}.")), "")
        return f"{key}: {text} ({origin})" if origin else f"{key}: {text}"
    if key in origins:
        return f"{key}: {text}, got {complaint['input']!r} ({origins[key]})"
    return f"{key}: {text}"

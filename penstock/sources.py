"""Where settings come from: a file, the environment, the command line; each as a tree of keys, checked and merged."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource
from pydantic_settings import SettingsError as SourceError

ENV_PREFIX = "PENSTOCK_"
ENV_NESTED = "__"

Tree: TypeAlias = dict[str, Any]


class SettingsError(ValueError):
    """A setting that cannot be used; the text is one line for who wrote it, naming the key and its origin."""


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


def environment(model: type[BaseSettings]) -> Tree:
    """What variables say. SettingsError if one of ours names no setting."""
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            key = name[len(ENV_PREFIX) :].lower().replace(ENV_NESTED, ".")
            if key not in _sections(model):
                check_known(model, key, f"in the environment ({name})")
    try:
        return EnvSettingsSource(model)()
    except SourceError as error:
        raise SettingsError(f"the environment cannot be read: {error}") from None


def toml(model: type[BaseSettings], config: Path) -> Tree:
    """What a file says. SettingsError if it cannot be read."""
    if not config.is_file():  # the source below takes a missing file for an empty one
        raise SettingsError(f"cannot read {config}: {'not a file' if config.exists() else 'no such file'}")
    try:
        return TomlConfigSettingsSource(model, toml_file=config)()
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

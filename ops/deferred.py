"""Commands that are imported when they are called. Help and completion need no more than their names and summaries, and
importing all of them would take longer than most answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Any, ClassVar, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

MARKUP: Final = "markdown"
"""The markup of help texts."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A command, or a group of commands. Its help is `summary`, followed by the docstring of a command, or of a
    group that is one by itself; `target` is
    where it is: "module:name" of a function or of a `typer.Typer`.
    """

    name: str
    summary: str
    target: str


class Placeholder(TyperGroup):
    """Takes the place of a command in help and completion."""

    def __init__(self, deferred: Deferred) -> None:
        super().__init__(name=deferred.name, help=deferred.summary)
        self.deferred = deferred

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command."""
        name, summary = self.deferred.name, self.deferred.summary
        module, _, attribute = self.deferred.target.partition(":")
        target = getattr(import_module(module), attribute)
        holder = typer.Typer(rich_markup_mode=MARKUP, pretty_exceptions_enable=False)
        if isinstance(target, typer.Typer):
            holder.add_typer(target, name=name, help=summary)
        else:
            holder.command(name)(target)
        command: Any = typer.main.get_group(holder).commands[name]
        said = command.help
        if isinstance(target, typer.Typer):
            alone = target.registered_callback if command.invoke_without_command else None
            said = cleandoc((alone and alone.callback and alone.callback.__doc__) or "")
        command.help = "\n\n".join(filter(None, (summary, said)))
        return command  # type: ignore[no-any-return]


class DeferredGroup(TyperGroup):
    """A group that has the `deferred` commands, in this order."""

    deferred: ClassVar[tuple[Deferred, ...]] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {each.name: Placeholder(each) for each in self.deferred} | dict(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that is called, the command, and the other words."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Placeholder) else command, rest

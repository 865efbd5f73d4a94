"""Two nodes, of which the first runs relays to the second."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from tests.broker import Broker
from tests.ports import free_port
from tests.waiting import wait_for


def section(name: str, **values: object) -> str:
    """A relay in TOML."""
    return f"[relays.{name}]\n" + "".join(f"{key} = {orjson.dumps(value).decode()}\n" for key, value in values.items())


def address(broker: Broker) -> str:
    return f"amqp://{broker.address.host}:{broker.address.port}"


class Relaying:
    """A node whose configuration has relays."""

    def __init__(self, directory: Path, *sections: str) -> None:
        directory.mkdir()
        self.file = directory / "penstock.toml"
        self.configure(*sections)
        options = ("--port", str(free_port()), "--config", str(self.file))
        self.broker = Broker(directory, options=options)

    def configure(self, *sections: str) -> None:
        self.file.write_text("".join(sections))

    def reload(self, *sections: str) -> None:
        self.configure(*sections)
        self.broker.process.send_signal(signal.SIGHUP)

    def relays(self) -> dict[str, dict[str, Any]]:
        """The facts of all relays by name; none while their process does not answer."""
        done = self.broker.penstock("relay", "list", "--json")
        return {each["name"]: each for each in orjson.loads(done.stdout)} if done.returncode == 0 else {}

    def wait_state(self, name: str, *states: str) -> dict[str, Any]:
        """Wait for a relay to be in one of the states; return its facts."""

        def found() -> dict[str, Any]:
            facts = self.relays().get(name, {})
            return facts if facts.get("state") in states else {}

        return wait_for(found, what=f"relay {name} {' or '.join(states)}")


def target_node(directory: Path) -> Broker:
    """A node that has the same port after a restart."""
    directory.mkdir()
    return Broker(directory, options=("--port", str(free_port())))


@contextmanager
def relaying(directory: Path, *sections: str) -> Iterator[Relaying]:
    """A node with relays, until the end of the context."""
    node = Relaying(directory, *sections)
    with node.broker:
        yield node

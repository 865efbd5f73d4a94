"""How routing time grows with the bindings of an exchange, and whether the costliest publishes slow down other clients.

    python -m load.matching

For each kind of bindings, in growing numbers, a broker is started and a client publishes in batches with keys or
headers that are new to the broker, and then the same batches once more; printed are microseconds a publish. With the
most bindings a client then publishes batch after batch while a good client makes 100 round trips a second (publish,
confirm, get). Printed is the 99th percentile of those round trips in milliseconds: alone, beside batches that are all
the same and cost no matching, and beside new ones.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from load.frames import QUEUE_BIND, QUEUE_DECLARE, QUEUE_DECLARE_OK, publish
from load.node import LocalNode
from load.probe import prepare
from load.publisher import Publisher
from load.target import Target
from load.wire import Method, Wire, method_frame, short_string, table

EXCHANGE_DECLARE: Method = (40, 10)
EXCHANGE_DECLARE_OK: Method = (40, 11)

SIZES = [250, 1000, 4000]
PUBLISHES = 300
PAUSE = 0.05
RATE = 100
WORDS = 120
LETTERS = "abcdefgh"
HEADERS = 24
SINK = "sink"
EXCHANGE = "bound"
NO_WAIT = b"\1"

Address = tuple[str, bytes]
"""A routing key and a table of headers; empty for none."""


class Kind(NamedTuple):
    """An exchange type, the keys and header tables of its bindings, and the publishes that cost most.

    The number of a publish is the last part of its key or headers, so no two are alike.
    """

    type: str
    bindings: Callable[[int], Iterator[Address]]
    publish: Callable[[int, random.Random], Address]


def plain_patterns(count: int) -> Iterator[Address]:
    """Topic patterns like those of real programs."""
    return ((f"region{number % 100}.*.kind{number}.#", b"") for number in range(count))


def plain_keys(number: int, generator: random.Random) -> Address:
    """A key that matches one of `plain_patterns`."""
    kind = generator.randrange(SIZES[-1])
    return f"region{kind % 100}.host.kind{kind}.{number}", b""


def hashes(count: int) -> Iterator[Address]:
    """Patterns with a `#` between all words, so that a key may match all of their positions simultaneously."""
    every = itertools.product(LETTERS, repeat=5)
    return ((f"#.{'.#.'.join(words)}.#.z", b"") for words in itertools.islice(every, count))


def long_keys(number: int, generator: random.Random) -> Address:
    """A long key of few different words."""
    return ".".join([*generator.choices(LETTERS[:4], k=WORDS - 1), str(number)]), b""


def one_of_its_own(count: int) -> Iterator[Address]:
    """Bindings to three headers, two of which are common to all bindings."""
    return (("", table({"x-match": "all", "k": str(number), "l": "v", "m": "w"})) for number in range(count))


def all_of_these(number: int, generator: random.Random) -> Address:
    """The headers of one binding of `one_of_its_own`."""
    return "", table({"k": str(generator.randrange(SIZES[-1])), "l": "v", "m": "w", "number": str(number)})


def subsets(count: int) -> Iterator[Address]:
    """Bindings to random halves of the same headers, and to one that no publish has."""
    generator = random.Random(1)
    for _ in range(count):
        names = generator.sample(range(HEADERS), HEADERS // 2)
        yield "", table({"x-match": "all", "never": "", **{f"h{name}": "v" for name in names}})


def nearly_all(number: int, generator: random.Random) -> Address:
    """All but two of the headers of `subsets`."""
    missing = generator.sample(range(HEADERS), 2)
    values = {f"h{name}": "v" for name in range(HEADERS) if name not in missing}
    return "", table({**values, "number": str(number)})


KINDS = {
    "topic": Kind("topic", plain_patterns, plain_keys),
    "hashes": Kind("topic", hashes, long_keys),
    "headers": Kind("headers", one_of_its_own, all_of_these),
    "subsets": Kind("headers", subsets, nearly_all),
}


def bind(target: Target, kind: Kind, count: int) -> None:
    """Declare an exchange with `count` bindings to one queue, which drops most messages."""
    prepare(target, SINK, {"x-max-length": 10})
    wire = Wire(target, timeout=120.0)
    exchange = b"\0\0" + short_string(EXCHANGE)
    wire.call(EXCHANGE_DECLARE, exchange + short_string(kind.type) + b"\0" + table({}), EXCHANGE_DECLARE_OK)
    for key, arguments in kind.bindings(count):
        head = b"\0\0" + short_string(SINK) + short_string(EXCHANGE) + short_string(key)
        wire.socket.sendall(method_frame(1, QUEUE_BIND, head + NO_WAIT + (arguments or table({}))))
    passive = b"\0\0" + short_string(SINK) + b"\1" + table({})
    wire.call(QUEUE_DECLARE, passive, QUEUE_DECLARE_OK)
    wire.close()


def batch(publisher: Publisher, addresses: list[Address]) -> float:
    """Publish once to each address; return the seconds a publish took."""
    data = b"".join(publish(key, b"x", exchange=EXCHANGE, headers=headers) for key, headers in addresses)
    return publisher.batch(data, len(addresses)) / len(addresses)


def growth(target: Target, kind: Kind) -> tuple[float, float]:
    """Return the microseconds of a new publish, and of one published before."""
    publisher, generator = Publisher(target), random.Random(2)
    addresses = [kind.publish(number, generator) for number in range(PUBLISHES)]
    found = batch(publisher, addresses), batch(publisher, addresses)
    publisher.wire.close()
    return found[0] * 1e6, found[1] * 1e6


def attack(target: Target, name: str, new: bool) -> None:
    """Publish batch after batch until the process is killed."""
    publisher = Publisher(target)
    for first in itertools.count(step=PUBLISHES):
        generator = random.Random(first if new else 0)
        begin = first if new else 0
        batch(publisher, [KINDS[name].publish(begin + number, generator) for number in range(PUBLISHES)])
        time.sleep(PAUSE)


def good(target: Target, seconds: float) -> float:
    """Run the good client; return the 99th percentile of its round trips in milliseconds."""
    arguments = [f"amqp://{target}", "good", str(RATE), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "load.good_client", *arguments], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return float(found["percentile_99"]) * 1000


def good_beside_attack(target: Target, name: str, new: bool, seconds: float) -> float:
    """Return the good client's percentile while an attacker publishes."""
    process = multiprocessing.get_context("spawn").Process(target=attack, args=(target, name, new), daemon=True)
    process.start()
    try:
        return good(target, seconds)
    finally:
        process.kill()
        process.join()


def describe_good_client(target: Target, name: str, seconds: float) -> str:
    """Describe how the good client fares."""
    alone = good(target, seconds)
    known, new = (good_beside_attack(target, name, kind, seconds) for kind in (False, True))
    return f"; good client's p99 {alone:.1f} ms alone, {known:.1f} beside known, {new:.1f} beside new publishes"


def main(
    kinds: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(KINDS)}; default: all")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="length of each run of the good client")] = 8.0,
) -> None:
    """Measure routing over growing numbers of bindings, and a good client beside it."""
    unknown = [name for name in kinds or () if name not in KINDS]
    if unknown:
        raise typer.BadParameter(f"no kind {', '.join(unknown)}")
    for name in kinds or KINDS:
        for size in SIZES:
            options = "--acceptors", "1", "--shards", "1"
            with (
                tempfile.TemporaryDirectory(prefix="matching-") as directory,
                LocalNode(Path(directory), *options) as node,
            ):
                bind(node.target, KINDS[name], size)
                new, again = growth(node.target, KINDS[name])
                witness = describe_good_client(node.target, name, seconds) if size == SIZES[-1] else ""
            print(f"{name}, {size} bindings: {new:.0f} µs a new publish, {again:.0f} µs repeated{witness}", flush=True)


if __name__ == "__main__":
    typer.run(main)

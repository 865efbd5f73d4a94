"""Writes the pages of `docs/` that are generated from code, in whole or between markers. `make docs` runs it; a test
compares the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import getdoc
from pathlib import Path

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from console.metrics.family import Family
from ops import life_cycles
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operations
from penstock.settings import Settings
from penstock.settings.sources import model_of, named_model_of
from penstock.settings.values import KIB, MIB, SIZE
from penstock.telemetry.schema import COMMON, TABLES, VERSION, Column

DOCS = Path(__file__).resolve().parents[1] / "docs"

INTRODUCTION = """\
<!-- Made by `make docs` from penstock/settings/: change it there. -->

# Configuration

Settings come from four places; later ones win:

1. the defaults below,
2. a TOML file, `--config FILE`,
3. the environment: `PENSTOCK_` and the key in capitals, with two underscores for a dot,
4. flags of `penstock serve`, then `--set KEY=VALUE` in the order given.

```toml
# penstock.toml              in the environment                    as a flag
port = 5672                  # PENSTOCK_PORT=5672                  --port 5672
[flow]
max_count = 100000           # PENSTOCK_FLOW__MAX_COUNT=100000     --set flow.max_count=100000
```

An unknown key is refused in all of them, and the nearest known key is named. `penstock config show` lists all settings
with their origins; `penstock config check` finds the first mistake. Sizes are numbers of bytes or texts such as
`"64 MiB"`. Settings are read at start; on SIGHUP they are
[read again](operations.md#reading-the-configuration-again), and `log_level`, `relays` and the settings below
`rebalance.automatic` change. The others stay as they are until the node stops.
"""


TABLES_INTRODUCTION = f"""\
<!-- Made by `make docs` from penstock/telemetry/schema.py: change it there. -->

# Tables of telemetry

Version {VERSION}. Each row is a JSON object with all columns of its table. A new column is added at the end and
may be null; if the meaning of one changes, the version does. Types are those of Spark; a `bigint` has 64 bits. [How
they are written](telemetry.md).

## Every table
"""


def configuration_page() -> str:
    """Return the page of the settings."""
    parts = [INTRODUCTION, "## Node\n", _table(Settings, "")]
    for name, model in _sections(Settings):
        parts += [f"## `{name}`\n", f"{getdoc(model)}\n", _table(model, f"{name}.")]
    for name, field in Settings.model_fields.items():
        if named := named_model_of(field):
            parts += [f"## `{name}`\n", f"{getdoc(named)}\n", _table(named, f"{name}.NAME.")]
    return "\n".join(parts)


ANSWERS_INTRODUCTION = """\
<!-- Made by `make docs` from pipeline/jobs/: change it there. -->

# Answers of the pipeline

The answers of [the jobs](pipeline.md), as `penstock pipeline report` shows them: column by column, with units. Each is
made by a function in a module of its own in `pipeline/jobs/`.
"""


def telemetry_page() -> str:
    """Return the page of the telemetry tables."""
    parts = [TABLES_INTRODUCTION, _columns(COMMON)]
    for table in TABLES.values():
        parts += [f"## `{table.name}`\n", f"{table.meaning}\n", _columns(table.columns[len(COMMON) :])]
    return "\n".join(parts)


def answers_page() -> str:
    """Return the page of the answers of the pipeline's jobs."""
    from pipeline import answers  # not at the top: it imports Spark

    parts = [ANSWERS_INTRODUCTION]
    for table in answers.TABLES:
        parts += [f"## `{table.name}`\n", f"{table.meaning}\n", _columns(table.columns)]
    return "\n".join(parts)


BUS_INTRODUCTION = """\
<!-- Made by `make docs` from penstock/bus/: change it there. -->

# Operations on the bus

Acceptors and shards send each other [turns](architecture.md#the-turn), which are lists of operations. On the wire an
operation is a msgpack list of its number and its fields, in this order. Numbers of operations to shards and to
acceptors are apart.
"""


def bus_page() -> str:
    """Return the page of the operations between acceptors and shards."""
    parts = [BUS_INTRODUCTION]
    for title, operations in ("## To a shard\n", to_shard.OPERATIONS), ("## To an acceptor\n", to_acceptor.OPERATIONS):
        parts += [title, _operations(operations)]
    return "\n".join(parts)


def _operations(operations: Operations) -> str:
    rows = ["| number | operation | fields | meaning |", "| --- | --- | --- | --- |"]
    for number, kind in operations:
        fields = ", ".join(f"`{field}`" for field in kind.__annotations__)
        rows.append(f"| {number} | {kind.__name__} | {fields} | {' '.join((kind.__doc__ or '').split())} |")
    return "\n".join(rows) + "\n"


METRICS_INTRODUCTION = """\
<!-- Made by `make docs` from console/metrics/: change it there. -->

# Metrics

`penstock metrics` prints the metrics of a node in Prometheus' text format, with `--openmetrics` as OpenMetrics, and
with `--per-queue` those of each queue too. It reads shared memory only, so it works while the node's processes are
busy, stuck or dead. A node serves them over [HTTP](http.md#metrics) as well: `/metrics`, and `/metrics/per-object` for
each queue too, on port 15692 without a login. [This configuration](../ops/prometheus/prometheus.yml) of Prometheus
scrapes them. Where HTTP is off, the textfile collector of `node_exporter` publishes what a timer writes.

```sh
penstock --data /var/lib/penstock metrics > /var/lib/node_exporter/penstock.prom.new
mv /var/lib/node_exporter/penstock.prom.new /var/lib/node_exporter/penstock.prom
```

Names that begin with `rabbitmq_` are those of RabbitMQ's exporter, where they mean the same. Counters of a process
begin anew when it is restarted, as Prometheus expects of counters; those of a queue go along when it moves.

[Alert rules](../ops/prometheus/alerts.yaml) for Prometheus and a [dashboard](../ops/prometheus/dashboard.json) for
Grafana use these names. What they say of single queues needs `--per-queue`.
"""


def metrics_page() -> str:
    """Return the page of the metrics."""
    from console.metrics import own, rabbitmq  # not at the top: commands that read no metrics do without

    of_node, of_queues = (*rabbitmq.FAMILIES, *own.FAMILIES), (*rabbitmq.OF_QUEUES, *own.OF_QUEUES)
    return "\n".join(
        [
            METRICS_INTRODUCTION,
            "## Of the node\n",
            _families(of_node),
            "## Of each queue\n\nThose that the node has too take the place of its sums.\n",
            _families(of_queues),
        ]
    )


def _families(families: Iterable[Family]) -> str:
    rows = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |"
        for each in families
    ]
    return "\n".join(rows) + "\n"


def page_with_states(name: str) -> str:
    """Return a page with its tables of states made anew."""
    return life_cycles.filled((DOCS / name).read_text())


def _columns(columns: tuple[Column, ...]) -> str:
    rows = ["| column | type | unit | null | meaning |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| `{column.name}` | {column.type} | {column.unit} | {'yes' if column.nullable else ''} | {column.meaning} |"
        for column in columns
    ]
    return "\n".join(rows) + "\n"


def _sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections of a model by their dotted names, each before those within it."""
    for name, field in model.model_fields.items():
        if (section := model_of(field)) is not None:
            yield prefix + name, section
            yield from _sections(section, f"{prefix}{name}.")


def _table(model: type[BaseModel], prefix: str) -> str:
    rows = ["| key | default | range | meaning |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        if model_of(field) is None and named_model_of(field) is None:
            rows.append(f"| `{prefix}{name}` | {default_of(field)} | {range_of(field)} | {field.description} |")
    return "\n".join(rows) + "\n"


def default_of(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["default_text"])
    return f"`{_amount(field.default, field)}`"


def range_of(field: FieldInfo) -> str:
    bounds = dict(_bounds(field))
    low, high = bounds.get(Ge), bounds.get(Le)
    if Gt in bounds:
        return f"above {bounds[Gt]}" + (f" to {high}" if high else "")
    if low is None:
        return ""
    return f"from {low}" if high is None else f"{low} to {high}"


def _bounds(field: FieldInfo) -> Iterator[tuple[type, str]]:
    for bound in field.metadata:
        if isinstance(bound, Ge):
            yield Ge, _amount(bound.ge, field)
        elif isinstance(bound, Gt):
            yield Gt, _amount(bound.gt, field)
        elif isinstance(bound, Le):
            yield Le, _amount(bound.le, field)


def _amount(value: object, field: FieldInfo) -> str:
    """Format a value as a user would write it: sizes with their unit."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if SIZE in field.metadata and isinstance(value, int) and value and value % unit == 0:
            return f"{value // unit} {name}"
    return str(value)


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "telemetry-tables.md": telemetry_page,
    "pipeline-answers.md": answers_page,
    "metrics.md": metrics_page,
    "bus.md": bus_page,
    **{
        path.name: partial(page_with_states, path.name)
        for path in sorted(DOCS.glob("*.md"))
        if life_cycles.names_in(path.read_text())
    },
}
"""The pages of `docs/` that are generated, or have generated tables, by name."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())

"""Files of rows for a plan, as `penstock pipeline inputs` writes them, and files of plans."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ops.errors import CommandError
from ops.rebalance.plan import Plan, PlanError
from ops.rebalance.rows import QueueRow, RowError, rows_of

FILE_MAX = 512 * 1024 * 1024
"""The largest file that is read, in bytes."""


def read_rows(path: Path, node: str) -> list[QueueRow]:
    """Read rows from a file: a JSON array, an object with such an array as `queues`, JSON lines, or Parquet (a file, or
    a directory of files as Spark writes it). If they are of several nodes, by a column `node`, those of `node` count.
    CommandError if it cannot be read or has anything else.
    """
    try:
        return rows_of(_of_node(list(_records(path)), node))
    except RowError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read {path}: {_reason(error)}") from None


def read_plan(path: Path) -> Plan:
    """Read a plan. CommandError if there is none in the file."""
    try:
        return Plan.from_json(_json(_text(path)))
    except PlanError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read {path}: {_reason(error)}") from None


def plan_text(plan: Plan) -> str:
    """Return the text that `read_plan` reads. Names that are not UTF-8 keep their bytes (PEP 383)."""
    return json.dumps(plan.to_json(), indent=2) + "\n"


def _of_node(records: list[Mapping[str, Any]], node: str) -> list[Mapping[str, Any]]:
    names = {str(record["node"]) for record in records if isinstance(record, Mapping) and "node" in record}
    if len(names) < 2:
        return records
    if node not in names:
        raise RowError(f"its rows are of the nodes {', '.join(sorted(names))}, and none of this one, {node}")
    return [record for record in records if not isinstance(record, Mapping) or record.get("node") == node]


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    parts = _parts(path) if path.is_dir() else [path]
    for part in parts:
        if part.suffix == ".parquet":
            yield from _parquet(part)
        else:
            yield from _of_json(_text(part))


def _parts(directory: Path) -> list[Path]:
    """Return the files that Spark has finished in a directory. OSError if there are none."""
    found = sorted(each for each in directory.rglob("*") if each.is_file() and each.name[0] not in "._")
    if not found:
        raise FileNotFoundError("there are no files in it")
    return found


def _of_json(text: str) -> list[Mapping[str, Any]]:
    if not text.lstrip().startswith("{"):
        whole = _json(text)
    else:
        try:
            whole = [_json(line) for line in text.splitlines() if line.strip()]
        except ValueError:  # one object over several lines
            whole = [_json(text)]
        if len(whole) == 1 and isinstance(whole[0], dict) and "queues" in whole[0]:
            whole = whole[0]["queues"]
    if not isinstance(whole, list):
        raise RowError("neither rows nor an object that has them as `queues`")
    return whole


def _parquet(path: Path) -> list[Mapping[str, Any]]:
    try:
        pyarrow = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise RowError(
            "reading Parquet needs pyarrow, which is not installed: `pip install 'penstock[pipeline]'`"
        ) from None
    rows: list[Mapping[str, Any]] = pyarrow.read_table(path).to_pylist()
    return rows


def _text(path: Path) -> str:
    if path.stat().st_size > FILE_MAX:
        raise RowError(f"more than {FILE_MAX} bytes")
    return path.read_text(encoding="utf-8")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).splitlines()[0]

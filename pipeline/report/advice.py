"""Three sentences for a report: who was held, what to change, what comes next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pipeline.report import causes, commands
from pipeline.report.contents import UNKNOWN, Report, Row
from pipeline.report.formats import figure, length

HOUR_S = 3600
GAIN_LEAST = 0.1
"""Recommended marks have to spare this share of the held time to be the advice."""
ALL = 0.99
"""More than this share of a time is all of it."""
OF_QUEUES = ("count", "bytes")
PRODUCER = ("node", "vhost", "queue", "user", "product")
PLACE = ("node", "vhost", "queue")

MARKS_NOTE = (
    "One policy governs a queue: if another one does (penstock policy explain), put these marks into that one. A limit "
    "that the queue was declared with can only be lowered by a policy."
)
PLAN_NOTE = "It watches the node for five minutes and shows the plan; penstock rebalance apply makes its moves."


@dataclass(frozen=True, slots=True)
class Change:
    """A recommendation: a sentence, a command if there is one to copy, and a note on it."""

    text: str
    command: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The sentences. `change` is None if there is nothing to change, `next` if nothing is foreseen."""

    held: str
    change: Change | None = None
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Worst:
    """The producer held longest: its row of `held`; whether that names a queue; the cause of most of that time; of a
    full queue the known fault for most of it, its share, and the row of `culprits` that has it (None: unknown).
    """

    row: Row
    has_queue: bool
    cause: str
    fault: str
    share: float
    ledger: Row | None

    @property
    def is_of_queue(self) -> bool:
        """Return whether the marks of a single queue held the producer."""
        return self.cause in OF_QUEUES


def advise(report: Report) -> Advice:
    """Return the sentences of a report."""
    if not any(counts["rows"] for counts in report.counts.values()):
        return Advice("Telemetry has no rows of this time, so nothing is known of it.")
    worst, foreseen = _worst(report), _next(report)
    if worst is None:
        change = _without_holds(report)
        quiet = foreseen is None and change is None
        return Advice(
            f"No producer was held{', and no queue grows towards its mark' if quiet else ''}.", change, foreseen
        )
    return Advice(
        _held(report, worst), _change(report, worst), foreseen or "No queue is full, or grows towards its mark."
    )


def _worst(report: Report) -> Worst | None:
    row = next((row for row in report.rows("held") if row["stopped_ms"] > 0), None)
    if row is None:
        return None
    spent: Counter[tuple[bool, str]] = Counter()
    for episode in report.rows("episodes"):
        has_queue = episode["queue"] is not None
        queue = episode["queue"] if has_queue else f"({episode['cause']})"
        if _same(row, {**episode, "queue": queue, "product": episode["product"] or UNKNOWN}, PRODUCER):
            spent[has_queue, episode["cause"]] += episode["stopped_ms"]
    (has_queue, cause), _ = (spent or Counter({_named(row["queue"]): 1})).most_common(1)[0]
    ledger = [each for each in report.rows("culprits") if _same(row, each, PRODUCER)]
    if not ledger:
        return Worst(row, has_queue, cause, "unknown", 1.0, None)
    known = [each for each in ledger if each["fault"] != "unknown"] or ledger
    most, total = max(known, key=lambda each: each["stopped_ms"]), sum(each["stopped_ms"] for each in ledger)
    return Worst(row, has_queue, cause, most["fault"], most["stopped_ms"] / total if total else 1.0, most)


def _named(queue: str) -> tuple[bool, str]:
    """Return whether a name in `held` is that of a queue, and the cause, of which only the name is known."""
    cause = queue[1:-1]
    return (False, cause) if queue == f"({cause})" and cause in causes.LONG else (True, "count")


def _held(report: Report, worst: Worst) -> str:
    row = worst.row
    client = "" if row["product"] == UNKNOWN else f" ({row['product']})"
    kind = "queue" if worst.is_of_queue else "cause"
    total = sum(each["stopped_ms"] for each in report.rows("held"))
    more = "more than " if report.answers["held"].more else ""
    together = f"; all producers together {more}{length(total / 1000)}" if total > row["stopped_ms"] else ""
    held = f"{length(row['stopped_ms'] / 1000)}{_summed(row)}, by {_holder(report, worst)}{_why(worst)}{together}"
    return f"User '{row['user']}'{client} was held longest by one {kind}: {held}."


def _holder(report: Report, worst: Worst) -> str:
    if worst.is_of_queue:
        return _queue(report, worst.row)
    holder = causes.LONG.get(worst.cause, f"the limit '{worst.cause}'")
    place = f", {_queue(report, worst.row)}" if worst.has_queue else _on_node(report, worst.row)
    return f"{holder}{place}"


def _summed(row: Row) -> str:
    summed = ", summed over channels" if row["channels"] > 1 else " on one channel"
    return summed if row["episodes"] == 1 else f"{summed}, at most {length(row['longest_ms'] / 1000)} at a time"


def _why(worst: Worst) -> str:
    if not worst.is_of_queue:
        return ""
    if worst.fault == "unknown":
        return f", {causes.FAULTS['unknown']}"
    why = causes.FAULTS.get(worst.fault, worst.fault)
    ledger = worst.ledger
    if worst.fault == "producers" and ledger and ledger["pusher"] is not None:
        own = ledger["pusher"] == worst.row["user"]
        pusher = "this user" if own else f"user '{ledger['pusher']}'"
        why += f", {ledger['pusher_share']:.0%} of it by {pusher}"
    part = "" if worst.share > ALL else "mostly " if worst.share > 0.5 else f"for {worst.share:.0%} of that time "
    return f", {part}because {why}"


def _change(report: Report, worst: Worst) -> Change:
    if not worst.is_of_queue:
        return _change_of_limit(report, worst)
    row, queue = worst.row, _queue(report, worst.row)
    if worst.fault == "no consumers":
        return Change(f"Start a consumer of {queue}; this lists those that it has.", commands.list_consumers(row))
    if worst.fault == "consumers stuck":
        text = f"Find the consumers of {queue} that hold messages without acking them, and restart those."
        return Change(text, commands.list_consumers(row))
    if worst.fault == "unknown":
        return Change(f"Check what limits {queue}.", commands.explain_limits(row))
    if hot := _hot_home(report, row):
        return _change_of_load(report, hot)
    if (marks := _better_marks(report, row)) and worst.fault == "producers":
        return marks
    return Change(
        f"Start more consumers of {queue}, or make them faster; this lists them.", commands.list_consumers(row)
    )


def _change_of_limit(report: Report, worst: Worst) -> Change:
    row = worst.row
    where = _on_node(report, row)
    if worst.cause == "operator":
        return Change(f"Lift the stop{where} if it has served its purpose.", commands.command("flow stops"))
    if worst.cause == "rebalance":
        text = f"Check the pauses of the moves{where}, and move less at a time."
        return Change(text, commands.command("rebalance history"))
    if worst.cause in ("rate", "pace", "exchange", "pattern", "vhost", "user", "node"):
        return Change(
            f"Raise that limit{where} if the node has room; policies set it.", commands.command("policy list")
        )
    hot = next((each for each in report.rows("hot_shards") if each["hot"] and each["node"] == row["node"]), None)
    if hot:
        return _change_of_load(report, hot)
    text = f"Consume from the deepest queues{where}, or give the node more room; this lists them."
    return Change(text, commands.command("queue list", options={"sort": "ready"}))


def _change_of_load(report: Report, hot: Row) -> Change:
    late = f"{hot['load_to_mean']:.1f} times the mean load" if "load" in (hot["why"] or "") else "a late loop"
    text = f"Move queues off shard {hot['shard']}{_on_node(report, hot)}, which has {late}."
    return Change(text, commands.plan_moves(), PLAN_NOTE)


def _without_holds(report: Report) -> Change | None:
    """Return the change for harm that has held nobody yet."""
    if harmful := next(iter(report.rows("consumers")), None):
        text = f"Look after the consumers of {_queue(report, harmful)}: {harmful['verdict']}."
        return Change(text, commands.list_consumers(harmful))
    hot = next((each for each in report.rows("hot_shards") if each["hot"]), None)
    return _change_of_load(report, hot) if hot else None


def _hot_home(report: Report, row: Row) -> Row | None:
    """Return the hot shard on which a queue lies, if it does."""
    homes = {each["shard"] for each in report.rows("rebalance_inputs") if _same(row, each, PLACE)}
    return next(
        (
            each
            for each in report.rows("hot_shards")
            if each["hot"] and each["node"] == row["node"] and each["shard"] in homes
        ),
        None,
    )


def _better_marks(report: Report, row: Row) -> Change | None:
    """Return the change to the recommended marks, if these would have held the queue's producers for less time."""
    tried = next((each for each in report.rows("what_if") if _same(row, each, PLACE)), None)
    marks = next((each for each in report.rows("marks") if _same(row, each, PLACE)), None)
    if tried is None or marks is None or tried["stopped_ms"] > tried["was_stopped_ms"] * (1 - GAIN_LEAST):
        return None
    would, was = length(tried["stopped_ms"] / 1000), length(tried["was_stopped_ms"] / 1000)
    text = (
        f"Set the marks of {_queue(report, row)} to {marks['stop_count']:,} and {marks['resume_count']:,} messages: "
        f"they would have held its producers for {would} instead of {was}, by a replay"
        f"{' of the last day' if report.is_summarized else ''}."
    )
    return Change(text, commands.set_marks(marks), MARKS_NOTE)


def _next(report: Report) -> str | None:
    """Return the sentence on queues that are full, or soon will be."""
    forecasts = report.rows("time_to_full")
    full = [row for row in forecasts if row["seconds"] == 0]
    soon = [row for row in forecasts if row["seconds"] > 0]
    open_ones = sum(row["open"] for row in report.rows("held"))
    parts = []
    if full:
        others = (
            f" and {len(full) - 1:,} others are" if len(full) > 2 else " and another one are" if full[1:] else " is"
        )
        parts.append(f"{_queue(report, full[0])}{others} full at the end of this time")
    if open_ones:
        parts.append(f"{open_ones:,} {'holds have' if open_ones > 1 else 'hold has'} not ended")
    if soon:
        others = f", and {len(soon) - 1:,} more" if len(soon) > 2 else ", and another one" if soon[1:] else ""
        others += " later" if others else ""
        growth = soon[0]["growth_bytes" if soon[0]["full_by"] == "bytes" else "growth"]
        unit = "bytes" if soon[0]["full_by"] == "bytes" else "messages"
        rate = "" if growth is None else f", as it grows by {figure(growth)} {unit} a second"
        parts.append(f"{_queue(report, soon[0])} will be full in {length(soon[0]['seconds'])}{rate}{others}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else None


def _queue(report: Report, row: Row) -> str:
    vhost = "" if row["vhost"] == "/" else f" in vhost '{row['vhost']}'"
    return f"queue '{row['queue']}'{vhost}{_on_node(report, row)}"


def _on_node(report: Report, row: Row) -> str:
    """Return the node in words, if there are several."""
    return f" on {row['node']}" if len(report.nodes()) > 1 else ""


def _same(row: Row, other: Row, names: tuple[str, ...]) -> bool:
    return all(row[name] == other[name] for name in names)

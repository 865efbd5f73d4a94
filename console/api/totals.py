"""Numbers and counts of messages over many queues: of the node, of a vhost, of the vhosts that a user sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from console.api.counted import message_stats, with_rates
from console.api.samples import Number, Span, Spans, detailed, rate
from console.broker import Broker, Facts
from console.course import Sample
from console.http.caller import Caller
from penstock.memory.gauges import QueueGauge

COUNTS = {"publish": "published", "deliver_get": "delivered", "ack": "acked", "redeliver": "redelivered"}
"""The counts of a queue: RabbitMQ's names, and ours."""

GaugeNumber = Callable[[QueueGauge], int]


def _messages(gauge: QueueGauge) -> int:
    return gauge.ready + gauge.unacked


def _messages_at(sample: Sample) -> int:
    return sample.ready + sample.unacked


LENGTHS: dict[str, tuple[GaugeNumber, Number]] = {
    "messages": (_messages, _messages_at),
    "messages_ready": (attrgetter("ready"), attrgetter("ready")),
    "messages_unacknowledged": (attrgetter("unacked"), attrgetter("unacked")),
}
"""The numbers of messages of a queue: of its gauge, and of a sample."""

COUNTERS: dict[str, tuple[GaugeNumber, Number]] = {
    name: (attrgetter(f"counters.{ours}"), attrgetter(f"counters.{ours}")) for name, ours in COUNTS.items()
}


def of_queue(broker: Broker, gauge: QueueGauge, spans: Spans | None = None) -> Facts:
    """Return the numbers of one queue, with rates, and samples if spans are asked for."""
    sampled = spans is not None and (spans.lengths or spans.counts)
    course = broker.sampler.course(gauge.queue_id).all() if sampled else []

    def each(numbers: dict[str, tuple[GaugeNumber, Number]], span: Span | None) -> Facts:
        found: Facts = {}
        for name, (of_gauge, of_sample) in numbers.items():
            slope = broker.sampler.slope(gauge.queue_id, of_gauge)
            found |= detailed(name, of_gauge(gauge), slope, course, of_sample, span)
        return found

    return {
        **each(LENGTHS, spans.lengths if spans else None),
        "message_stats": each(COUNTERS, spans.counts if spans else None),
    }


def of_queues(broker: Broker, gauges: Sequence[QueueGauge]) -> Facts:
    """Return the sums over some queues, with rates."""

    def each(numbers: dict[str, tuple[GaugeNumber, Number]]) -> Facts:
        found: Facts = {}
        for name, (of_gauge, of_sample) in numbers.items():
            slope = sum(broker.sampler.slope(gauge.queue_id, of_gauge) for gauge in gauges)
            found |= detailed(name, sum(map(of_gauge, gauges)), slope, [], of_sample, None)
        return found

    return {**each(LENGTHS), "message_stats": each(COUNTERS)}


def of_node(broker: Broker, gauges: Sequence[QueueGauge], spans: Spans, sums: Mapping[str, int]) -> Facts:
    """Return the sums over all queues, with rates, and samples if spans are asked for. Messages published, delivered
    and confirmed are those that the acceptors have counted: a message that goes to two queues is published once.
    `sums` are those of the acceptors (`console.api.counted`): from them are the counts that queues do not have.
    """
    node = broker.sampler.node
    course = node.all() if spans.lengths or spans.counts else list(node.fine)
    counters = [broker.gauges.counters_read("acceptor", index) for index in range(broker.gauges.acceptors)]
    counted = {
        "publish": sum(each.published for each in counters),
        "deliver_get": sum(each.delivered for each in counters),
    }
    lengths: Facts = {}
    stats: Facts = {}
    for name, (of_gauge, of_sample) in LENGTHS.items():
        value = sum(map(of_gauge, gauges))
        lengths |= detailed(name, value, rate(course, of_sample), course, of_sample, spans.lengths)
    for name, (of_gauge, of_sample) in COUNTERS.items():
        value = counted[name] if name in counted else sum(map(of_gauge, gauges))
        stats |= detailed(name, value, rate(course, of_sample), course, of_sample, spans.counts)
    further = {name: count for name, count in message_stats(sums).items() if name not in stats}
    further["confirm"] = sum(each.confirmed for each in counters)
    return {**lengths, "message_stats": {**stats, **with_rates(broker, "node", "", further)}}


def seen_by(caller: Caller) -> list[QueueGauge]:
    """Return the last readings of all queues that a user sees."""
    seen = set(caller.vhosts())
    return [gauge for gauge in caller.broker.sampler.latest() if gauge.vhost in seen]

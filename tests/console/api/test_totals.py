"""Numbers, rates and samples of one queue and of many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from console.api.samples import Span, Spans
from console.api.totals import of_node, of_queue, of_queues, seen_by
from console.http.caller import ADMINISTRATOR, MANAGEMENT, Caller
from tests.console.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_queue_made_while_sampling_has_its_rate_at_once(scene: Scene) -> None:
    sampler = scene.broker.sampler
    old = scene.queue("old")
    scene.write(old, ready=100, published=100)
    sampler.wake()
    new = scene.queue("new")
    scene.write(new, ready=3, published=5)
    scene.write(old, ready=90, published=100)
    scene.second()
    before, after = (of_queue(scene.broker, gauge) for gauge in sampler.latest())
    assert before["messages"] == 90 and before["messages_details"] == {"rate": -10.0}
    assert before["message_stats"]["publish_details"] == {"rate": 0.0}
    assert after["messages_details"] == {"rate": 3.0} and after["message_stats"]["publish_details"] == {"rate": 5.0}
    both = of_queues(scene.broker, list(sampler.latest()))
    assert (both["messages"], both["messages_details"]) == (93, {"rate": -7.0})
    assert both["message_stats"]["publish"] == 105


def test_the_node_is_the_sum_of_its_queues_over_time(scene: Scene) -> None:
    sampler = scene.broker.sampler
    sampler.wake()
    slot = scene.queue("q")
    for published in (10, 20, 40):
        scene.write(slot, ready=published - 4, unacked=4, published=published)
        scene.second()
    found = of_node(scene.broker, list(sampler.latest()), Spans(None, None), Counter())
    assert (found["messages"], found["messages_ready"], found["messages_unacknowledged"]) == (40, 36, 4)
    assert found["messages_details"]["rate"] == pytest.approx(40 / 3)
    assert found["message_stats"]["publish_details"]["rate"] == pytest.approx(40 / 3)


def test_samples_come_with_the_spans_that_are_asked_for(scene: Scene) -> None:
    scene.broker.sampler.wake()
    gauge_of = scene.queue("q")
    scene.write(gauge_of, ready=1, published=1)
    scene.second()
    (gauge,) = scene.broker.sampler.latest()
    found = of_queue(scene.broker, gauge, Spans(Span(60, 5), None))
    assert "samples" in found["messages_details"] and "avg_rate" in found["messages_details"]
    assert "samples" not in found["message_stats"]["publish_details"]


def test_a_user_sees_the_queues_of_its_vhosts(scene: Scene) -> None:
    for vhost in ("/", "eu"):
        scene.write(scene.queue("q", vhost), ready=1)
    scene.broker.sampler.wake()
    scene.topology.apply(["permission", "ann", "eu", ".*", ".*", ".*"])
    administrator = Caller(scene.broker, "root", (ADMINISTRATOR,), internal=True, host="")
    ann = Caller(scene.broker, "ann", (MANAGEMENT,), internal=True, host="")
    assert [gauge.vhost for gauge in seen_by(administrator)] == ["/", "eu"]
    assert [gauge.vhost for gauge in seen_by(ann)] == ["eu"]

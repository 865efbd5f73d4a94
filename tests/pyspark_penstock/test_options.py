"""Options as Spark passes them: texts, under names in any case."""

from __future__ import annotations

import pytest

from pyspark_penstock.options import OptionError, ReadOptions, StreamOptions, WriteOptions, parse


def test_texts_become_values_whatever_the_case_of_their_names() -> None:
    options = parse(StreamOptions, {"Queue": "work", "maxRows": "500", "PREFETCH": "2000", "url": "amqp://host/v"})
    assert options == StreamOptions(queue="work", maxrows=500, prefetch=2000, url="amqp://host/v")
    assert parse(WriteOptions, {"routingKey": "k", "mandatory": "False", "timeout": "1.5"}) == WriteOptions(
        routingkey="k", mandatory=False, timeout=1.5
    )


def test_twice_a_batch_may_be_in_hand_unless_more_is_asked_for() -> None:
    assert parse(StreamOptions, {"queue": "work", "maxrows": "700"}).unacked == 1400
    assert parse(StreamOptions, {"queue": "work", "maxrows": "700", "prefetch": "1500"}).unacked == 1500


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (ReadOptions, {"queue": "q", "maxrow": "1"}, "no option 'maxrow' here; did you mean 'maxrows'?"),
        (WriteOptions, {"exchnage": "x"}, "no option 'exchnage' here; did you mean 'exchange'?"),
        (StreamOptions, {"queue": "q", "ack": "end"}, "no option 'ack' here"),
        (StreamOptions, {}, "the option queue is missing"),
        (ReadOptions, {"queue": ""}, "the option queue is missing"),
        (ReadOptions, {"queue": "q", "maxRows": "many"}, "option maxRows must be a whole number, not 'many'"),
        (ReadOptions, {"queue": "q", "maxRows": "0"}, "maxRows must be from 1 to 65535, not 0"),
        (ReadOptions, {"queue": "q", "ack": "all"}, "ack must be none or end, not 'all'"),
        (StreamOptions, {"queue": "q", "maxRows": "40000"}, "maxRows must be from 1 to 32767, not 40000"),
        (StreamOptions, {"queue": "q", "prefetch": "5000"}, "prefetch must be from 20000 to 65535, not 5000"),
        (StreamOptions, {"queue": "q", "leases": "2", "prefetch": "50000"}, "prefetch is for streams without leases"),
        (StreamOptions, {"queue": "q", "leases": "-1"}, "leases must be from 0 to 1000, not -1"),
        (
            StreamOptions,
            {"queue": "q", "leases": "2", "leaseSeconds": "0"},
            "leaseSeconds must be from 1 to 604800, not 0",
        ),
        (WriteOptions, {"mandatory": "perhaps"}, "option mandatory must be a boolean, not 'perhaps'"),
        (WriteOptions, {"window": "0"}, "window must be from 1"),
        (WriteOptions, {"timeout": "-1"}, "timeout must be from 0"),
        (WriteOptions, {"timeout": "nan"}, "timeout must be from 0"),
    ],
)
def test_what_cannot_be_is_said(kind: type[ReadOptions], given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(kind, given)
    assert said in str(refused.value)

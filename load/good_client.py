"""A modest client: `RATE` times a second it publishes to its own queue, waits for the confirm, and gets the message
back. Prints how many round trips succeeded.

    python -m load.good_client URL QUEUE RATE SECONDS
"""

from __future__ import annotations

import json
import sys
import time

import pika

from load.session import connection_parameters
from load.target import Target

BODY = bytes(200)


def run(target: Target, queue: str, rate: float, seconds: float) -> dict[str, float]:
    """Return the round trips `done` of those `wanted`, the `slowest` and the 99th percentile, in seconds. RuntimeError
    if a confirmed message is missing.
    """
    with pika.BlockingConnection(connection_parameters(target, "good", answers_flow=False)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.confirm_delivery()
        begun, took = time.monotonic(), []
        while (now := time.monotonic()) < begun + seconds:
            channel.basic_publish("", queue, BODY)
            method, _, body = channel.basic_get(queue, auto_ack=True)
            if method is None or body != BODY:
                raise RuntimeError("a confirmed message is not there")
            took.append(time.monotonic() - now)
            connection.sleep(max(0.0, begun + len(took) / rate - time.monotonic()))
        took.sort()
        return {
            "wanted": rate * seconds,
            "done": len(took),
            "percentile_99": round(took[len(took) * 99 // 100], 4),
            "slowest": round(took[-1], 4),
        }


if __name__ == "__main__":
    url, queue, rate, seconds = sys.argv[1:]
    print(json.dumps(run(Target.parse(url), queue, float(rate), float(seconds))))

"""The publisher of alerts: to a topic exchange, with confirms. Alerts are rare, so a connection lasts for one lot of
them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pika
from pika.exceptions import AMQPError

from pipeline.alerts.board import Alert
from pipeline.errors import PipelineError, reason

PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Publisher:
    """A broker's `url`, an exchange there, and for how many seconds publishing is retried."""

    url: str
    exchange: str
    patience_s: float = 60.0

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts until all are confirmed. PipelineError if the broker keeps refusing or stays unreachable."""
        if not alerts:
            return None
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return self._publish(alerts)
            except (AMQPError, OSError) as error:
                if time.monotonic() > deadline:
                    raise PipelineError(f"alerts cannot be published: {reason(error)}") from error
                time.sleep(PAUSE_S)

    def check(self) -> None:
        """Raise PipelineError unless the broker is reachable and the exchange can be declared."""
        try:
            self._publish(())
        except (AMQPError, OSError) as error:
            raise PipelineError(f"no alert can be published: {reason(error)}") from error

    def _publish(self, alerts: Sequence[Alert]) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        try:
            channel = connection.channel()
            channel.exchange_declare(self.exchange, "topic", durable=True)
            channel.confirm_delivery()
            for alert in alerts:
                properties = pika.BasicProperties(
                    content_type="application/json", delivery_mode=2, type=alert.kind, timestamp=alert.at // 1_000_000
                )
                channel.basic_publish(self.exchange, alert.routing_key, alert.body(), properties)
        finally:
            if connection.is_open:
                connection.close()

"""The Spark data source `penstock`: queues of an AMQP 0-9-1 broker as streams and tables, its exchanges as sinks.

Spark imports every top-level module whose name begins with `pyspark_` and looks for `DefaultSource` in it, in the
driver and in every process that it starts. So importing this module must neither fail nor connect: pika is imported
only to read.
"""

from pyspark_penstock.source import DefaultSource

__all__ = ["DefaultSource"]

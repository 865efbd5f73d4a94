"""The entry point for Spark: `spark.read`, `readStream`, `write` and `writeStream` with `format("penstock")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from pyspark_penstock.options import OptionError, ReadOptions, StreamOptions, WriteOptions, parse
from pyspark_penstock.schema import SCHEMA, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_penstock.batch import QueueReader
    from pyspark_penstock.sink import ExchangeStreamWriter, ExchangeWriter
    from pyspark_penstock.stream import QueueStreamReader


class DefaultSource(DataSource):
    """The data source. Readers and writers are created in the planner, the driver's helpers and tasks; creating one
    does not connect.

    OptionError or RowError: options or columns that cannot be used. Spark shows the text.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock"

    def schema(self) -> StructType:
        """Return the fixed schema of messages."""
        return SCHEMA

    def reader(self, schema: StructType) -> QueueReader:
        """Return the reader of a bounded read."""
        from pyspark_penstock.batch import QueueReader

        _check_schema(schema)
        return QueueReader(parse(ReadOptions, self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream with leases; without leases raise PySparkNotImplementedError, so that Spark
        uses the simple reader.
        """
        from pyspark_penstock.leased import LeasedStreamReader

        _check_schema(schema)
        options = parse(StreamOptions, self.options)
        return LeasedStreamReader(options) if options.leases else super().streamReader(schema)

    def simpleStreamReader(self, schema: StructType) -> QueueStreamReader:
        """Return the reader of a stream without leases."""
        from pyspark_penstock.stream import QueueStreamReader

        _check_schema(schema)
        return QueueStreamReader(parse(StreamOptions, self.options))

    def writer(self, schema: StructType, overwrite: bool) -> ExchangeWriter:
        """Return the sink of a batch, which can only append."""
        from pyspark_penstock.sink import ExchangeWriter

        if overwrite:
            raise OptionError("messages can only be added: mode('append')")
        check_columns(schema)
        return ExchangeWriter(parse(WriteOptions, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> ExchangeStreamWriter:
        """Return the sink of a stream, which can only append."""
        from pyspark_penstock.sink import ExchangeStreamWriter

        if overwrite:
            raise OptionError("messages can only be added: outputMode('append') or 'update'")
        check_columns(schema)
        return ExchangeStreamWriter(parse(WriteOptions, self.options))


def _check_schema(schema: StructType) -> None:
    if schema.simpleString() != SCHEMA.simpleString():
        raise OptionError("the schema of messages is fixed: leave out .schema(…), and select columns instead")

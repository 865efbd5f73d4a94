"""Rows as properties, and the refusal of impossible columns."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from pyspark_penstock.schema import COLUMNS, SCHEMA, RowError, check_columns, properties_of


@pytest.mark.parametrize("text", ["[1]", "{", '"text"', "5"])
def test_headers_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(RowError, match="headers_json"):
        properties_of({"headers_json": text})


def test_columns_that_no_message_has_are_refused() -> None:
    check_columns(StructType().add("body", StringType()).add("headers", COLUMNS["headers"], nullable=False))
    check_columns(SCHEMA)
    with pytest.raises(RowError, match="need a column body, binary or string"):
        check_columns(StructType().add("body", IntegerType()))
    with pytest.raises(RowError, match="no column 'routingkey'"):
        check_columns(StructType().add("body", BinaryType()).add("routingkey", StringType()))
    with pytest.raises(RowError, match="column priority must be int, not string"):
        check_columns(StructType().add("body", BinaryType()).add("priority", StringType()))

"""Every cause and every fault has its words."""

from __future__ import annotations

import re

from penstock.telemetry.schema import CAUSES
from pipeline.jobs.culprits import TABLE
from pipeline.report.causes import FAULTS_IN_ORDER, LONG, SHORT


def test_every_cause_has_words() -> None:
    assert tuple(SHORT) == CAUSES
    assert {"count", "bytes"} | LONG.keys() == set(CAUSES)
    assert len(set(SHORT.values())) == len(SHORT)


def test_every_fault_has_words() -> None:
    (column,) = (column for column in TABLE.columns if column.name == "fault")
    assert set(re.findall("`([^`]+)`", column.meaning)) == set(FAULTS_IN_ORDER)

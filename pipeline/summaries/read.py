"""The summaries below a root directory."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import layout
from pipeline.files import Files
from pipeline.layout import Hour
from pipeline.manifests import Directory, read_directories
from pipeline.spans import Span, days, hours
from pipeline.summaries.layout import QUEUE_DAYS, Manifest, Summary, day_of, day_path


def read_hours(files: Files, root: str, dataset: str, span: Span) -> dict[Hour, Directory[Manifest]]:
    """Return the directories of the hours of a dataset, of the days that a span of time reaches."""
    found = read_directories(files, hours(files, layout.history_base(root, dataset), span), Manifest.from_json)
    return {hour: directory for path, directory in found.items() if (hour := layout.hour_of(path)) is not None}


def read_days(files: Files, root: str, span: Span) -> dict[str, Directory[Manifest]]:
    """Return the directories of the days that a span of time reaches."""
    found = read_directories(files, days(files, layout.history_base(root, QUEUE_DAYS), span), Manifest.from_json)
    return {day: directory for path, directory in found.items() if (day := day_of(path)) is not None}


def hours_of(root: str, dataset: str, directories: Mapping[Hour, Directory[Manifest]]) -> dict[Hour, Summary]:
    """Return the complete summaries of the hours of a dataset."""
    base = layout.history_base(root, dataset)
    return {
        hour: Summary(f"{base}/{hour.path}", directory.manifest)
        for hour, directory in directories.items()
        if directory.manifest is not None
    }


def days_of(root: str, directories: Mapping[str, Directory[Manifest]]) -> dict[str, Summary]:
    """Return the complete summaries of days."""
    base = layout.history_base(root, QUEUE_DAYS)
    return {
        day: Summary(f"{base}/{day_path(day)}", directory.manifest)
        for day, directory in directories.items()
        if directory.manifest is not None
    }

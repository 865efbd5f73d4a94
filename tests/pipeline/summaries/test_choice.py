"""The choice of summaries: whole days and hours that are current, whatever else lies there; and days that are due."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.layout import HOUR_US, NOTHING, Hour
from pipeline.layout import Manifest as History
from pipeline.summaries.choice import Choice, choose, due_days
from pipeline.summaries.layout import Manifest, Summary, parts_of

FIRST = Hour("2026-11-20", 0)
HOURS = [Hour.of(FIRST.begins + number * HOUR_US) for number in range(60)]
DAY_US = 24 * HOUR_US


def named(hour: Hour) -> str:
    return f"{hour.dt}.{hour.hour}"


def of_hour(hour: Hour, *sources: str) -> Summary:
    return Summary(f"hours/{hour.path}", Manifest((f"s{named(hour)}",), sources or (f"h{named(hour)}",), 1, 10, 1))


HISTORY = {hour: replace(NOTHING, parts=(f"h{named(hour)}",), sources=(f"l{named(hour)}",)) for hour in HOURS}
SUMMARIES = {hour: of_hour(hour) for hour in HOURS}
LIVE = {hour: [f"/x/l{named(hour)}"] for hour in HOURS}
DAYS = {
    dt: Summary(
        f"days/{dt}",
        Manifest((f"d{dt}",), parts_of(own for hour, own in SUMMARIES.items() if hour.dt == dt), 1, 240, 24),
    )
    for dt in ("2026-11-20", "2026-11-21")
}
SINCE, UNTIL = FIRST.begins, HOURS[-1].ends


def chosen(since: int = SINCE, until: int = UNTIL, history: dict[Hour, History] | None = None) -> Choice:
    return choose(since, until, LIVE, HISTORY if history is None else history, SUMMARIES, DAYS)


@given(st.integers(-5, 70 * 60), st.integers(1, 70 * 60))
def test_what_is_covered_is_answered_once_and_lies_within_the_range(begin: int, minutes: int) -> None:
    since = SINCE + begin * 60_000_000
    until = since + minutes * 60_000_000
    found = chosen(since, until)
    assert found.covered == {hour for hour in HOURS if since <= hour.begins and hour.ends <= until}
    assert not {hour.dt for hour in found.hours} & found.days.keys()
    in_days = {hour for hour in HOURS if hour.dt in found.days}
    assert in_days | found.hours.keys() == found.covered
    assert found.rows == 10 * len(found.covered)
    assert found.lost == len(found.covered)


def test_whole_days_are_answered_by_days() -> None:
    found = chosen()
    assert [*found.days] == ["2026-11-20", "2026-11-21"]
    assert {hour.dt for hour in found.hours} == {"2026-11-22"}
    assert found.paths[:2] == ["days/2026-11-20/d2026-11-20", "days/2026-11-21/d2026-11-21"]


def test_an_hour_that_was_compacted_again_is_not_covered_nor_its_day_used() -> None:
    again = HOURS[5]
    found = chosen(history={**HISTORY, again: replace(HISTORY[again], parts=("other",))})
    assert again not in found.covered
    assert [*found.days] == ["2026-11-21"]
    assert len(found.covered) == len(HOURS) - 1


def test_an_hour_with_a_late_file_is_not_covered() -> None:
    late = HOURS[30]
    live = {**LIVE, late: [*LIVE[late], "/x/late"]}
    found = choose(SINCE, UNTIL, live, HISTORY, SUMMARIES, DAYS)
    assert late not in found.covered
    assert [*found.days] == ["2026-11-20"]


def test_a_day_of_which_an_hour_was_summarized_again_is_not_used() -> None:
    other = Summary("hours/x", Manifest(("new",), ("h2026-11-20.3",), 1, 10, 1))
    found = choose(SINCE, UNTIL, LIVE, HISTORY, {**SUMMARIES, HOURS[3]: other}, DAYS)
    assert [*found.days] == ["2026-11-21"]
    assert found.hours[HOURS[3]] is other


def test_summaries_stay_where_the_history_was_deleted() -> None:
    found = choose(SINCE, UNTIL, {}, {}, SUMMARIES, DAYS)
    assert found.covered == {*HOURS}
    assert [*found.days] == ["2026-11-20", "2026-11-21"]


def test_a_day_is_due_when_it_is_over_and_its_hours_are_summarized() -> None:
    grace = 600_000_000
    end = FIRST.begins + DAY_US
    assert due_days(HISTORY, SUMMARIES, {}, end + grace - 1, grace) == {}
    ((day, hours),) = due_days(HISTORY, SUMMARIES, {}, end + grace, grace).items()
    assert (day, len(hours)) == ("2026-11-20", 24)
    assert due_days(HISTORY, SUMMARIES, DAYS, end + 9 * DAY_US, grace).keys() == {"2026-11-22"}
    without = {hour: own for hour, own in SUMMARIES.items() if hour != HOURS[7]}
    assert "2026-11-20" not in due_days(HISTORY, without, {}, end + 9 * DAY_US, grace)
    again = {
        **SUMMARIES,
        HOURS[3]: replace(SUMMARIES[HOURS[3]], manifest=replace(SUMMARIES[HOURS[3]].manifest, parts=("n",))),
    }
    assert due_days(HISTORY, again, DAYS, end + grace, grace).keys() == {"2026-11-20"}

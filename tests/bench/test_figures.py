"""Percentiles, spreads and CPU time come out as computed by hand."""

import math
import os
import time
from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.accounting import machine_seconds, machine_ticks, process_seconds, process_ticks
from bench.events import query_events
from bench.figures import BenchError, Measurement, percentile, spread, summary
from schemas.query import QueryEvent


def measurement(
    latencies: Sequence[float | None], *, sent: int | None = None, cpu: float = 1.0, twice: int = 0
) -> Measurement:
    """Ten seconds in which queries were answered after `latencies`."""
    answered = sum(latency is not None for latency in latencies)
    return Measurement(
        sent=len(latencies) if sent is None else sent,
        answered=answered,
        twice=twice,
        statuses={"ok": answered} if latencies else {},
        seconds=10.0,
        cpu={"subject": cpu, "machine": 2 * cpu},
        latencies_ms=list(latencies),
        lateness_ms=[0.5],
    )


@pytest.mark.parametrize(
    ("count", "per_mille", "expected"),
    [
        (1, 500, 1),
        (1, 999, 1),
        (2, 500, 1),
        (3, 500, 2),
        (100, 990, 99),
        (101, 990, 100),
        (1000, 999, 999),
        (100, 70, 7),
    ],
)
def test_percentile_is_the_nearest_rank(count: int, per_mille: int, expected: int) -> None:
    """Of 1, 2, ... the percentile is its own rank."""
    assert percentile(range(1, count + 1), per_mille) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 1000))
def test_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], per_mille: int) -> None:
    """Enough values are at most the percentile, and too few at most any value below it."""
    found = percentile(sorted(values), per_mille)
    assert 1000 * sum(value <= found for value in values) >= per_mille * len(values)
    assert 1000 * sum(value < found for value in values) < per_mille * len(values)


def test_percentile_of_nothing_is_an_error() -> None:
    """There is no figure for no queries."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 500)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_spread_has_the_median_the_range_and_the_rounds(values: list[float]) -> None:
    """The rounds keep their order, so that those of two subjects can be paired."""
    found = spread(values)
    assert math.isclose(found["median"], median(values), abs_tol=0.001)
    assert found["rounds"] == [round(value, 3) for value in values]
    assert (found["min"], found["max"]) == (min(found["rounds"]), max(found["rounds"]))


def test_summary_divides_cpu_by_answers_and_takes_the_median_round() -> None:
    """0.4 s of CPU for 200 answers are 2 ms each; counts are added up."""
    rounds = [
        measurement([5.0] * 200, cpu=0.4),
        measurement([9.0] * 200, cpu=0.6, twice=1),
        measurement([7.0] * 200, cpu=1),
    ]
    found = summary(rounds)
    assert found["cpu_ms_per_query"] == {"median": 3.0, "min": 2.0, "max": 5.0, "rounds": [2.0, 3.0, 5.0]}
    assert found["p50_ms"]["rounds"] == [5.0, 9.0, 7.0]
    assert found["answered_per_s"]["median"] == 20.0
    assert found["cores_machine"]["max"] == 0.2
    assert (found["sent"], found["answered"], found["twice"], found["statuses"]) == (600, 600, 1, {"ok": 600})


def test_lost_queries_have_no_latency() -> None:
    """They count as sent, and neither as fast nor as slow."""
    found = summary([measurement([5.0, None, 7.0, None])])
    assert (found["sent"], found["answered"], found["p50_ms"]["median"], found["p99_ms"]["median"]) == (4, 2, 5.0, 7.0)


def test_a_phase_without_answers_has_no_figures() -> None:
    """It is an error, not a division by zero."""
    with pytest.raises(BenchError, match="none of 7"):
        summary([measurement([], sent=7)])


def test_process_ticks_are_user_and_system_whatever_the_name() -> None:
    """A name may have spaces and parentheses."""
    stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 1046 0 1 0 130 27 5 6 20 0 9 0 391151 12943360 2351"
    assert process_ticks(stat) == 157


def test_machine_ticks_leave_out_idle_time() -> None:
    """Neither idle nor iowait is work; guests are in user already."""
    stat = "cpu  100 20 30 5000 600 4 7 9 11 13\ncpu0 50 10 15 2500 300 2 3 4 5 6\n"
    assert machine_ticks(stat) == 100 + 20 + 30 + 4 + 7 + 9


def test_this_process_is_accounted_for() -> None:
    """Burnt CPU shows, in the process and in the machine."""
    before = process_seconds(os.getpid()), machine_seconds()
    burnt = time.process_time()
    while time.process_time() - burnt < 0.1:
        pass
    assert process_seconds(os.getpid()) - before[0] >= 0.08
    assert machine_seconds() - before[1] >= 0.05


def test_events_are_distinct_valid_queries_for_both_legs() -> None:
    """Each has an id, a text and a vector of its own, and the same run gives the same events."""
    events = list(query_events("run", 50))
    parsed = [QueryEvent.model_validate_json(value) for _, value in events]
    assert [event.query_id for event in parsed] == [f"run-{number}" for number in range(50)]
    assert [key.decode() for key, _ in events] == [event.query_id for event in parsed]
    assert len({event.text for event in parsed}) == len({tuple(event.vector or ()) for event in parsed}) == 50
    assert {len(event.vector or ()) for event in parsed} == {384}
    assert list(query_events("run", 50)) == events

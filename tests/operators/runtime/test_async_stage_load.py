"""The load of a stage as it is told: calls under way, what each carries, and how long that waited."""

import time
from collections.abc import Iterator

import pytest

from schemas.errors import BackendBadResponse, BackendUnavailable, DeadlinePassed
from tests.operators.runtime.test_async_stage_slices import UNITS, Backend, Item, Reports, ran


def test_every_change_of_the_calls_in_flight_is_told() -> None:
    """One up at each call, one down at its end, to 0: after answers, failures, defects, cancellations and deadlines."""
    fates = Backend({"c": 60, "i": 60}, wrong="a", broken="g", defects="k")
    reports = Reports()

    def batches() -> Iterator[list[Item]]:
        yield [Item("abcd"), Item("ef"), Item("gh"), Item("ij", time.monotonic() + 0.5), Item("kl")]

    outcomes = ran(batches(), fates, 2, reports=reports)
    kinds = [BackendBadResponse, str, BackendUnavailable, DeadlinePassed, BackendBadResponse]
    assert [type(outcome) for _, outcome in sorted(outcomes.items())] == kinds
    assert sorted(fates.of("cancelled")) == [["cd"], ["ij"]]
    assert reports.most() == 6
    assert len(reports.counts) == 12


def test_what_each_call_carries_and_how_long_it_waited_is_told() -> None:
    """The units of all requests in it, and the wait of the first that came: none for an idle backend, a call for the
    second.
    """
    reports = Reports()
    ran([[Item("abcd"), Item("ef")]], Backend({"a": 0.2, "e": 0.1}), 4, 1, reports=reports)
    assert reports.carried == [4, 2]
    first, second = reports.waited
    assert first < second
    assert second >= 0.2


@pytest.mark.parametrize(("most", "at_once"), [(3, 3), (1, 1), (0, 26), (-1, 26)])
def test_calls_at_once_are_bounded(most: int, at_once: int) -> None:
    """By `max_concurrency`, for the units of one request too; 0 and less is no bound."""
    reports = Reports()
    assert ran([[Item(UNITS)]], Backend(dict.fromkeys(UNITS, 0.01)), 1, most, reports=reports) == {UNITS: UNITS.upper()}
    assert reports.most() == at_once

"""The comparison: ratios are of figures from the same round, and a goal is kept from the right side."""

from typing import Any

from bench.comparison import goals, ratios
from bench.figures import spread


def subject(cpu: list[float], p50: list[float], rate: list[float]) -> dict[str, Any]:
    """The measurement of a subject at 100 a second and in a burst, which went alike."""
    row = {"cpu_ms_per_query": spread(cpu), "p50_ms": spread(p50), "answered_per_s": spread(rate)}
    return {"rates": [{"rate": 100.0, **row}], "burst": {"queries": 5, **row}}


ASYNCIO = subject([2.0, 4.0, 1.0], [40.0, 50.0, 60.0], [1000.0, 500.0, 800.0])


def test_a_ratio_is_of_one_round() -> None:
    """By hand: a round that was slow for both is no worse than the others."""
    ours = subject([1.0, 2.0, 2.0], [45.0, 70.0, 62.0], [1500.0, 1000.0, 800.0])
    found = ratios({"asyncio": ASYNCIO, "librdkafka": ours})
    assert list(found) == ["librdkafka"]
    assert found["librdkafka"]["100/s"]["cpu"]["rounds"] == [0.5, 0.5, 2.0]
    assert found["librdkafka"]["burst"]["p50_ms_above"]["rounds"] == [5.0, 20.0, 2.0]
    assert found["librdkafka"]["burst"]["answered_per_s"]["rounds"] == [1.5, 2.0, 1.0]


def test_a_goal_is_kept_by_the_median() -> None:
    """Costs have an upper bound, the drain a lower one; loads that were not measured have no goal."""
    found = goals(ratios({"asyncio": ASYNCIO, "librdkafka": ASYNCIO}))
    assert [(goal["load"], goal["figure"], goal["met"]) for goal in found] == [
        ("100/s", "cpu", True),
        ("burst", "cpu", False),
        ("burst", "answered_per_s", False),
        ("100/s", "p50_ms_above", True),
    ]


def test_without_the_service_nothing_is_compared() -> None:
    """There is no ratio and no goal then."""
    assert ratios({"librdkafka": ASYNCIO}) == {}
    assert goals({}) == []

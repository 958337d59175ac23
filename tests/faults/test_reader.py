"""The harness's reading: how long answers were away, and which messages are queries of its own."""

import json

import pytest

from tests.faults.load import query, query_id_of
from tests.faults.reader import longest_gap
from tests.integration.poison import POISON


@pytest.mark.parametrize(
    ("arrivals", "stretches", "gap"),
    [
        ([11, 12, 17, 18], [(10, 18)], 5),
        ([14, 15], [(10, 15)], 4),
        ([11, 12, 40], [(10, 12.5)], 28),
        ([11, 12, 40], [(10, 11.5)], 1),
        ([11, 30, 31], [(10, 11), (30, 31)], 1),
        ([], [(10, 20)], 0),
    ],
)
def test_an_outage_is_the_longest_wait_that_began_under_load(
    arrivals: list[float], stretches: list[tuple[float, float]], gap: float
) -> None:
    """The first answer counts from the load's begin, the last from the one before; what began without load doesn't."""
    assert longest_gap(arrivals, stretches) == gap


def test_our_queries_are_known_again() -> None:
    """A query that was sent is recognised by its value, with a deadline or without; poison and damage are not."""
    for number, timeout_ms in ((0, None), (70_123, 2000)):
        _, value = query(number, timeout_ms)
        assert query_id_of(value) == json.loads(value)["query_id"] == f"q{number}"
        assert query_id_of(value[:-1]) is None
    assert {query_id_of(value) for value in (*POISON, None, b"")} == {None}

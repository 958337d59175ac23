"""A failing reranker, measured on few queries: none costs more calls or time, or other statuses, than promised."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from bench import rerank_faults
from bench.failing_reranker import Fault, failing_reranker

QUERIES = 300
DIALECT = "vllm_score"
DEAD = {
    Fault.REFUSED,
    Fault.HANG,
    Fault.SLOW,
    Fault.TOO_MANY,
    Fault.DOWN,
    Fault.GARBAGE,
    Fault.WRONG_SCORES,
    Fault.RESET,
}
SLOW = {Fault.HANG, Fault.SLOW}

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """One measurement of every fault in one dialect; it fails if a query is lost or doubled."""
    return rerank_faults.figures(QUERIES, [DIALECT])


def rows(figures: dict[str, Any], faults: set[Fault]) -> Sequence[dict[str, Any]]:
    """Those of these faults."""
    found = [row for row in figures["rows"] if row["fault"] in faults]
    assert len(found) == len(faults)
    return found


def test_every_fault_is_measured(figures: dict[str, Any]) -> None:
    """A row each, of all the queries that were asked for."""
    assert {(row["dialect"], row["fault"]) for row in figures["rows"]} == {(DIALECT, fault) for fault in Fault}
    for row in rows(figures, set(Fault)):
        assert row["queries"] == sum(row["statuses"].values()) == QUERIES
        assert row["sent"] >= QUERIES
        assert sum(row["reasons"].values()) == row["statuses"].get("unranked", 0)


def test_no_fault_multiplies_calls(figures: dict[str, Any]) -> None:
    """Every row keeps the promise, and says so by its own figures."""
    for row in rows(figures, set(Fault)):
        assert row["kept"]
        assert row["calls"] <= rerank_faults.MOST_CALLS * row["sent"]


def test_no_fault_costs_more_than_the_order(figures: dict[str, Any]) -> None:
    """Answers are ok or unranked; all unranked while the reranker is dead, some of each when half of it is."""
    for row in rows(figures, set(Fault)):
        assert set(row["statuses"]) <= {"ok", "unranked"}
    assert all(row["statuses"] == {"unranked": QUERIES} for row in rows(figures, DEAD))
    assert all(
        set(row["statuses"]) == {"ok", "unranked"} for row in rows(figures, {Fault.HALF_DOWN, Fault.HALF_GARBAGE})
    )


def test_a_silent_reranker_costs_the_deadline_and_no_more(figures: dict[str, Any]) -> None:
    """Queries that wait for one that hangs or drips leave at their deadline, and not before."""
    for row in rows(figures, SLOW):
        assert figures["deadline_ms"] <= row["p99_ms"] <= 1.5 * figures["deadline_ms"]
        assert row["reasons"]["deadline"] > 0


def test_a_dead_reranker_is_left_alone(figures: dict[str, Any]) -> None:
    """Most queries go out without a call, and those of one that fails at once long before their deadline."""
    for row in rows(figures, DEAD):
        assert 0 < row["calls"] < row["sent"] / 2
    for row in rows(figures, DEAD - SLOW):
        assert row["p50_ms"] < figures["deadline_ms"] / 2
        assert row["reasons"]["unavailable"] > QUERIES / 2


def test_a_reranker_that_gets_well_is_asked_again(figures: dict[str, Any]) -> None:
    """After every fault there is a reranked answer again."""
    assert all(row["back_after_ms"] is not None for row in rows(figures, set(Fault)))


def test_what_the_server_does_is_what_it_was_told() -> None:
    """Each fault looks from outside as its name says, healthy again in between."""
    body = {"query": "q", "documents": ["a"]}
    seen: dict[Fault, object] = {}
    with failing_reranker() as server, httpx.Client(timeout=10) as client:
        for fault in Fault:
            server.turn(fault)
            try:
                # Only the answer that never comes is given up: any other may be late.
                timeout = httpx.Timeout(10, read=0.5 if fault is Fault.HANG else 10)
                response = client.post(f"{server.url}/rerank", json=body, timeout=timeout)
                late = response.elapsed.total_seconds() > rerank_faults.DEADLINE
                seen[fault] = response.status_code, "NaN" in response.text, "<html>" in response.text, late
            except httpx.TransportError as error:
                seen[fault] = type(error)
            server.turn(Fault.NONE)
            assert client.post(f"{server.url}/rerank", json=body).json()["results"][0]["index"] == 0
        server.turn(Fault.HALF_DOWN)
        to_float16 = [client.post(f"{server.url}/rerank", json=body).status_code for _ in range(64)]
    assert set(to_float16) == {200, 503}
    assert {fault: seen[fault] for fault in Fault if isinstance(seen[fault], tuple) and "half" not in fault} == {
        Fault.NONE: (200, False, False, False),
        Fault.SLOW: (200, False, False, True),
        Fault.TOO_MANY: (429, False, False, False),
        Fault.DOWN: (503, False, False, False),
        Fault.GARBAGE: (200, False, True, False),
        Fault.WRONG_SCORES: (200, True, False, False),
    }
    assert seen[Fault.REFUSED] is httpx.ConnectError
    assert seen[Fault.HANG] is httpx.ReadTimeout
    assert seen[Fault.RESET] in {httpx.ReadError, httpx.RemoteProtocolError}

"""`python -m bench system`: its queries, its arithmetic, and a small run beside the service that is written by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from bench.comparison import BURST
from bench.events import given_events
from bench.figures import Measurement
from bench.judged import FIGURE, JudgedSet, agreement
from bench.load import COMPUTED
from bench.peers.asyncio_service import BadQuery
from bench.peers.model_service import read
from bench.report import system_tables
from bench.rounds import Plan
from bench.system import ALONE, BY_HAND, CACHED, FLOW, PLAIN, SUBJECTS, ZIPF, Found, goals, phases, qualities, rows
from schemas.query import QueryEvent
from tests.bench.test_flow import bench

STORE = Path(__file__).parents[1] / "data" / "store"
QUERIES = ({"query_id": "a", "text": "saw", "namespace": "store", "kind": "brand"}, {"query_id": "b", "text": "nail"})


def measurement(subject: float, broker: float, ranked: Sequence[list[str]] = (), **served: int) -> Measurement:
    """Ten answered queries, and the CPU seconds of both processes."""
    cpu = {"subject": subject, "broker": broker, "load": 7.0, "machine": 9.0}
    return Measurement(10, 10, 0, {"ok": 10}, 1.0, cpu, [1.0] * 10, [0.0], served=dict(served), ranked=[*ranked])


def found(measured: Measurement, *ranked: list[str], load: str = BURST) -> Found:
    """The measurements of a subject that had one load, a round."""
    return Found({load: [measured]}, measurement(1.0, 0.0, ranked))


def test_numbers_name_queries() -> None:
    """First those that are given, then each with a number of its own; equal numbers are identical queries."""
    events = [QueryEvent.model_validate_json(value) for _, value in given_events("run", QUERIES, [0, 1, 2, 5, 0], 7)]
    assert [each.query_id for each in events] == [f"run-{place}" for place in range(5)]
    assert [each.text for each in events] == ["saw", "nail", "saw 1", "nail 2", "saw"]
    assert [each.namespace for each in events] == ["store", None, "store", None, "store"]
    assert {each.limit for each in events} == {7}


def test_quality_is_of_the_set() -> None:
    """The best order of the judged documents has 1, no results have 0."""
    judged = JudgedSet.read(STORE)
    best = [
        sorted(grades, key=lambda id_: -grades[id_]) for grades in (judged.qrels.get(each, {}) for each in judged.asked)
    ]
    assert judged.quality(best) == pytest.approx(1)
    assert judged.quality([[]] * len(judged.asked)) == 0
    assert judged.namespaces == {"store", "help"}


@pytest.mark.parametrize(
    ("ranked", "other", "share"),
    [
        ([["a", "b"]], [["b", "a"]], 1.0),
        ([["a", "c"], ["d"]], [["a", "b"], ["d"]], 0.75),
        ([["a"], ["b"]], [["a"], []], 1.0),
        ([[]], [["a"]], 0.0),
    ],
)
def test_agreement_is_the_share_of_the_others_results(
    ranked: list[list[str]], other: list[list[str]], share: float
) -> None:
    """In whatever order they are; a query for which the other has none doesn't count."""
    assert agreement(ranked, other) == pytest.approx(share)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"query_id":"a","text":1,"limit":3}',
        b'{"query_id":"a","text":"b","limit":"3"}',
        b'{"query_id":"a","text":"b","limit":3,"namespace":null}',
    ],
)
def test_a_message_that_is_no_query_is_refused(value: bytes) -> None:
    """By the service that is written by hand."""
    with pytest.raises(BadQuery):
        read(value)


def test_a_query_is_read() -> None:
    """Without a namespace it asks the default one."""
    (_, one), (_, other) = given_events("run", QUERIES, [0, 1])
    assert read(one) == ("run-0", "saw", "store", 10)
    assert read(other) == ("run-1", "nail", "default", 10)


def test_caches_are_asked_for_texts_that_come_again() -> None:
    """Alone: no other load has one. Beside them answer the service and the flow without caches."""
    plan = Plan([5.0], 2.0, 1, 30, 10)
    loads = {name: dict(phases(name, plan, [3, 1, 3], 5)) for name in SUBJECTS}
    assert [name for name, each in loads.items() if ZIPF in each] == [BY_HAND, FLOW, CACHED]
    assert [*loads[CACHED]] == [ZIPF]
    assert (loads[FLOW][ZIPF].count, loads[FLOW][ZIPF].texts) == (3, [3, 1, 3])
    assert [*loads[ALONE]] == ["5/s", BURST]
    assert (loads[ALONE]["5/s"].count, loads[ALONE]["5/s"].rate, loads[ALONE]["5/s"].limit) == (10, 5.0, 5)
    assert ZIPF not in dict(phases(FLOW, plan, [], 5))


def test_a_query_costs_what_all_processes_take() -> None:
    """The subject and the broker, but not the load; ratios are to the hand-written service in the same load."""
    measured = {
        BY_HAND: found(measurement(0.4, 0.1)),
        FLOW: found(measurement(0.2, 0.05, (), exact_cache=3, **{COMPUTED: 7})),
        CACHED: found(measurement(0.1, 0.1), load=ZIPF),
    }
    shown = {row["subject"]: row for row in rows(measured)}
    assert shown[FLOW]["cpu_ms_per_query"]["median"] == 20
    assert shown[FLOW]["system_ms_per_query"]["median"] == 25
    assert shown[FLOW]["ratio"]["median"] == shown[FLOW]["subject_ratio"]["median"] == 0.5
    assert shown[FLOW]["not_computed"] == 0.3
    assert "ratio" not in shown[CACHED]
    assert "ratio" not in next(rows({FLOW: measured[FLOW]}))


def test_the_goal_is_of_the_flow_in_a_burst() -> None:
    """For each number of candidates by itself."""

    def cell(candidates: int, **subject: float) -> dict[str, Any]:
        rounds = {name: found(measurement(cpu, 0.0)) for name, cpu in {BY_HAND: 1.0, **subject}.items()}
        return {"candidates": candidates, "rows": list(rows(rounds))}

    made = goals([cell(5, **{FLOW: 0.5, ALONE: 2.0}), cell(20, **{FLOW: 0.7}), cell(50)])
    assert [(goal["candidates"], goal["measured"]["median"], goal["met"]) for goal in made] == [
        (5, 0.5, True),
        (20, 0.7, False),
    ]


def test_quality_stands_beside_cost() -> None:
    """Of each subject, with its agreement with the first."""
    judged = JudgedSet(STORE, STORE, ["q"], {"q": {"a": 1}}, frozenset())
    shown = qualities(
        judged, {BY_HAND: found(measurement(1, 0), ["a", "b"]), FLOW: found(measurement(1, 0), ["c", "a"])}
    )
    assert shown[BY_HAND] == {FIGURE: 1.0, "agreement": 1.0}
    assert shown[FLOW] == {FIGURE: round(1 / np.log2(3), 4), "agreement": 0.5}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.usefixtures("broker_tools", "machine")
@pytest.mark.parametrize(
    ("reranker", "subjects"),
    [
        pytest.param("late_interaction", SUBJECTS, id="late"),
        pytest.param("onnx", (BY_HAND, FLOW, PLAIN, CACHED), id="cross-encoder"),
    ],
)
def test_a_small_system_is_measured(tmp_path: Path, reranker: str, subjects: Sequence[str]) -> None:
    """Every query is answered once by every subject; the plain flow finds most of what the service finds."""
    for name, lines in {"documents.jsonl": 60, "queries.jsonl": 20, "qrels.txt": None}.items():
        some = (STORE / name).read_text().splitlines(keepends=True)[:lines]
        (tmp_path / name).write_text("".join(some))
    load = ["--rounds", "1", "--rates", "5", "--seconds", "1", "--burst", "10", "--warm-up", "5", "--zipf", "20"]
    asked = ["--judged", str(tmp_path), "--reranker", reranker, "--candidates", "5", "--subject", *subjects]
    done = bench("system", *asked, *load, "--json")
    assert done.returncode == 0, done.stderr
    report = orjson.loads(done.stdout)
    [cell] = report["cells"]
    assert [*cell["quality"]] == [*subjects]
    for row in cell["rows"]:
        assert (row["answered"], row["twice"], row["statuses"]) == (row["sent"], 0, {"ok": row["sent"]})
        assert row["system_ms_per_query"]["median"] >= row["cpu_ms_per_query"]["median"]
    assert {row["load"] for row in cell["rows"] if row["subject"] == FLOW} == {"5/s", BURST, ZIPF}
    [cached] = [row for row in cell["rows"] if row["subject"] == CACHED]
    assert cached["not_computed"] > 0
    assert cell["quality"][PLAIN]["agreement"] > 0.6
    # The goal is of late interaction alone.
    expected = [len(cell["rows"]), len(subjects), *([1] if reranker == "late_interaction" else [])]
    assert [table.row_count for table in system_tables(report)] == expected

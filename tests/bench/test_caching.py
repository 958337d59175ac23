"""The exact cache's benchmark: its baseline, the sources that answers name, and the report as a whole."""

import subprocess
import sys
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import caching
from bench.events import repeated_events
from bench.kafka.broker import REPOSITORY
from bench.load import served
from bench.report import caches_table
from operators.wire.message import Origin, result_id
from schemas.query import QueryEvent


def test_texts_come_by_zipfs_law() -> None:
    """The k-th text comes in 1/k of the queries that the first one comes in, to within what chance allows."""
    count = 100_000
    asked = Counter(caching.zipf(100, count))
    harmonic = sum(1 / rank for rank in range(1, 101))
    for number in range(100):
        expected = count / harmonic / (number + 1)
        assert abs(asked[number] - expected) < 5 * expected**0.5
    assert caching.zipf(100, 50) == caching.zipf(100, 50)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 10))
def test_the_ideal_hits_what_was_used_last(texts: list[int], entries: int) -> None:
    """A text is a hit if fewer than `entries` others were asked for since it was: the definition of an LRU."""
    hits = 0
    for place, text in enumerate(texts):
        before = texts[:place][::-1]
        hits += text in before and len(set(before[: before.index(text)])) < entries
    assert caching.lru_hits(texts, entries) == hits


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), st.integers(1, 30))
def test_the_parts_are_the_sequence(texts: list[int], rounds: int) -> None:
    """Together, in order, the rounds ask for what an LRU is fed with; none is empty."""
    parts = caching.Rounds(len(texts), 1.0, rounds).parts()
    assert all(parts)
    assert [text for part in parts for text in part] == caching.zipf(caching.TEXTS, len(texts))


def test_equal_numbers_are_identical_queries() -> None:
    """Whatever the run, and only those; every event has an id of its own."""
    events = [*repeated_events("a", [3, 5, 3]), *repeated_events("b", [3])]
    queries = [QueryEvent.model_validate_json(value) for _, value in events]
    assert [each.query_id for each in queries] == ["a-0", "a-1", "a-2", "b-0"]
    bare = [each.model_copy(update={"query_id": ""}) for each in queries]
    assert bare[0] == bare[2] == bare[3] != bare[1]


@pytest.mark.parametrize(
    ("stage", "offset", "watermark", "how"),
    [
        ("hybrid_merge", 7, ["0:1"], "computed"),
        ("hybrid_merge", 7, [], "computed"),
        ("hybrid_merge", 7, None, "passed_by"),
        ("hybrid_merge", 6, ["0:1"], "shared"),
        ("exact_cache", 6, ["0:1"], "exact_cache"),
        ("semantic_cache", 6, ["0:1"], "semantic_cache"),
    ],
)
def test_an_answer_says_how_it_came_about(stage: str, offset: int, watermark: list[str] | None, how: str) -> None:
    """To the query at offset 7, by its stage, its provenance and its id."""
    result: dict[str, Any] = {
        "retrieval_stage": stage,
        "result_id": result_id(Origin("queries", 0, 7, 3)),
        "provenance": {
            "source": {"topic": "queries", "partition": 0, "offset": offset},
            "index_watermark": watermark,
        },
    }
    assert served(result) == how


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("broker_tools", "machine")
def test_the_exact_cache_is_measured() -> None:
    """Every query is answered once; without a cache all are computed, with one each text is computed about once."""
    command = [sys.executable, "-m", "bench", "cache", "--queries", "100", "--rounds", "2", "--json"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    report = orjson.loads(done.stdout)
    assert (report["queries"], report["rounds"]) == (100, 2), done.stderr
    for row in (report["off"], *report["caches"]):
        assert (row["sent"], row["answered"], row["twice"], row["statuses"]) == (100, 100, 0, {"ok": 100})
    assert [row["mib"] for row in report["caches"]] == [caching.SMALL_MIB, caching.DEFAULT_MIB]
    for row in report["caches"]:
        # So few fit into either cache.
        assert row["ideal"] == round(1 - report["distinct"] / 100, 4)
        assert row["served"]["exact_cache"] > 0
        assert sum(row["served"].values()) == 100
        assert row["served"]["computed"] <= report["distinct"]
    assert done.returncode == (0 if caching.kept(report) else 1)
    assert caches_table(report).row_count == 3

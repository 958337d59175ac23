"""`python -m bench server`: what is written and asked, and a small run on a real server, where the machine has one."""

import orjson
import pytest

from bench import qdrant_server
from bench.corpus import VOCABULARY, corpus_events, documents
from bench.peers.indexing_service import read
from bench.real_server import BY_HAND, FLOW, LATE, SUBJECTS, Scale, written
from bench.report import server_tables
from tests.bench.test_flow import bench, refused


def test_the_corpus_is_the_same_each_time() -> None:
    """Whichever part of it is made, each document is its own, and few words are frequent."""
    found = list(documents(0, 300))
    assert found == [*documents(0, 100), *documents(100, 200)]
    assert len({key for key, _ in found}) == 300
    words = [word for _, value in found for word in orjson.loads(value)["text"].split()]
    share = max(map(words.count, set(words))) / len(words)
    # By the formula: 1 over the harmonic number.
    assert share == pytest.approx(1 / sum(1 / rank for rank in range(1, VOCABULARY + 1)), rel=0.2)


@pytest.mark.parametrize("vectors", [True, False])
def test_queries_are_of_the_corpus(vectors: bool) -> None:
    """In words that documents have, each its own, with a vector only where it is asked for."""
    found = [orjson.loads(value) for _, value in corpus_events("run", 200, vectors=vectors)]
    assert len({event["text"] for event in found}) == 200
    assert {"vector" in event for event in found} == {vectors}


@pytest.mark.parametrize(("count", "rounds"), [(20_000, 3), (600, 1), (21, 5)])
def test_each_document_is_written_once(count: int, rounds: int) -> None:
    """In a warm-up of a twentieth and rounds of about one size."""
    (start, warm_up), *others = Scale(count, 1).parts(rounds)
    assert (start, warm_up, len(others)) == (0, count // 20, rounds)
    assert [first for first, _ in others] == [warm_up + sum(size for _, size in others[:n]) for n in range(rounds)]
    assert sum(size for _, size in others) == count - warm_up
    assert max(size for _, size in others) - min(size for _, size in others) <= 1


def test_a_collection_is_written_by_the_indexer_of_its_readers() -> None:
    """Both services ask the one that is written by hand."""
    assert written(SUBJECTS) == [BY_HAND, FLOW, LATE]
    assert written([LATE]) == [LATE]


@pytest.mark.parametrize("value", [b"", b"[]", b'{"id":"a","title":"b"}', b'{"id":1,"title":"b","text":"c"}'])
def test_a_message_that_is_no_document_is_told_apart(value: bytes) -> None:
    """By the indexer that is written by hand."""
    assert read(value) is None
    (_, document), *_ = documents(0, 1)
    assert read(document) == orjson.loads(document)


def test_without_a_server_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error, before anything starts."""
    monkeypatch.delenv(qdrant_server.VARIABLE, raising=False)
    assert qdrant_server.VARIABLE in refused(monkeypatch, capsys, "server")


@pytest.mark.slow
@pytest.mark.usefixtures("broker_tools", "machine")
@pytest.mark.parametrize(
    "subjects",
    [
        pytest.param(["asyncio", FLOW], id="two"),
        pytest.param(["transactions", FLOW, LATE], id="late", marks=[pytest.mark.nightly, pytest.mark.weights]),
    ],
)
def test_a_small_index_is_measured(subjects: list[str]) -> None:
    """All documents are written, every query is answered once, and the ratios are there."""
    if qdrant_server.named() is None:
        pytest.skip(f"{qdrant_server.VARIABLE} names no Qdrant server")
    load = ["--rounds", "1", "--seconds", "1", "--burst", "20", "--warm-up", "10"]
    done = bench("server", "--documents", "200", "--shards", "3", *load, "--json", "--subject", *subjects)
    assert done.returncode == 0, done.stderr
    [index] = orjson.loads(done.stdout)["indexes"]
    assert (index["documents"], index["shards"], index["lost"]) == (200, 3, 0)
    assert [*index["indexing"]] == written(subjects)
    assert [*index["subjects"]] == subjects
    for row in index["subjects"].values():
        assert (row["rates"][0]["statuses"], row["burst"]["statuses"]) == ({"ok": 10}, {"ok": 20})
    assert {(row["of"], row["to"]) for row in index["ratios"]} == {
        *((FLOW, each) for each in subjects if each not in {FLOW, LATE}),
        *((LATE, FLOW) for each in subjects if each == LATE),
    }
    rows = [each.row_count for each in server_tables(index)]
    assert rows == [len(index["indexing"]), 2 * len(subjects), 3 * (len(subjects) - 1)]

"""Backends that fail: every query is answered all the same, and its answer says what was lost and why."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, Stubs, stub_backends
from tests.integration.deployment import Deployment, OutputRecord, assert_each_once
from tests.integration.leg_fault import failing_leg
from tests.proxy import Proxy

REASONS = {"refuse": "unavailable", "hang": "timeout", "garbage": "bad_response"}
QUERIES = 20

Answers = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture
def stubs() -> Iterator[Stubs]:
    """Backends that answer at once."""
    with stub_backends() as running:
        yield running


@pytest.fixture
def answers(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], stubs: Stubs) -> Iterator[Answers]:
    """Ask queries while one backend has a fault; the result events."""
    with contextlib.ExitStack() as stack:

        def faulty(url: str, fault: str) -> str:
            host, port = urlsplit(url).hostname, urlsplit(url).port
            assert host is not None
            assert port is not None
            proxy = stack.enter_context(Proxy(host, port))
            proxy.switch(fault)
            return f"http://127.0.0.1:{proxy.port}"

        def ask(backend: str, fault: str) -> list[dict[str, Any]]:
            qdrant = stubs.qdrant
            if backend in {"dense", "bm25"}:
                qdrant = stack.enter_context(failing_leg(stubs.qdrant, backend, fault))
            elif backend == "qdrant":
                qdrant = faulty(stubs.qdrant, fault)
            embed = faulty(stubs.embed, fault) if backend == "embedder" else stubs.embed
            rerank = faulty(stubs.rerank, fault) if backend == "reranker" else stubs.rerank

            def timeout(*names: str) -> float:
                return 1 if backend in names and fault == "hang" else 20

            sections = {
                # Its time-out is also what the flow's start waits for it.
                "qdrant": {
                    "url": qdrant,
                    "timeout": 3 if backend == "qdrant" else timeout("dense", "bm25"),
                    "dimension": DIMENSION,
                },
                "embedder": {"kind": "openai", "url": embed, "timeout": timeout("embedder")},
                "rerank": {"kind": "cohere", "url": rerank, "timeout": timeout("reranker")},
                # The queries wait for the flow's start.
                "limits": {"timeout": 60},
            }
            running = stack.enter_context(Deployment.on(broker, tmp_path, topic_names, sections))
            flow = running.start(wait=False)
            running.ask([{"query_id": f"q{n}", "text": f"blue lantern {n}"} for n in range(QUERIES)])
            output_records = running.output_records(QUERIES)
            assert_each_once(running, output_records)
            assert flow.terminate() == 0
            return [output_record.value for output_record in output_records if is_result(output_record)]

        yield ask


def is_result(output_record: OutputRecord) -> bool:
    """True if it is an answer, not a dead letter."""
    return output_record.kind == "result"


@pytest.mark.parametrize(("fault", "reason"), REASONS.items())
@pytest.mark.parametrize(("using", "leg", "other"), [("dense", "vector", "keyword"), ("bm25", "keyword", "vector")])
def test_a_lost_leg_leaves_the_other(
    answers: Answers, fault: str, reason: str, using: str, leg: str, other: str
) -> None:
    """With one leg lost the answer is `partial`, has the other's results, and names the leg and the reason."""
    results = answers(using, fault)
    assert len(results) == QUERIES
    for result in results:
        assert result["status"] == "partial"
        assert result["degraded"] == [{"stage": leg, "reason": reason}]
        assert result["backends_used"] == [other]
        assert result["results"]
        assert result["reranked"]


@pytest.mark.parametrize(("fault", "reason"), REASONS.items())
def test_a_lost_qdrant_is_a_failed_answer(answers: Answers, fault: str, reason: str) -> None:
    """With both legs lost the answer is `failed`, without results: not the same as nothing found. Once Qdrant is left
    alone, which the flow's own questions at its start may bring about, the reason is that it is unavailable.
    """
    results = answers("qdrant", fault)
    reasons = {part["reason"] for result in results for part in result["degraded"]}
    assert reasons
    assert reasons <= {reason, "unavailable"}
    for result in results:
        assert result["status"] == "failed"
        assert {part["stage"] for part in result["degraded"]} == {"vector", "keyword"}
        assert result["results"] == []


@pytest.mark.parametrize(("fault", "reason"), REASONS.items())
def test_a_lost_embedder_leaves_the_keywords(answers: Answers, fault: str, reason: str) -> None:
    """Without an embedding the keyword leg answers, and the result says that meaning was not searched."""
    for result in answers("embedder", fault):
        assert result["status"] == "partial"
        assert result["semantic_unavailable"]
        assert {"stage": "embed", "reason": reason} in result["degraded"]
        assert result["backends_used"] == ["keyword"]
        assert result["results"]


@pytest.mark.parametrize(("fault", "reason"), REASONS.items())
def test_a_lost_reranker_leaves_the_fused_order(answers: Answers, fault: str, reason: str) -> None:
    """Without the reranker the answer is `unranked`, in fused order, and says why; once it is left alone, that it is
    unavailable.
    """
    results = answers("reranker", fault)
    reasons = {part["reason"] for result in results for part in result["degraded"]}
    assert {reason} <= reasons <= {reason, "unavailable"}
    for result in results:
        assert result["status"] == "unranked"
        assert [part["stage"] for part in result["degraded"]] == ["rerank"]
        assert "reranked" not in result
        scores = [hit["score"] for hit in result["results"]]
        assert scores == sorted(scores, reverse=True)
        assert scores

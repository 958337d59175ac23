"""Rerankers in the running flow: every sort of them, what they are sent, what becomes of what they say, an outage."""

import asyncio
import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench import random_bert
from flows.cli.rank import PoolRanker
from operators.clients.admission import OPENS_AFTER
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.candidates import FRAME
from schemas.settings import load
from tests.integration.chat_server import chat_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.reranked import CHAT, QUERY, TEXTS, WORDS, Running, serving
from tests.operators.clients.rerankers.chatting import honest
from tests.operators.clients.rerankers.servers import Cohere, Json, Server, TeiPredict, VllmScore, Voyage, relevance

pytest_plugins = ["tests.integration.reranked_running"]


def judged(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores of a reranker, min-max, best first."""
    low, high = min(scores.values()), max(scores.values())
    best = sorted(scores, key=lambda id_: (-scores[id_], id_))
    return {id_: (scores[id_] - low) / (high - low) for id_ in best}


def results(result: dict[str, Any]) -> dict[str, float]:
    """The results' scores, in order."""
    return {hit["id"]: hit["score"] for hit in result["results"]}


def holds(result: dict[str, Any], scores: Mapping[str, float]) -> None:
    """The answer lacks nothing, and its results are these, in this order."""
    assert (result["status"], result["degraded"], result["reranked"]) == ("ok", [], True)
    assert list(results(result)) == list(scores)
    assert results(result) == pytest.approx(scores, abs=1e-6)


def again(result: dict[str, Any], deployment: Deployment) -> None:
    """Ranked again offline, what was recorded gives the same results, scores and last steps."""
    offline = PoolRanker.of(load(None, deployment.settings), None, explain=True)(orjson.dumps(result["pool"]))
    assert list(results(offline).items()) == list(results(result).items())
    assert results(offline)
    for hit, before in zip(offline["results"], result["results"], strict=True):
        assert hit["explanation"]["stages"] == before["explanation"]["stages"]
    assert offline["provenance"]["config_hash"] == result["provenance"]["config_hash"]


class Silent(Cohere):
    """A server that leaves every document out."""

    def results(self, body: Json) -> list[Json]:
        """None."""
        return []


@pytest.mark.parametrize(("omitted", "status", "count"), [("keep", "unranked", len(TEXTS["red"])), ("drop", "ok", 0)])
def test_an_answer_without_results(running: Running, omitted: str, status: str, count: int) -> None:
    """It is a failure, and the order of the legs stands; of a server that is known to omit, nothing is relevant."""
    with (
        serving(Silent()) as url,
        running(rerank={"kind": "cohere", "url": url, "model": "m", "omitted": omitted}) as (_, ask),
    ):
        result = ask({"text": QUERY})
        assert (result["status"], len(result["results"])) == (status, count)
        assert result["total"] <= count
        assert (result["has_more"], result["next_cursor"]) == (False, None)


@pytest.mark.parametrize(("kind", "make"), [("vllm_score", VllmScore), ("tei_predict", TeiPredict), ("voyage", Voyage)])
def test_each_dialect_ranks(running: Running, kind: str, make: type[Server]) -> None:
    """By the server's scores, many tenants' queries at once too: each gets its own order, and no request has two
    tenants' documents.
    """
    server = make()
    with serving(server) as url, running(rerank={"kind": kind, "url": url, "model": "bge"}) as (deployment, ask):
        result = ask({"text": QUERY})
        holds(result, judged({id_: relevance(QUERY, text) for id_, text in TEXTS["red"].items()}))
        assert result["provenance"]["models"]["reranker"] == "bge"
        events = [
            {"query_id": f"{namespace}{number}", "namespace": namespace, "text": f"{QUERY} {number}"}
            for number in range(10)
            for namespace in ("red", "blue")
        ]
        deployment.ask(events)
        answers = {each.value["query_id"]: each.value for each in deployment.output_records(21, settled=False)}
    for event in events:
        texts = TEXTS[event["namespace"]]
        holds(answers[event["query_id"]], judged({id_: relevance(event["text"], texts[id_]) for id_ in texts}))
    for body in server.requests:
        told = json.dumps(body)
        assert sum(any(text in told for text in texts.values()) for texts in TEXTS.values()) == 1


def test_a_model_in_the_process_ranks(running: Running, tmp_path: Path) -> None:
    """By its logits of query and document, without a server."""
    directory = tmp_path / "random-bert"
    random_bert.write(directory, layers=1)
    reranker = CrossEncoder(directory)
    (logits,) = asyncio.run(reranker.score([RerankRequest(QUERY, TEXTS["red"], "documents", "red")], timeout=20))
    assert isinstance(logits, dict)
    with running(rerank={"kind": "onnx", "path": str(directory)}) as (_, ask):
        result = ask({"text": QUERY})
    assert result["status"] == "ok"
    assert list(results(result)) == list(judged(logits))
    assert results(result) == pytest.approx(judged(logits), abs=1e-3)
    assert result["provenance"]["models"]["reranker"] == "random-bert"


def test_a_chat_model_orders(running: Running) -> None:
    """The named documents are the answer, in its order; an empty list is an answer with nothing in it."""
    with (
        chat_server(lambda _, user: honest(user)) as url,
        running(chat={**CHAT, "url": url}, rerank={"kind": "chat"}) as (_, ask),
    ):
        result, nothing = ask({"text": QUERY}), ask({"text": f"{WORDS[39]} {WORDS[0]}"})
    counts = {id_: text.split().count(WORDS[0]) for id_, text in TEXTS["red"].items()}
    named = [counts[id_] for id_ in results(result)]
    assert named == sorted((count for count in counts.values() if count), reverse=True)
    assert result["results"][0]["score"] == 1.0
    for answer in (result, nothing):
        assert (answer["status"], answer["degraded"], answer["reranked"]) == ("ok", [], True)
        assert answer["provenance"]["models"]["reranker"] == "stub"
    assert nothing["results"] == []


def test_a_chat_model_picks(running: Running) -> None:
    """Its pick goes first and nobody is dropped; an empty list moves nobody; ranked again offline it is the same."""
    with (
        chat_server(lambda _, user: '{"ranking": []}' if WORDS[39] in user else '{"ranking": [4]}') as url,
        running(chat={**CHAT, "url": url}, rerank={"kind": "chat", "mode": "pick"}) as (deployment, ask),
    ):
        event = {"text": QUERY, "explain": True, "record": True}
        fused, picked = ask({**event, "rerank": False}), ask(event)
        nothing = {"text": f"{QUERY} {WORDS[39]}"}
        unmoved, none = ask({**nothing, "rerank": False}), ask(nothing)
        first, second, third, fourth, *others = results(fused)
        assert list(results(picked)) == [fourth, first, second, third, *others]
        assert results(none) == results(unmoved)
        for answer in (picked, none):
            assert (answer["status"], answer["degraded"]) == ("ok", [])
        assert picked["reranked"] is none["reranked"] is True
        assert "reranked" not in unmoved
        again(picked, deployment)


def test_what_is_sent_is_bounded(running: Running) -> None:
    """Documents are cut, a query's go in several requests, each within the bound on characters; what these say is
    merged with the fused scores, and ranked again offline it is the same.
    """
    server, cut, room = Cohere(), 22, 60
    rerank = {"kind": "cohere", "max_doc_chars": cut, "max_batch_chars": len(QUERY) + FRAME + room}
    with serving(server) as url, running(rerank={**rerank, "url": url}) as (deployment, ask):
        half = {"rerank": {"weight": 0.5}}
        result = ask({"text": QUERY, "explain": True, "record": True, "overrides": half})
        fused = results(ask({"text": QUERY, "rerank": False}))
        again(result, deployment)
    sent = [body["documents"] for body in server.requests]
    assert len(sent) == 5
    assert all(sum(map(len, documents)) <= room for documents in sent)
    assert sorted(chain.from_iterable(sent)) == sorted(text[:cut] for text in TEXTS["red"].values())
    said = judged({id_: relevance(QUERY, text[:cut]) for id_, text in TEXTS["red"].items()})
    before = judged(fused)
    merged = {id_: 0.5 * said[id_] + 0.5 * before[id_] for id_ in said}
    holds(result, {id_: merged[id_] for id_ in sorted(merged, key=lambda id_: (-merged[id_], id_))})


def test_a_dead_reranker_is_left_alone(running: Running) -> None:
    """Every query is answered in fused order, with the reason; after a few failures most make no request any more; and
    once the server is back, answers are reranked again.
    """
    server, down, count = Cohere(), True, 40
    with (
        serving(server, lambda: down) as url,
        running(rerank={"kind": "cohere", "url": url, "max_concurrency": 1}) as (deployment, ask),
    ):
        expected = results(ask({"text": QUERY, "rerank": False}))
        deployment.ask([{"query_id": f"dead{n}", "namespace": "red", "text": QUERY} for n in range(count)])
        answers = [
            each.value for each in deployment.output_records(count + 1) if each.value["query_id"].startswith("dead")
        ]
        assert OPENS_AFTER <= len(server.requests) < count / 2
        assert len(answers) == count
        for answer in answers:
            assert (answer["status"], answer["degraded"]) == (
                "unranked",
                [{"stage": "rerank", "reason": "unavailable"}],
            )
            assert results(answer) == expected
            assert "reranked" not in answer
        down, attempts = False, 0

        def back() -> bool:
            nonlocal attempts
            attempts += 1
            deployment.ask([{"query_id": f"back{attempts}", "namespace": "red", "text": QUERY}])
            ended = deployment.output_records(count + 1 + attempts, settled=False)
            return any(each.value["status"] == "ok" and "reranked" in each.value for each in ended)

        wait_until(back)

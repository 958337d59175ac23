"""Rerankers that throttle, that come back, and that refuse single documents, in the running search flow."""

import re
import urllib.request
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.deployment import Deployment, Flow, assert_each_once, wait_until
from tests.integration.reranked import QUERY, TEXTS, WORDS, Running, hosting
from tests.operators.clients.model_servers.manners import OVERLOADED, RERANKERS
from tests.operators.clients.model_servers.playing import Manner, Playing, beyond

pytest_plugins = ["tests.integration.reranked_running"]

PERMITS = 128
"""Texts that the server works on at once: less than one replica may send, at 16 calls of 32."""


def burst(deployment: Deployment, name: str, count: int) -> list[str]:
    """Send queries at once, each with a text and so with scores of its own; their ids."""
    events = [
        {
            "query_id": f"{name}{number}",
            "namespace": "green",
            "text": f"{WORDS[number % 12]} {WORDS[0]} {name} {number}",
        }
        for number in range(count)
    ]
    deployment.ask(events)
    return [event["query_id"] for event in events]


def answers(deployment: Deployment, count: int) -> dict[str, dict[str, Any]]:
    """The results of so many queries, by query id."""
    ended = deployment.output_records(count)
    assert_each_once(deployment, ended)
    return {each.value["query_id"]: each.value for each in ended}


def breaker_open(flow: Flow) -> bool:
    """True if the replica's metrics say that it leaves the reranker alone."""
    with urllib.request.urlopen(f"http://127.0.0.1:{flow.port}/metrics", timeout=5) as answer:
        found = re.search(r'(?m)^rankstream_breaker_open\{[^}]*backend="reranker"[^}]*\} (\S+)', answer.read().decode())
    assert found is not None
    return float(found[1]) > 0


def test_a_burst_over_the_permits_is_ranked_whole(running: Running) -> None:
    """Of 200 queries at once, by two replicas, before a server with a bound on the texts under way, none is lost."""
    manner = Manner("text-embeddings-inference", "tei", "permits", beyond(PERMITS, OVERLOADED))
    server = Playing("reranker", "tei", manner, seconds=0.02)
    with hosting(server) as url, running(rerank={"kind": "tei", "url": url, "timeout": 55}) as (deployment, _):
        deployment.start(replica="1")
        asked = burst(deployment, "burst", 200)
        found = answers(deployment, 200)
        assert not any(breaker_open(flow) for flow in deployment.flows)
    assert {id_: (found[id_]["status"], found[id_]["degraded"]) for id_ in asked} == dict.fromkeys(asked, ("ok", []))
    assert server.failed


def test_a_reranker_that_is_well_again_ranks_the_next_burst(running: Running) -> None:
    """After an outage, and with no query since, the breaker closes by itself, and each query of a burst is ranked."""
    server = Playing("reranker", "tei")
    with hosting(server) as url, running(rerank={"kind": "tei", "url": url}) as (deployment, _):
        [flow] = deployment.flows
        server.down = True
        down = burst(deployment, "down", 20)
        assert {each["status"] for each in answers(deployment, 20).values()} == {"unranked"}
        assert breaker_open(flow)
        server.down = False
        wait_until(lambda: not breaker_open(flow))
        asked = burst(deployment, "well", 100)
        found = answers(deployment, 120)
    assert down
    assert {id_: found[id_]["status"] for id_ in asked} == dict.fromkeys(asked, "ok")


REFUSING = [manner for manner in RERANKERS if manner.outcome == "refused alone"]


@pytest.mark.parametrize("manner", REFUSING, ids=[manner.name for manner in REFUSING])
def test_one_document_costs_a_query_no_ranking(running: Running, manner: Manner) -> None:
    """Of fifty documents one is refused, in whatever form: the others are ranked, and the result counts that one."""
    texts = TEXTS["violet"]
    refused = "violet-17"
    server = Playing("reranker", manner.kind, replace(manner, text=texts[refused]))
    with hosting(server) as url, running(rerank={"kind": manner.kind, "url": url, "model": "m"}) as (_, ask):
        result = ask({"text": QUERY, "namespace": "violet", "limit": 50})
    assert (result["status"], result["reranked"], result["unscored_candidates"]) == ("ok", True, 1)
    hits = [hit["id"] for hit in result["results"]]
    assert sorted(hits) == sorted(texts)
    assert hits[-1] == refused
    assert server.failed

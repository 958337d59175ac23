"""Both flows together: documents in, queries in, ranked answers out, on Qdrant's engine and MiniLM."""

import uuid
from collections.abc import Iterator

import pytest

from bench.kafka.broker import Broker
from operators.clients.local.minilm import NAMES
from operators.clients.local.quantisation import chosen
from tests.integration.deployment import Deployment, assert_each_once
from tests.integration.searching import Ask, asking, searching

DOCUMENTS = [
    {"id": "strptime", "namespace": "python", "text": "Parse a string to a time tuple according to a format."},
    {"id": "strptime-copy", "namespace": "python", "text": "parse a string  to a time tuple according to a FORMAT."},
    {"id": "sort", "namespace": "python", "text": "Return a new sorted list from the items in an iterable."},
    {"id": "zip", "namespace": "python", "text": "Aggregate elements from each of the iterables into tuples."},
    {"id": "secret", "namespace": "acme", "text": "Parse a date from a string, said the lawyer of the other tenant."},
]


@pytest.fixture(scope="module")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Both flows, with DOCUMENTS indexed."""
    unique = uuid.uuid4().hex[:8]
    directory = tmp_path_factory.mktemp("search")
    with searching(broker, directory, lambda word: f"{word}-{unique}", DOCUMENTS) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ask(system: Deployment) -> Ask:
    """Ask one query and wait for its result."""
    return asking(system, "python")


def test_the_best_document_comes_first(ask: Ask) -> None:
    """Vector and keyword legs and the reranker agree on what answers the question; scores fall with rank."""
    result = ask({"text": "parse a date from a string", "metadata": {"mine": [1]}})
    assert result["status"] == "ok"
    assert result["results"][0]["id"].startswith("strptime")
    assert result["results"][0]["legs"].keys() == {"vector", "keyword"}
    scores = [hit["score"] for hit in result["results"]]
    assert scores == sorted(scores, reverse=True)
    assert result["reranked"]
    assert result["metadata"] == {"mine": [1]}
    assert result["provenance"]["models"]["embedder"] == NAMES[chosen("auto")]


def test_no_tenant_sees_anothers_documents(ask: Ask) -> None:
    """The best match of another namespace is no candidate, and a namespace without documents has none."""
    assert "secret" not in {hit["id"] for hit in ask({"text": "parse a date from a string"})["results"]}
    assert ask({"text": "parse a date", "namespace": "nobody"})["total"] == 0


def test_the_same_content_is_one_result(ask: Ask) -> None:
    """Of two documents that differ only in case and white space one is a result."""
    ids = {hit["id"] for hit in ask({"text": "parse a string to a time tuple"})["results"]}
    assert len(ids & {"strptime", "strptime-copy"}) == 1


def test_a_query_can_bring_its_own_vector(ask: Ask) -> None:
    """With a vector and no text only the vector leg is asked, and nothing is embedded or reranked."""
    result = ask({"vector": [1.0] + [0.0] * 383})
    assert result["backends_used"] == ["vector"]
    assert "reranked" not in result
    assert result["status"] == "ok"


def test_punctuation_leaves_the_vector_leg(ask: Ask) -> None:
    """A query of punctuation skips the keyword leg, with a warning, and is answered by meaning."""
    result = ask({"text": "?!"})
    assert {leg["name"]: leg["reason"] for leg in result["legs"]} == {"vector": None, "keyword": "no_terms"}
    assert result["warnings"]
    assert result["status"] == "ok"


def test_rerank_false_leaves_the_fused_order(ask: Ask) -> None:
    """`rerank: false` is obeyed, and `limit` cuts the page, not the pool."""
    result = ask({"text": "sorted items of an iterable", "rerank": False, "limit": 1})
    assert "reranked" not in result
    assert len(result["results"]) == 1
    assert result["has_more"]
    assert result["total"] > 1


def test_a_deadline_that_has_passed_is_expired(system: Deployment) -> None:
    """A query that was too long on its way is answered `expired`, and nobody is asked."""
    for flow in system.flows:
        if flow.process.poll() is None:
            assert flow.terminate() == 0
    before = len(system.places())
    system.ask([{"query_id": "late", "text": "zip", "timeout_ms": 1}])
    flow = system.start("run", replica="s")
    output_records = system.output_records(before + 1)
    assert_each_once(system, output_records)
    (late,) = [t.value for t in output_records if t.value.get("query_id") == "late"]
    assert late["status"] == "expired"
    assert late["legs"] == []
    assert flow.terminate() == 0

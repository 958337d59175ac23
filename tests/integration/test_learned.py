"""The leg `learned` in the running flows: a sparse encoder behind a server, Qdrant's engine, and a real broker."""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from aiohttp import web

from bench.kafka.broker import Broker
from schemas import headers as names
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.reranked import hosting
from tests.integration.searching import Ask, asking
from tests.integration.test_other_tools import MADE, TEXTS, TOOLS
from tests.integration.test_poison import settled
from tests.operators.clients.http.serving import json_response

SYNONYMS: Final = {"boat": ("ferry",), "lamp": ("lantern",)}
SAID: Final = "the expanded size of the tensor must match"


def term(word: str) -> int:
    """The number of a word."""
    return zlib.crc32(word.encode())


def expanded(text: str) -> dict[int, float]:
    """The terms of a text: its words with the weight 1, and what they mean with 0.5."""
    words = text.lower().split()
    meant = [other for word in words for other in SYNONYMS.get(word, ())]
    return {**dict.fromkeys(map(term, meant), 0.5), **dict.fromkeys(map(term, words), 1.0)}


class Splade:
    """A server of /embed_sparse that expands words, and fails for a text with the word poison, or for all while down.

    It keeps the texts of each call.
    """

    def __init__(self) -> None:
        self.calls: list[Sequence[str]] = []
        self.down = False

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        assert request.path == "/base/embed_sparse"
        texts = (await request.json())["inputs"]
        self.calls.append(texts)
        if self.down or any("poison" in text for text in texts):
            return json_response({"error": SAID, "error_type": "Backend"}, 500)
        rows = map(expanded, texts)
        return json_response([[{"index": index, "value": value} for index, value in row.items()] for row in rows])


Learning = tuple[Deployment, Ask, Splade, str]

DOCUMENTS: Final = [
    {"id": "ferry", "text": "the ferry leaves at noon", "vector": [1.0, 0.0, 0.0, 0.0]},
    {"id": "lantern", "text": "a lantern burns", "vector": [0.0, 1.0, 0.0, 0.0]},
    {"id": "garden", "text": "the garden sleeps", "vector": [0.0, 0.0, 1.0, 0.0]},
    {"id": "poison", "text": "poison", "vector": [0.0, 0.0, 0.0, 1.0]},
    {"id": "mute", "text": "", "vector": [0.0, 0.0, 0.5, 0.5]},
]
FAR: Final = [0.0, 0.0, 0.0, 1.0]
RECIPES: Final = {"learning": {"stages": [{"score": {"weights": {"vector": 0.1, "keyword": 0.4, "learned": 0.5}}}]}}


@pytest.fixture(scope="module")
def learning(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learning]:
    """Both flows with a sparse encoder, and the documents indexed but for the one that the encoder refuses."""
    directory, splade = tmp_path_factory.mktemp("learned"), Splade()
    with hosting(splade) as url, qdrant_server.running(directory / "engine") as qdrant:
        sections = {
            "qdrant": {"url": qdrant, "dimension": 4, "timeout": 20, "vectors": {"learned": "splade"}},
            "sparse_encoder": {"kind": "tei", "url": url, "model": "splade-v3", "timeout": 20},
            "recipes": RECIPES,
            "limits": {"timeout": 60},
            "cache": {"exact_mib": 0, "semantic_mib": 0},
        }
        with Deployment.on(broker, directory, lambda word: f"{word}-{directory.name}", sections) as system:
            indexing = system.start("index", replica="i")
            system.produce("documents", [json.dumps(document).encode() for document in DOCUMENTS])
            wait_until(lambda: settled(system) == len(DOCUMENTS))
            assert indexing.terminate() == 0
            system.start("run", replica="s")
            yield system, asking(system, "default"), splade, qdrant


def test_documents_have_the_encoders_vector(learning: Learning) -> None:
    """As the encoder weighed it, without a modifier; none for a blank text; a refused document is a dead letter with
    the server's reason.
    """
    system, _, splade, qdrant = learning
    made = httpx.get(f"{qdrant}/collections/documents").json()["result"]["config"]["params"]["sparse_vectors"]
    assert {name: each.get("modifier") or "none" for name, each in made.items()} == {"bm25": "idf", "splade": "none"}
    body = {"with_vector": ["splade"], "with_payload": ["id"], "limit": 10}
    points = httpx.post(f"{qdrant}/collections/documents/points/scroll", json=body).json()["result"]["points"]
    found: dict[str, Any] = {point["payload"]["id"]: (point.get("vector") or {}).get("splade") for point in points}
    assert found.keys() == {"ferry", "lantern", "garden", "mute"}
    assert found["mute"] is None
    assert all(any(text.strip() for text in call) for call in splade.calls)
    read = dict(zip(found["ferry"]["indices"], found["ferry"]["values"], strict=True))
    assert read == expanded("the ferry leaves at noon")
    [letter] = system.records("dead_letters")
    assert json.loads(letter.value)["id"] == "poison"
    assert SAID in dict(letter.headers)[names.MESSAGE].decode()


def test_a_document_is_found_by_what_its_words_mean(learning: Learning) -> None:
    """Worked by hand: no word of the query is in the text. The leg's score is the product of the weights, and the
    explanation has its share of the fused score.
    """
    _, ask, _, _ = learning
    found = ask({"text": "boat", "vector": FAR, "recipe": "learning", "explain": True, "debug": True})
    assert (found["status"], found["degraded"], found["warnings"]) == ("ok", [], [])
    assert found["provenance"]["models"]["sparse_encoder"] == "splade-v3"
    legs = {leg["name"]: (leg["status"], leg["candidates"]) for leg in found["legs"]}
    assert (legs["learned"], legs["keyword"]) == (("ok", 1), ("ok", 0))
    assert "learned" in found["backends_used"]
    first = found["results"][0]
    assert first["id"] == "ferry"
    assert first["legs"]["learned"] == {"rank": 0, "score": 0.5}
    # The only hit of its leg is 1 on the common scale.
    explained = {"rank": 0, "score": 0.5, "normalised": 1.0, "weight": 0.5, "contribution": 0.5}
    assert first["explanation"]["legs"]["learned"] == explained
    assert {"encode", "learned"} <= set(found["debug"]["stages_hit"])
    assert found["debug"]["candidates_per_stage"]["learned"] == 1


def test_an_encoder_that_fails_costs_its_leg_alone(learning: Learning) -> None:
    """A refused text, and an outage: the answer says so, and the other legs answer; a known text needs no call."""
    _, ask, splade, _ = learning
    asked = {"vector": FAR, "recipe": "learning"}
    assert ask({"text": "lamp", **asked})["results"][0]["id"] == "lantern"
    refused = ask({"text": "poison garden", **asked})
    splade.down = True
    calls = len(splade.calls)
    assert ask({"text": "lamp", **asked})["results"][0]["id"] == "lantern"
    assert len(splade.calls) == calls
    lost = ask({"text": "garden lamp", **asked})
    splade.down = False
    for result in (refused, lost):
        [part] = result["degraded"]
        assert (result["status"], part) == ("partial", {"stage": "encode", "reason": "unavailable"})
        legs = {leg["name"]: (leg["status"], leg["reason"]) for leg in result["legs"]}
        assert legs["learned"] == ("skipped", "unavailable")
        assert result["results"][0]["id"] == "garden"


def test_a_recipe_without_weight_for_it_asks_no_encoder(learning: Learning) -> None:
    """The shipped recipes are as they were."""
    _, ask, splade, _ = learning
    calls = len(splade.calls)
    found = ask({"text": "boat at sea", "vector": FAR, "recipe": "rrf"})
    assert {leg["name"] for leg in found["legs"]} == {"vector", "keyword"}
    assert len(splade.calls) == calls


def test_an_index_without_the_vector_answers_by_the_other_legs(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """One that was made before: the leg is skipped with the reason, a warning says what to configure, and no text is
    encoded for nothing.
    """
    splade = Splade()
    with hosting(splade) as url, qdrant_server.running(tmp_path / "engine") as qdrant:
        older = {"qdrant": {"url": qdrant, "dimension": 4, "timeout": 20}, "limits": {"timeout": 60}}
        with Deployment.on(broker, tmp_path, topic_names, older) as system:
            indexing = system.start("index", replica="i")
            system.produce("documents", [json.dumps(document).encode() for document in DOCUMENTS])
            wait_until(lambda: settled(system) == len(DOCUMENTS))
            assert indexing.terminate() == 0
            system.settings["qdrant"]["vectors"] = {"learned": "splade"}
            system.settings["sparse_encoder"] = {"kind": "tei", "url": url, "model": "m"}
            system.settings["recipes"] = RECIPES
            system.start("run", replica="s")
            found = asking(system, "default")({"text": "ferry", "vector": FAR, "recipe": "learning"})
    assert (found["status"], found["degraded"]) == ("ok", [])
    legs = {leg["name"]: (leg["status"], leg["reason"]) for leg in found["legs"]}
    assert legs["learned"] == ("skipped", "no_sparse_vector")
    assert "ferry" in [result["id"] for result in found["results"]]
    [warning] = found["warnings"]
    assert warning.startswith("no_sparse_vector: ")
    assert splade.calls == []


def test_a_collection_that_langchain_filled_is_searched_by_its_sparse_vector(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """With the configuration of the page: points as langchain-qdrant writes them in its hybrid mode."""
    points = [
        {**point, "vector": {"": point["vector"], "langchain-sparse": sparse_of(point["payload"]["page_content"])}}
        for point in MADE["langchain"]["points"]
    ]
    splade = Splade()
    with hosting(splade) as url, qdrant_server.running(tmp_path / "engine") as qdrant:
        place = f"{qdrant}/collections/langchain_splade"
        config = {"vectors": MADE["langchain"]["config"]["vectors"], "sparse_vectors": {"langchain-sparse": {}}}
        httpx.put(place, json=config).raise_for_status()
        httpx.put(f"{place}/points?wait=true", json={"points": points}).raise_for_status()
        page = TOOLS["langchain_splade"]
        sections = {
            **page,
            "qdrant": {**page["qdrant"], "url": qdrant, "dimension": 4, "timeout": 20},
            "embedder": {"kind": "none"},
            "sparse_encoder": {**page["sparse_encoder"], "url": url, "timeout": 20},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as system:
            system.start()
            (recipe,) = page["recipes"]
            ask = asking(system, "acme")
            found = ask({"text": "boat", "vector": [1.0, 0.0, 0.0, 0.0], "recipe": recipe})
    legs = {leg["name"]: (leg["status"], leg["candidates"]) for leg in found["legs"]}
    assert (found["degraded"], legs["learned"]) == ([], ("ok", 1))
    [hit] = [result for result in found["results"] if "learned" in result["legs"]]
    assert (hit["text"], hit["legs"]["learned"]) == (TEXTS[0], {"rank": 0, "score": 0.5})


def sparse_of(text: str) -> dict[str, Any]:
    """The sparse vector of a text as points have it."""
    terms = expanded(text)
    return {"indices": list(terms), "values": list(terms.values())}

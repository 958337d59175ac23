"""A chat model in the running flow: it reads times and picks results, and answers say when it couldn't."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from bench.kafka.broker import Broker
from tests.integration.chat_server import chat_server
from tests.integration.deployment import Deployment
from tests.integration.searching import Ask, asking, searching
from tests.integration.test_recipes import DOCUMENTS, NOW, ids

PICKING = {"enabled": True, "top_k": 3}
RECIPES = {
    "told": {"stages": ["score", {"temporal": {"boost": 5.0, "extractor": "chat"}}]},
    "picked": {"stages": ["score", {"llm_rerank": PICKING}]},
}
OUTAGE = "zzz"
NO_TIME = json.dumps({"days": None, "tolerance": None})


def reply(system: str, user: str) -> str | None:
    """A model that knows when spring is, and picks the second document; one word is too much for it."""
    if OUTAGE in user:
        return None
    if "Today" in user:
        return json.dumps({"days": 366, "tolerance": 5}) if "Frühling" in user else NO_TIME
    return json.dumps({"ranking": [2]})


@pytest.fixture(scope="module")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The search flow over DOCUMENTS, with the model."""
    unique = uuid.uuid4().hex[:8]
    directory = tmp_path_factory.mktemp("chat")
    with chat_server(reply) as url:
        chat = {"kind": "openai", "url": url, "model": "stub", "timeout": 20}
        sections: dict[str, Any] = {"chat": chat, "recipes": RECIPES}
        with searching(broker, directory, lambda word: f"{word}-{unique}", DOCUMENTS, sections) as deployment:
            yield deployment


@pytest.fixture(scope="module")
def ask(system: Deployment) -> Ask:
    """Ask one query about NOW and wait for its result."""
    one = asking(system, "diary")
    return lambda event: one({"now": NOW, **event})


def test_the_model_reads_a_time_that_the_rules_cannot(ask: Ask) -> None:
    """A German phrase has no anchor by the rules; the model's brings the document of that time to the top."""
    event = {"text": "vet, letzten Frühling", "rerank": False, "explain": True}
    assert ids(ask({**event, "recipe": "hybrid"}))[0] != "old"
    result = ask({**event, "recipe": "told"})
    assert ids(result)[0] == "old"
    assert result["results"][0]["explanation"]["stages"][-1]["values"]["days"] == 366
    assert result["status"] == "ok"


def test_without_the_model_the_rules_read_the_time(ask: Ask) -> None:
    """The rules' anchor stands if the model fails, and the answer says what it lacks."""
    result = ask({"text": f"cat {OUTAGE} a week ago", "recipe": "told", "rerank": False})
    assert set(ids(result)[:2]) == {"week", "copy"}
    assert result["degraded"] == [{"stage": "temporal_expression", "reason": "unavailable"}]
    assert result["status"] == "partial"


def test_the_picked_document_goes_first(ask: Ask) -> None:
    """The model's pick, the second of the fused order, comes first at half of the smallest distance."""
    event = {"text": "the cat and the vet", "recipe": "picked", "explain": True}
    fused, picked = ask({**event, "rerank": False}), ask(event)
    first, second, *others = ids(fused)
    assert ids(picked) == [second, first, *others]
    smallest = max(0.0, 1.0 - fused["results"][0]["score"])
    assert picked["results"][0]["score"] == pytest.approx(1.0 - smallest / 2)
    assert picked["reranked"] is True
    assert picked["provenance"]["models"]["reranker"] == "stub"
    assert picked["results"][0]["explanation"]["stages"][-1]["stage"] == "llm_rerank"


def test_a_failed_pick_leaves_the_fused_order(ask: Ask) -> None:
    """Nothing moves if the model fails: the answer is `unranked`, with the reason."""
    event = {"text": f"the cat {OUTAGE}", "recipe": "picked"}
    fused, failed = ask({**event, "rerank": False}), ask(event)
    assert [(hit["id"], hit["score"]) for hit in failed["results"]] == [
        (hit["id"], hit["score"]) for hit in fused["results"]
    ]
    assert failed["status"] == "unranked"
    assert failed["degraded"] == [{"stage": "rerank", "reason": "unavailable"}]

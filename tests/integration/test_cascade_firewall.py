"""The firewall, through the running flow: who sees which documents, at every stage, and the tripwire behind it."""

import json
from typing import Any

import httpx
import pytest

from tests.integration.cascade import EVERY_LEG, RETRIEVE, Json, System, ids
from tests.integration.cascade_backends import Backends, vector
from tests.integration.cascade_documents import LAMPS
from tests.integration.cascade_sources import by
from tests.otlp import Receiver

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

EVERYBODY = {"public", "unclassified", "draft", "reviewed", "signed"}
"""Live, not sealed, and public or not classified."""

SEEN: dict[str | None, set[str]] = {
    None: EVERYBODY,
    "stranger": EVERYBODY,
    "public": EVERYBODY,
    "internal": EVERYBODY | {"internal"},
    "confidential": EVERYBODY | {"internal", "confidential"},
    "restricted": EVERYBODY | {"internal", "confidential", "restricted", "secret and signed"},
    "undrafted": (EVERYBODY | {"internal", "confidential", "restricted", "secret and signed"}) - {"draft"},
    "signing": {"draft", "signed", "secret and signed"},
    "both": {"reviewed", "signed"},
}

SHAPES: dict[str, Json] = {
    "fast_path": {"subject": "lamp"},
    "structured": {"filters": [{"field": "text", "op": "exists", "value": True}]},
    "keyword": {"text": "lantern", "profile": "fast"},
    "semantic": {"vector": vector("any")},
    "hybrid_merge": {"text": "the lantern of the harbor"},
    "expression": {"text": '"the lantern" NOT zebra', "profile": "fast"},
    "prefix": {"text": "lant*", "profile": "fast"},
    "decay": {"text": "lantern", "recipe": "decay"},
    "deep": {"text": "lantern", "profile": "deep"},
}


def _headers(source: str | None) -> list[tuple[str, bytes]]:
    return by(source) if source is not None else []


@pytest.mark.parametrize("source", SEEN)
def test_who_sees_what_at_every_stage(vault: System, source: str | None) -> None:
    """By clearance and labels the same documents by every way, cached or not; the tripwire finds nothing."""
    events = [{**shape, "limit": 50} for shape in SHAPES.values()]
    for _ in range(2):
        for name, answer in zip(SHAPES, vault.answers(events, _headers(source)), strict=True):
            assert set(ids(answer)) == SEEN[source], name
            assert answer["removed_by_firewall"] == 0
    again = vault.ask({**events[4]}, _headers(source))
    assert again["retrieval_stage"] == "exact_cache"
    assert set(ids(again)) == SEEN[source]


def test_every_leg_is_asked_with_the_conditions(vault: System) -> None:
    """A hidden document isn't even found: each search of each leg has the conditions."""
    vault.qdrant.forget()
    answer = vault.ask({"text": "a lantern", **EVERY_LEG, "limit": 40}, by("undrafted"))
    assert {each["name"]: each["candidates"] for each in answer["legs"]} == {
        "vector": 9 - 1,
        "keyword": 8,
        "structured": 8,
    }
    searches = vault.qdrant.searches()
    assert len(searches) == 3
    for search in searches:
        told = json.dumps(search["filter"])
        assert all(word in told for word in ("draft", "sealed", "live", "restricted", "vault"))


def test_pages_hold_what_may_be_seen(vault: System) -> None:
    """Pages of fast path, lookup and search are of these documents alone, and are all of them."""
    events = [{**SHAPES[name], "limit": 2} for name in ("fast_path", "structured", "hybrid_merge")]
    for pages in vault.pages(events, by("confidential")):
        found = [id_ for page in pages for id_ in ids(page)]
        assert sorted(found) == sorted(SEEN["confidential"])


def test_an_unknown_clearance_is_refused(vault: System) -> None:
    """A source whose clearance is no tier sees nothing: denied at every shape."""
    for answer in vault.answers(list(SHAPES.values()), by("cosmic")):
        assert (answer["status"], answer["denied"]["code"]) == ("denied", "retrieval_firewall_denied")
        assert "cosmic" not in answer["denied"]["reason"]


def test_a_namespace_has_a_tier(vault: System) -> None:
    """A source with less clearance than a namespace's tier may not ask in it; one that has it may."""
    for source, status in ((None, "denied"), ("internal", "denied"), ("confidential", "ok"), ("restricted", "ok")):
        answer = vault.ask({"namespace": "board", "subject": "lamp"}, _headers(source))
        assert answer["status"] == status
        assert ids(answer) == (["minutes"] if status == "ok" else [])
        if status == "denied":
            assert answer["denied"]["code"] == "retrieval_firewall_denied"


def test_off_there_is_neither_filter_nor_check(kitchen: System) -> None:
    """Without the firewall a restricted document is one like any other, and nobody asks for its tier."""
    kitchen.qdrant.forget()
    answer = kitchen.ask({"text": "pasta with salt", "limit": 12})
    assert ids(answer)[0] == "pasta"
    assert answer["removed_by_firewall"] == 0
    assert "classification" not in json.dumps(kitchen.qdrant.searches())


def test_a_cached_answer_is_checked_by_what_was_cached(vault: System) -> None:
    """Reclassified past the indexer, a document stays in cached answers; reclassified by the indexer it leaves them."""
    document = {"id": "trunk", "namespace": "attic", "text": "The trunk in the attic.", "labels": ["live"]}
    event, secret = {"namespace": "attic", "text": "trunk", "profile": "fast"}, {"classification": "restricted"}
    vault.write([document])
    computed = vault.ask(event)
    _set(vault, "trunk", secret)
    cached, other = vault.ask(event), vault.ask({**event, "limit": 7})
    assert cached["retrieval_stage"] == "exact_cache"
    assert (ids(computed), ids(cached), ids(other)) == (["trunk"], ["trunk"], [])
    vault.write([{**document, **secret}])
    assert ids(vault.ask(event)) == []


def _set(system: System, id_: str, payload: Json) -> None:
    qdrant = system.deployment.settings["qdrant"]["url"]
    chosen = {"must": [{"key": "id", "match": {"value": id_}}]}
    body = {"payload": payload, "filter": chosen}
    assert httpx.post(f"{qdrant}/collections/documents/points/payload?wait=true", json=body).is_success


def _asked(backends: Backends) -> str:
    return json.dumps(backends.reranker.requests)


@pytest.mark.parametrize("source", ["internal", "restricted"])
def test_the_tripwire(vault: System, backends: Backends, collector: Receiver, source: str) -> None:
    """Records that the filter lets through and the check doesn't: counted, never named, and read by nobody.

    Neither the reranker nor a span, a recorded pool or a result has their texts or ids.
    """
    hidden: dict[int, Any] = {
        1: {"classification": ["public", "restricted"]},
        2: {"namespace": ["wire", "cellar"]},
        3: {"classification": ["internal", "cosmic"]},
    }
    for number, payload in hidden.items():
        _set(vault, f"wire {number}", payload)
    backends.reranker.requests.clear()
    events: list[Json] = [
        {"text": f"the lantern, {source}", "record": True, "explain": True, "debug": True},
        {"text": "lantern", "recipe": "decay", "record": True},
        {"text": "lantern", "profile": "fast", "record": True},
        {"text": "lant*", "profile": "fast"},
        {"vector": vector("any"), "record": True},
        {"subject": "lamp", "record": True},
        {"filters": [{"field": "text", "op": "exists", "value": True}], "record": True},
    ]
    asked = [{"namespace": "wire", "limit": 50, **event} for event in events]
    # `internal` alone asks for tiers of which one of the third record's is one.
    removed = len(hidden)
    for answer in vault.answers(asked, by(source)):
        assert set(ids(answer)) == {"wire 0", "wire 4", "wire 5"}
        assert answer["removed_by_firewall"] == removed
        told = json.dumps(answer)
        assert not any(f"wire {number}" in told for number in hidden)
    assert "lantern wire 0" in _asked(backends)
    assert not any(f"lantern wire {number}" in _asked(backends) for number in hidden)
    spans = collector.wait_for(lambda spans: any(f"the lantern, {source}" in str(span) for span in spans), 30)
    assert not any("wire 1" in str(span) or "lantern wire" in str(span) for span in spans)


def test_what_is_hidden_between_the_legs_and_the_payloads(vault: System, backends: Backends) -> None:
    """A document that is reclassified while its query is under way is taken out before anybody reads it."""
    vault.write([{**LAMPS[0], "id": f"wire {n}", "namespace": "new", "text": f"The new lamp {n}."} for n in (7, 8, 9)])
    backends.reranker.requests.clear()
    with vault.qdrant.holding(RETRIEVE):
        asked = vault.send([{"namespace": "new", "text": "lamp", "record": True}], by("public"))
        assert vault.qdrant.reached.wait(30)
        _set(vault, "wire 8", {"classification": "restricted"})
    (ended,) = vault.collect(asked)
    assert set(ids(ended.value)) == {"wire 7", "wire 9"}
    assert ended.value["removed_by_firewall"] == 1
    assert "wire 8" not in json.dumps(ended.value)
    assert "new lamp 7" in _asked(backends)
    assert "new lamp 8" not in _asked(backends)

"""Fetch: payloads that are cached aren't asked for, and none is older than what the query's search saw."""

import asyncio
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operators.access.firewall import AccessFilter
from operators.caching.bounded import PayloadCache
from operators.clients.qdrant.client import Fields, QdrantClient, all_but
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.making import ensure
from operators.query.backend_answers import Hits
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.query.search import Found
from operators.ranking.candidate import Candidate, union
from operators.ranking.content import fingerprint
from operators.runtime.dispatcher import Bounds
from operators.stages.fetch import Fetching
from operators.stages.fuse import take_over
from schemas.document import CONTENT, EXPIRES, index_keys
from schemas.errors import BackendError
from schemas.settings import QdrantSettings
from tests.operators.samples import DIMENSION, query

NOBODY: Any = None
BATCH_KEY = "fetch", "documents"
PAYLOADS: dict[str, dict[str, Any]] = {
    "a": {"text": "x", "namespace": "public"},
    "b": {"text": "y", "namespace": "public"},
}


def fetching(client: QdrantClient = NOBODY) -> Fetching:
    """The stage, for three candidates, with an empty cache."""
    return Fetching(client, lambda _: 3, Bounds(1, 1, 1), PayloadCache(1 << 20))


def found(*legs: Hits, **event: Any) -> InFlight:
    """A query whose legs found these, not ranked."""
    asked = query(**event)
    names = ("vector", "keyword")
    asked.retrieval.found = {name: Found(leg) for name, leg in zip(names, legs, strict=False)}
    take_over(asked)
    payloads = union(list(asked.outcome.legs.values()))
    asked.outcome.results = Results([Candidate(id_, 0.5, payload) for id_, payload in payloads.items()])
    return asked


def hits(ids: str, versions: Sequence[int]) -> Hits:
    """These points, in these versions."""
    return Hits(list(ids), [0.5] * len(ids), [{"namespace": "public"} for _ in ids], versions)


def fetched(stage: Fetching, asked: InFlight, payloads: dict[str, dict[str, Any]]) -> list[str]:
    """The payloads that the query asks for; then it has them."""
    if (request := stage.request(asked)) is None:
        return []
    _, ids = request
    stage.on_result(asked, {id_: payloads[id_] for id_ in ids if id_ in payloads})
    return ids


def test_what_was_fetched_is_not_fetched_again() -> None:
    """The next query that sees the same versions asks for nothing, and has the payloads."""
    stage = fetching()
    assert fetched(stage, found(hits("ab", [1, 2])), PAYLOADS) == ["a", "b"]
    again = found(hits("ab", [1, 2]))
    assert fetched(stage, again, {}) == []
    assert again.outcome.payloads == PAYLOADS


def test_only_what_changed_is_fetched() -> None:
    """A later version of one point is asked for, alone."""
    stage = fetching()
    fetched(stage, found(hits("ab", [1, 2])), PAYLOADS)
    later = found(hits("ab", [1, 3]))
    new = {"text": "new", "namespace": "public"}
    assert fetched(stage, later, {"b": new}) == ["b"]
    assert later.outcome.payloads == {"a": PAYLOADS["a"], "b": new}


def test_the_latest_version_that_a_leg_saw_counts() -> None:
    """A write between the searches of two legs: the one that came after it is to be served what it saw."""
    stage = fetching()
    fetched(stage, found(hits("ab", [1, 2])), PAYLOADS)
    for legs in ([hits("ab", [1, 2]), hits("b", [3])], [hits("ab", [1, 3]), hits("b", [2])]):
        assert fetched(stage, found(*legs), {}) == ["b"]


def test_hits_without_versions_are_fetched() -> None:
    """A lookup's records, and answers of a server that doesn't say versions, are fetched each time."""
    stage = fetching()
    for _ in range(2):
        assert fetched(stage, found(hits("ab", [])), PAYLOADS) == ["a", "b"]


def test_a_deleted_document_is_no_candidate_beside_cached_ones() -> None:
    """A cached payload stays, and one that the fetch doesn't find is gone."""
    stage = fetching()
    fetched(stage, found(hits("a", [1])), PAYLOADS)
    asked = found(hits("ab", [1, 2]))
    assert fetched(stage, asked, {}) == ["b"]
    assert [each.id for each in asked.outcome.candidates] == ["a"]


def test_a_cached_payload_that_the_query_may_not_see_is_fetched() -> None:
    """The post-filter check decides by the document as it is now, and removes it."""
    stage = fetching()
    fetched(stage, found(hits("ab", [1, 2])), {**PAYLOADS, "b": {"namespace": "public", "classification": "internal"}})
    asked = found(hits("ab", [1, 2]))
    asked.asked = replace(asked.asked, access_filter=AccessFilter("public", ("public",)))
    assert fetched(stage, asked, {"b": {"namespace": "other"}}) == ["b"]
    assert asked.outcome.payloads.keys() == {"a"}
    assert asked.outcome.removed == {"b"}


def test_what_a_query_may_not_see_is_not_cached() -> None:
    """Without a firewall, too: what came as another namespace's, or as none's, is removed, counted and forgotten."""
    stage = fetching()
    asked = found(hits("ab", [1, 2]))
    fetched(stage, asked, {"a": {"text": "x", "namespace": "other"}, "b": {"text": "y"}})
    assert (asked.outcome.payloads, asked.outcome.candidates, asked.outcome.removed) == ({}, [], {"a", "b"})
    assert stage.cache is not None
    assert len(stage.cache) == 0


def test_a_cached_payload_of_another_namespace_is_fetched() -> None:
    """A point that has the id and the version of another's, as of a collection that was made again, gets its own."""
    stage = fetching()
    fetched(stage, found(hits("a", [1])), PAYLOADS)
    other = found(Hits(["a"], [0.5], [{"namespace": "other"}], [1]), namespace="other")
    own = {"a": {"text": "own", "namespace": "other"}}
    assert fetched(stage, other, own) == ["a"]
    assert (other.outcome.payloads, other.outcome.removed) == (own, set())


@pytest.mark.parametrize("changed", [{"name": "green"}, {"making": 1}])
def test_another_making_of_a_collection_shares_nothing(changed: dict[str, Any]) -> None:
    """An alias's next target, and a collection that was seen to be made again, have no payloads cached."""
    stage = fetching()
    fetched(stage, found(hits("a", [1])), PAYLOADS)
    later = found(hits("a", [1]))
    later.retrieval.capabilities = replace(later.retrieval.capabilities, **changed)
    assert fetched(stage, later, PAYLOADS) == ["a"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine with the collection `documents`."""
    with Engine(tmp_path / "engine") as engine:
        names = QdrantSettings.model_validate({"path": tmp_path, "dimension": DIMENSION})
        asyncio.run(ensure(EngineClient(engine), names, 30))
        yield engine


@pytest.mark.slow
async def test_no_payload_is_older_than_what_was_indexed_before_the_search(engine: Engine) -> None:
    """An indexer writes, queries race it, and most of them fetch nothing."""
    ids = [str(uuid.UUID(int=number)) for number in range(6)]
    chance = random.Random(7)
    indexed: dict[str, int] = dict.fromkeys(ids, -1)
    asked = fetches = 0
    client = EngineClient(engine)
    stage = replace(fetching(client), depth=lambda _: len(ids))

    def point(id_: str, number: int) -> dict[str, Any]:
        text = f"the harbor lantern, edition {number // 3}"
        payload = {"text": text, "namespace": "public", CONTENT: fingerprint(text), "written": number}
        vector = {"dense": [1.0] + [chance.random()] * (DIMENSION - 1)}
        return {"id": id_, "vector": vector, "payload": payload}

    async def index() -> None:
        for number in range(150):
            id_ = chance.choice(ids)
            await client.upsert("documents", [point(id_, number)], timeout=30)
            indexed[id_] = number
            await asyncio.sleep(chance.random() * 0.02)

    async def ask(indexing: "asyncio.Task[None]") -> None:
        nonlocal asked, fetches
        search = {"query": [1.0] * DIMENSION, "using": "dense", "limit": 10, "with_payload": [CONTENT, "namespace"]}
        while not indexing.done():
            before = dict(indexed)
            [answer] = await client.query_batch("documents", [search], timeout=30)
            assert not isinstance(answer, BackendError)
            late = found(answer)
            asked += 1
            if (request := stage.request(late)) is not None:
                fetches += 1
                [outcome] = await stage.call(BATCH_KEY, [request[1]], 30)
                stage.on_answer(late, outcome)
            served = {id_: payload["written"] for id_, payload in late.outcome.payloads.items()}
            assert all(written >= before[id_] for id_, written in served.items())
            await asyncio.sleep(0)

    indexing = asyncio.create_task(index())
    await asyncio.gather(*(ask(indexing) for _ in range(3)))
    await indexing
    assert fetches < asked / 2


def test_what_expires_meanwhile_is_no_candidate() -> None:
    """A document that expires after its leg saw it is left out, fetched or cached; the firewall removes nothing."""
    stage = fetching()
    for _ in range(2):
        asked = found(hits("ab", [1, 2]))
        asked.retrieval.capabilities = replace(asked.retrieval.capabilities, expires=True)
        over = {"a": {**PAYLOADS["a"], EXPIRES: 1000}, "b": {**PAYLOADS["b"], EXPIRES: 10**15}}
        assert "a" in fetched(stage, asked, over)
        assert [candidate.id for candidate in asked.outcome.candidates] == ["b"]
        assert (asked.outcome.removed, asked.outcome.results.gone) == (set(), {"a"})


def test_a_version_of_0_says_nothing() -> None:
    """A point that only a search by a filter found is fetched each time: there may have been a write since."""
    stage = fetching()
    for _ in range(2):
        asked = found(hits("a", [0]), hits("b", [3]))
        assert set(fetched(stage, asked, PAYLOADS)) >= {"a"}
    again = found(hits("b", [0]), hits("b", [3]))
    assert stage.request(again) is None


async def test_what_only_the_index_reads_is_not_fetched() -> None:
    """Words, marks and copies of each searched field stay in Qdrant; the fields themselves come."""
    asked: list[Any] = []

    class Noting:
        async def retrieve(self, collection: str, ids: Sequence[str], fields: Fields, *, timeout: float) -> Any:
            assert isinstance(fields, Mapping)
            asked.append(fields["exclude"])
            return {}

    client: Any = Noting()
    fields = all_but(index_keys(("title", "attributes.colour")))
    stage = Fetching(client, lambda _: 3, Bounds(1, 1, 1), fields=fields)
    await stage.read("documents", ["a"], 1.0)
    assert asked == [
        [
            *("_marks", "_terms", "_token_ids", "_patches", "_patched"),
            *("_title_words", "_attributes_colour_words", "_attributes_colour_texts"),
        ]
    ]


def test_what_a_group_returns_is_fetched_and_another_stands_for_it_if_the_best_is_gone() -> None:
    """Up to `group_size` documents of each group on the page; a document that was deleted is in no group any more."""
    asked = found(hits("abcde", (1, 1, 1, 1, 1)), group_by="parent", group_size=2)
    outcome = asked.outcome
    for each, parent in zip(outcome.candidates, "ppqpq", strict=True):
        each.payload = {**each.payload, "parent": parent}
    outcome.results = replace(outcome.results, grouping=asked.asked.plan.grouping)
    stage = Fetching(NOBODY, lambda _: 1, Bounds(1, 1, 1))
    assert stage.missing(asked) == ["a", "b"]
    stage.on_answer(asked, {"b": PAYLOADS["b"]})
    assert [each.id for each in outcome.candidates] == ["b", "c"]
    assert [each.id for each in outcome.results.groups["b"].candidates] == ["b", "d"]
    assert [len(outcome.results.explain(id_, [])) for id_ in "bcd"] == [1, 1, 0]

"""A leg's search for groups, on Qdrant's engine: compared with all documents, grouped one by one."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.access.indexes import Ask
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.query.backend_answers import Hits
from operators.query.collection import Capabilities
from operators.query.search import Found, Groups, QueryBatch, Search, nearest
from operators.ranking.grouping import key_of
from operators.runtime.dispatcher import Bounds
from operators.stages.leg import SearchLeg
from schemas.errors import BackendError, Reason
from tests.operators.clients.qdrant.transports import Faulty, Watched, qdrant
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done
from tests.operators.samples import query
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized

TRACE = query().trace
KEYS: list[Any] = ["a", "b", "c", "1", 1, 1.0, 2, [2.0], True, None, ["a"], ["a", "b"], 0.5]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with one collection."""
    with Engine(tmp_path_factory.mktemp("groups")) as engine:
        done(engine, "PUT", "/collections/documents", CREATED)
        done(engine, "PUT", "/collections/documents/index", {"field_name": "parent", "field_schema": "keyword"})
        yield engine


def search(limit: int, wanted: int, most: int = 1000) -> Search:
    """The nearest documents, and how many groups they shall be of."""
    body = {"query": [1.0, 0.0], "using": "dense", "filter": {"must": []}, "limit": limit, "with_payload": ["parent"]}
    groups = Groups("parent", wanted, Capabilities("documents", limits={"max_query_limit": most}))
    return Search(lambda: groups.search(limit, lambda narrow: nearest([narrow(body)])), TRACE)


def asked(transport: httpx.AsyncBaseTransport, wanted: Search) -> Found | BackendError:
    """The answer to one search of the vector leg."""
    client = qdrant(transport)
    leg = SearchLeg("vector", client, Bounds(10, 8, 1))
    [found] = asyncio.run(leg.call(("vector", "documents"), [wanted], 10))
    return found


def upsert(engine: Engine, parents: Sequence[Any]) -> None:
    """Documents of these parents, the first the nearest; all that was there before is overwritten or out of reach."""
    client = EngineClient(engine)
    rows = [
        {"id": place, "vector": {"dense": [1.0 - place / 64, 0.0]}, "payload": {} if key is None else {"parent": key}}
        for place, key in enumerate(parents)
    ]
    asyncio.run(client.upsert("documents", rows, timeout=10))


def groups_of(ids: Sequence[str], parents: Sequence[Any]) -> list[tuple[type, Any]]:
    """The groups of these documents, each once, in their order."""
    found = []
    for id_ in ids:
        key = key_of({"parent": parents[int(id_)]}, "parent")
        group = (type(key), key) if key is not None else (int, f"alone {id_}")
        if group not in found:
            found.append(group)
    return found


@settings(max_examples=sized(20, nightly=400))
@given(
    parents=st.lists(st.sampled_from(KEYS), min_size=40, max_size=40),
    limit=st.integers(1, 40),
    wanted=st.integers(1, 20),
)
def test_a_leg_finds_the_best_groups(engine: Engine, parents: list[Any], limit: int, wanted: int) -> None:
    """The groups that it gives are the best of all there are, in their order, as many as wanted unless there are fewer
    or their documents are beyond the bound of requests; it says there may be more whenever some are missing.
    """
    upsert(engine, parents)
    found = asked(ServerTransport(engine), search(limit, wanted))
    assert isinstance(found, Found)
    every = groups_of([str(place) for place in range(len(parents))], parents)
    given_groups = groups_of(found.hits.ids, parents)
    assert given_groups == every[: len(given_groups)]
    assert found.hits.ids[:limit] == [str(place) for place in range(limit)][: len(found.hits.ids)]
    assert found.hits.scores == sorted(found.hits.scores, reverse=True)
    assert len(set(found.hits.ids)) == len(found.hits.ids)
    assert len(given_groups) >= min(wanted, len(every), limit)
    assert found.more or given_groups == every
    # Four further requests reach 341 times the limit.
    assert len(given_groups) >= min(wanted, len(every))


def test_one_large_group_does_not_fill_a_page(engine: Engine) -> None:
    """The others are asked for without that parent, if the nearest documents are all of one."""
    parents = ["a"] * 30 + ["b"] * 5 + [None, "c", None, "d", "b"]
    upsert(engine, parents)
    watched = Watched(ServerTransport(engine))
    found = asked(watched, search(10, 5))
    assert isinstance(found, Found)
    assert len(groups_of(found.hits.ids, parents)) == 5
    assert found.hits.ids[10:] == ["30", "31", "32", "33", "34", "35", "36", "37"]
    assert [body["searches"][0]["limit"] for body in watched.bodies()] == [10, 40]


def test_enough_groups_need_no_further_request(engine: Engine) -> None:
    """One request is made where its candidates are of enough groups, or where the collection has no more."""
    upsert(engine, ["a", "b"] * 20)
    for limit, wanted in ((10, 2), (100, 50)):
        watched = Watched(ServerTransport(engine))
        found = asked(watched, search(limit, wanted))
        assert len(watched.requests) == 1
        assert isinstance(found, Found)
        assert found.more == (limit == 10)


def test_a_strict_collection_is_asked_for_values_that_its_index_answers() -> None:
    """Strict mode refuses a filter by integers on an index of keywords: such documents are left out by their ids."""
    strict = {"unindexed_filtering_retrieve": False}
    groups = Groups("parent", 9, Capabilities("documents", fields={"parent": frozenset({Ask.KEYWORD})}, limits=strict))
    found = Hits(["1", "2", "3"], [0.9, 0.8, 0.7], [{"parent": "a"}, {"parent": 5}, {}])
    program = groups.search(3, lambda narrow: nearest([narrow({"query": [], "filter": {"must": []}, "limit": 3})]))
    next(program)
    further = program.send([found])
    assert isinstance(further, QueryBatch)
    [body] = further.bodies
    assert body["limit"] == 12
    several = {"key": "parent", "values_count": {"gt": 1}}
    others = {"must_not": [{"key": "parent", "match": {"any": ["a"]}}]}
    assert body["filter"] == {"must": [{"should": [others, several]}], "must_not": [{"has_id": [2, 3]}]}


def test_a_further_request_that_fails_is_a_loss(engine: Engine) -> None:
    """The first hits stay, there may be more, and the reason is told."""

    def answer(request: httpx.Request) -> httpx.Response:
        searches: list[Mapping[str, Any]] = orjson.loads(request.content)["searches"]
        if len(searches[0]["filter"]["must"]) > 0:
            return httpx.Response(500)
        points = [
            {"id": place, "version": 3, "score": 1.0 - place / 8, "payload": {"parent": "a"}} for place in range(2)
        ]
        return httpx.Response(200, content=orjson.dumps({"result": [{"points": points}], "status": "ok", "time": 0.0}))

    found = asked(Faulty(answer), search(2, 2))
    assert isinstance(found, Found)
    assert found.hits == Hits(["0", "1"], [1.0, 0.875], [{"parent": "a"}] * 2, found.hits.versions)
    assert (found.more, found.lost) == (True, Reason.UNAVAILABLE)

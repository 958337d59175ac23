"""One query's calls to Qdrant are bounded, and one namespace's calls take nothing from another's."""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers.token_idf import TokenIdf
from operators.query.expression_conditions import open_endings
from operators.query.lookup import REQUESTS, look_up
from operators.query.search import Search, nearest, with_endings
from operators.runtime.turns import Turns
from operators.text.expression import MOST_OPEN, parse
from schemas.document import COLUMNS
from schemas.errors import BackendError, Reason
from tests.operators.clients.qdrant.sharded import Searched, settings
from tests.operators.clients.qdrant.transports import qdrant
from tests.operators.clients.rerankers.token_index import Held
from tests.operators.samples import query
from tests.qdrant_server.transport import ServerTransport


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[tuple[Searched, Held]]:
    """A collection of three shards with a few documents, and the way to it."""
    with Engine(tmp_path) as engine:
        transport = Held(ServerTransport(engine))
        made = Searched(qdrant(transport), settings(3))

        async def fill() -> None:
            await made.open()
            texts = ("harbor", "harbor lantern", "word7x keeper", "word8x")
            await made.write(
                {"id": text, "namespace": space, "text": text} for text in texts for space in ("red", "blue")
            )

        asyncio.run(fill())
        transport.requests.clear()
        yield made, transport


def asked(transport: Held, path: str) -> list[dict[str, Any]]:
    """The bodies of the requests whose path ends so, in their order; all are forgotten."""
    bodies = [orjson.loads(each.content) for each in transport.requests if each.url.path.endswith(path)]
    transport.requests.clear()
    return bodies


def namespace(body: dict[str, Any]) -> str:
    """The namespace that a request is about."""
    return next(str(each["match"]["value"]) for each in body["filter"]["must"] if each.get("key") == "namespace")


async def until(transport: Held, path: str, requests: int) -> None:
    """Wait until so many requests have come whose path ends so."""
    async with asyncio.timeout(30):
        while sum(each.url.path.endswith(path) for each in transport.requests) < requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_open_phrases_have_a_bound_of_facets_and_take_turns(wide: tuple[Searched, Held]) -> None:
    """At most two for each of MOST_OPEN phrases; another namespace's go before what one of them left waiting."""
    searched, transport = wide
    columns = {"title": "title", "text": "text"}

    client = replace(searched.qdrant, facets=Turns(2))

    async def ask(text: str, space: str) -> None:
        expression = parse(text, columns).expression
        assert expression is not None
        where = {"must": [{"key": "namespace", "match": {"value": space}}]}
        wanted = {each: {"must": [*where["must"], inner]} for each, inner in open_endings(expression, COLUMNS).items()}
        found = {"filter": where, "limit": 1}
        search = Search(lambda: with_endings(wanted, 9, lambda _: nearest([found])), query().trace, space)
        await client.run(searched.collection, [search], 30)

    transport.hold("/facet")
    widest = " OR ".join(f'"deep{number} lea"*' for number in range(MOST_OPEN))
    flood = asyncio.create_task(ask(widest, "red"))
    await until(transport, "/facet", 2)
    other = asyncio.create_task(ask('text:"deep lea"*', "blue"))
    await asyncio.sleep(0.1)
    transport.release.set()
    await asyncio.gather(flood, other)
    order = [namespace(body) for body in asked(transport, "/facet")]
    assert order.count("red") == len(COLUMNS) * MOST_OPEN == 8
    assert order[2] == "blue"
    assert parse(f'{widest} OR "one more"*', columns).expression is None


async def test_a_lookup_has_a_bound_of_scrolls(wide: tuple[Searched, Held]) -> None:
    """A lookup that needs more than one record is refused by a collection that gives one at a time, with the reason."""
    searched, transport = wide
    payloads = [{"namespace": "green", "_created": number // 2} for number in range(REQUESTS)]
    points = [{"id": str(uuid.uuid4()), "vector": {}, "payload": each} for each in payloads]
    await searched.qdrant.upsert(searched.collection, points, timeout=30)
    transport.requests.clear()
    where = {"must": [{"key": "namespace", "match": {"value": "green"}}]}
    body = {"order_by": {"key": "_created", "direction": "desc"}, "filter": where, "with_payload": False}

    def equal(value: Any) -> dict[str, Any]:
        return {"key": "_created", "match": {"value": value}}

    async def found(limit: int) -> Any:
        search = Search(lambda: look_up({**body, "limit": limit}, 1, equal), query().trace)
        [answer] = await searched.qdrant.run(searched.collection, [search], 30)
        return answer

    few, many = await found(20), await found(REQUESTS)
    assert len(few.hits.ids) == 20
    assert isinstance(many, BackendError)
    assert (many.reason, "max_query_limit" in str(many)) == (Reason.REFUSED, True)
    assert len(asked(transport, "/scroll")) <= 2 * 20 + REQUESTS


async def test_a_querys_tokens_cost_two_counts_however_many_they_are(wide: tuple[Searched, Held]) -> None:
    """All tokens of a namespace are counted at once, and kept."""
    searched, transport = wide
    idf = TokenIdf(searched.qdrant)
    for tokens in (1, 5000):
        await idf.weights(searched.collection, "red", range(tokens), timeout=30)
    assert len(transport.requests) <= 2

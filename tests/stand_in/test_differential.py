"""A server and the engine in the process answer alike: the same documents, written and searched as the flows do it.

Of hits whose scores are equal to 1e-5 the order, and those that the end of a list cuts, may differ.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from flows.assembly import query as assembly
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.indexing.apply import Writer
from operators.query.cursor import After, Cursor
from operators.query.in_flight import InFlight
from operators.query.legs import Searches
from operators.query.lookup import find_page
from operators.query.search import Found
from operators.runtime.dispatcher import Bounds
from operators.stages.leg import SearchLeg
from schemas.errors import InputError
from schemas.result import KEYWORD, STRUCTURED, VECTOR
from schemas.settings import QdrantSettings
from tests import qdrant_server
from tests.operators.indexing.documents import in_flight
from tests.operators.samples import DIMENSION, admission, query
from tests.tiers import sized

pytestmark = pytest.mark.slow

TIMEOUT: Final = 30.0
SAME: Final = 1e-5
ROUNDS: Final = sized(5, nightly=20)
QUERIES: Final = sized(60, nightly=100)
WORDS: Final = ("lantern", "harbour", "violin", "orchard", "bridge", "river", "stone", "letter")
KINDS: Final = ("lamp", "chair", "desk")
INDEXES: Final = {"price": "integer", "kind": "keyword", "weight": "float", "seen": "datetime"}
SETTINGS: Final = QdrantSettings.model_validate({"url": "http://qdrant", "dimension": DIMENSION, "indexes": INDEXES})
NAMESPACES: Final = ("public", "other")

Event = dict[str, Any]


class Place:
    """One Qdrant, written and asked as the flows do it."""

    def __init__(self, qdrant: QdrantClient) -> None:
        self.qdrant = qdrant
        self.searches = Searches(assembly.bodies(SETTINGS))

    async def open(self) -> None:
        """Create the collection."""
        await ensure(self.qdrant, SETTINGS, TIMEOUT)
        self.catalogue = Catalogue(self.qdrant, SETTINGS)
        assert await self.catalogue.refresh(TIMEOUT) == {}
        ordered = frozenset({"created_at", "updated_at", *INDEXES} - {"kind"})
        self.admission = admission(catalogue=self.catalogue, ordered=ordered, grouped=frozenset({"kind", "price"}))

    async def write(self, events: Sequence[Event]) -> list[Any]:
        """Apply events; an outcome each."""
        writer = Writer(self.qdrant, SETTINGS.vectors, SETTINGS.context, self.catalogue, TIMEOUT)
        return await writer.call("documents", in_flight(events), TIMEOUT)

    async def ask(self, event: Event, after: After | None = None) -> dict[str, Found]:
        """The hits of each leg."""
        asked = query(**event)
        if after is not None:
            cursor = Cursor(b"", None, 0.0, after)
            asked.asked = replace(asked.asked, cursor=cursor)
        admitted: InFlight = self.admission(asked)
        self.searches(admitted)
        found: dict[str, Found] = {}
        for name in (VECTOR, KEYWORD, STRUCTURED):
            leg = SearchLeg(name, self.qdrant, Bounds(TIMEOUT, 8, 1))
            if (asks := leg.request(admitted)) is not None:
                [outcome] = await leg.call(asks[0], [asks[1]], TIMEOUT)
                assert isinstance(outcome, Found), (name, event, outcome)
                found[name] = outcome
        return found


def document(draw: random.Random, number: int, version: int) -> Event:
    """An upsert, a patch or a deletion of a document."""
    named = {"id": f"d{number}", "namespace": NAMESPACES[number % 2], "updated_at": float(version)}
    kind = draw.random()
    fields = {
        "price": draw.choice((None, draw.randrange(8))),
        "weight": draw.choice((0.5, 1.5, -2.0)),
        "kind": draw.choice((None, *KINDS)),
        "seen": draw.choice((None, f"2024-01-0{draw.randrange(1, 9)}T00:00:00Z")),
    }
    if kind < 0.15:
        return {**named, "op": "delete"}
    if kind < 0.35:
        return {**named, "op": "patch", **{name: value for name, value in fields.items() if draw.random() < 0.5}}
    text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 9)))
    vector = [round(draw.uniform(-1, 1), 3) for _ in range(DIMENSION)]
    known = {name: value for name, value in fields.items() if value is not None}
    return {**named, "text": text, "vector": vector, "created_at": 1e9 + draw.randrange(20), **known}


FILTERS: Final[Sequence[Mapping[str, Any]]] = (
    {"field": "price", "op": "range", "value": {"gte": 2, "lt": 6}},
    {"field": "price", "op": "eq", "value": 3},
    {"field": "price", "op": "exists", "value": True},
    {"field": "weight", "op": "range", "value": {"gt": 0}},
    {"field": "kind", "op": "any_of", "value": ["lamp", "desk"]},
    {"field": "kind", "op": "none_of", "value": ["chair"]},
    {"field": "kind", "op": "prefix", "value": "la"},
    {"field": "seen", "op": "date_range", "value": {"gte": "2024-01-03T00:00:00Z"}},
    {"any_of": [{"field": "kind", "op": "eq", "value": "lamp"}, {"field": "price", "op": "eq", "value": 1}]},
)


def question(draw: random.Random) -> Event:
    """A query event: a search by text, vector or both, or a lookup in an order."""
    event: Event = {"namespace": draw.choice(NAMESPACES), "limit": draw.choice((1, 3, 10, 50)), "text": None}
    if draw.random() < 0.5:
        event["filters"] = draw.sample(FILTERS, draw.choice((1, 1, 2)))
    kind = draw.random()
    if kind < 0.7:
        words = " ".join(draw.sample(WORDS, draw.choice((1, 2, 4))))
        forms = (words, f'"{words}"', f"{words} NOT {draw.choice(WORDS)}", f"{words[:4]}*")
        event["text"] = draw.choice((words, words, *forms))
        event["vector"] = [draw.uniform(-1, 1) for _ in range(DIMENSION)]
        if draw.random() < 0.2:
            event |= {"group_by": draw.choice(("kind", "price")), "group_size": draw.choice((1, 2))}
    else:
        event.setdefault("filters", [draw.choice(FILTERS)])
        field = draw.choice(("price", "weight", "seen", "created_at", "updated_at"))
        event["order_by"] = {"field": field, "direction": draw.choice(("asc", "desc"))}
    return event


def alike(one: Found, other: Found) -> bool:
    """True if two lists have the same scores, and the same hits of each score but at the end."""
    scores = [list(each.hits.scores) for each in (one, other)]
    if len(scores[0]) != len(scores[1]) or any(abs(a - b) > SAME for a, b in zip(*scores, strict=True)):
        return False
    start = 0
    for end in range(1, len(scores[0]) + 1):
        if end < len(scores[0]) and scores[0][end - 1] - scores[0][end] <= SAME:
            continue
        if end < len(scores[0]) and {*one.hits.ids[start:end]} != {*other.hits.ids[start:end]}:
            return False
        start = end
    return True


async def pages(place: Place, event: Event) -> list[str]:
    """The ids of all pages of a lookup."""
    found: list[str] = []
    after: After | None = After(None, 0)
    while after is not None:
        answer = (await place.ask(event, after))[STRUCTURED]
        page = find_page(answer.values, after, event["limit"])
        found += [answer.hits.ids[index] for index in page.indexes]
        after = page.ends[-1] if page.more else None
    return found


def test_a_server_and_the_engine_answer_alike(tmp_path: Path) -> None:
    """Random queries with filters, orders, pages and groups, while documents are written, patched and deleted."""
    draw = random.Random(64)

    async def scenario(url: str, engine: Engine) -> None:
        async with AsyncExitStack() as stack:
            endpoint = Endpoint("qdrant", url, http_transport())
            stack.push_async_callback(endpoint.aclose)
            places = [
                Place(ServerClient(endpoint)),
                Place(EngineClient(engine)),
            ]
            for place in places:
                await place.open()
            hits: Counter[str] = Counter()
            for turn in range(ROUNDS):
                events = [
                    document(draw, number, turn + 1) for number in draw.sample(range(120), 80 if not turn else 30)
                ]
                first, second = [await place.write(events) for place in places]
                assert list(map(type, first)) == list(map(type, second)), events
                assert all(each is None or isinstance(each, InputError) for each in first)
                for _ in range(QUERIES):
                    event = question(draw)
                    if "order_by" in event:
                        listed = [await pages(place, event) for place in places]
                        assert listed[0] == listed[1], event
                        hits["pages"] += len(listed[0])
                        continue
                    answers = [await place.ask(event) for place in places]
                    assert answers[0].keys() == answers[1].keys()
                    for name in answers[0]:
                        assert alike(answers[0][name], answers[1][name]), (name, event, answers)
                        hits[name] += len(answers[0][name].hits.ids)
            assert all(hits[name] > 20 * ROUNDS for name in (VECTOR, KEYWORD, "pages")), hits

    with qdrant_server.running(tmp_path / "server") as url, Engine(tmp_path / "engine") as engine:
        asyncio.run(scenario(url, engine))

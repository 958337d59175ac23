"""A stretch of an application's life: a catalogue of chunks with parents is written, patched, expired, forgotten and
reindexed, while queries page through results by parent.

The judge is a model in this file: what the catalogue is after each event. An answer that was computed while events were
applied may see each document before or after any of them; an answer behind them sees exactly what they leave.
"""

import itertools
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx
import kafka
import pytest

from bench.kafka.broker import Broker
from flows.assembly.delivery import connect
from flows.cli.query import QueryClient
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import PATIENCE, Deployment, wait_until
from tests.tiers import sized

pytestmark = pytest.mark.slow

Event = dict[str, Any]
States = Mapping[str, Sequence[Event | None]]
"""By document: what it was in the course of a round, None where it was not there."""

DIMENSION: Final = 6
NAMESPACES: Final = ("red", "blue")
GUESTS: Final = "guests"
"""A namespace that is forgotten every few rounds; it has a tenth of the documents."""

PARENTS: Final = sized(40, nightly=800)
CHUNKS: Final = sized(250, nightly=5000)
ROUNDS: Final = sized(6, nightly=300)
EVENTS: Final = sized(8, nightly=60)
"""Of a round. In the nightly size they are together five a second of an hour."""

QUERIES: Final = sized(12, nightly=300)
"""While a round's events are applied."""

MARKER: Final = "marker"
NEXT: Final = "documents-2"
"""The collection that is made by reindexing."""

SECTIONS: Final[Event] = {
    "cache": {"watermark_timeout": 10.0},
    "limits": {"timeout": 60.0, "max_timeout": 60.0},
    "profiles": {"parents": {"group_by": "parent", "group_size": 2}},
}
QDRANT: Final[Event] = {
    "dimension": DIMENSION,
    "indexes": {"parent": "keyword", "price": "integer", "round": "integer"},
    "timeout": 30,
}


class Catalogue:
    """The model: each document as the events leave it, by the rule of versions alone."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.documents: dict[str, Event] = {}
        self._version = itertools.count(1)
        self._numbers = itertools.count()

    def upsert(self) -> Event:
        """A new chunk of some parent, or of none."""
        number = next(self._numbers)
        document: Event = {
            "id": f"d{number}",
            "namespace": GUESTS if self.draw.random() < 0.1 else self.draw.choice(NAMESPACES),
            "text": f"chunk {number}",
            "vector": [round(self.draw.gauss(0, 1), 4) for _ in range(DIMENSION)],
            "price": self.draw.randrange(100),
            "updated_at": next(self._version),
        }
        if self.draw.random() < 0.9:
            document["parent"] = f"p{self.draw.randrange(PARENTS)}"
        return document

    def happening(self, forgets: str | None) -> list[Event]:
        """A round's events; `forgets` is a namespace that is forgotten in the middle of them. What went is made up for,
        by some new chunks a round. No event is of a document that has expired: it is deleted at some time.
        """
        self.documents = {id_: each for id_, each in self.documents.items() if each.get("expires_at") != 1}
        living = sorted(self.documents)
        events = [self.upsert() for _ in range(min(2 * EVENTS, CHUNKS - len(self.documents)))]
        for _ in range(EVENTS):
            kind = self.draw.choice(["patch", "patch", "patch", "upsert", "delete", "expire"])
            id_ = self.draw.choice(living)
            named = {"id": id_, "namespace": self.documents[id_]["namespace"], "updated_at": next(self._version)}
            if kind == "patch":
                events.append({**named, "op": "patch", "price": self.draw.randrange(100)})
            elif kind == "expire":
                events.append({**named, "op": "patch", "expires_at": self.draw.choice([1, 4102444800])})
                if events[-1]["expires_at"] == 1:
                    living.remove(id_)
            elif kind == "delete":
                events.append({**named, "op": "delete"})
            else:
                events.append(self.upsert())
        if forgets is not None:
            place = len(events) // 2
            events.insert(place, {"op": "delete_where", "namespace": forgets, "updated_at": next(self._version)})
            events[place + 1 :] = [{**each, "updated_at": next(self._version)} for each in events[place + 1 :]]
        return events

    def apply(self, events: Sequence[Event]) -> States:
        """Apply the events; what each document was in their course, as it was before among them."""
        states: dict[str, list[Event | None]] = {id_: [each] for id_, each in self.documents.items()}
        for event in events:
            op, id_ = event.get("op", "upsert"), event.get("id", "")
            if op == "delete_where":
                gone = [each for each in self.documents.values() if each["namespace"] == event["namespace"]]
                for each in gone:
                    del self.documents[each["id"]]
                    states[each["id"]].append(None)
                continue
            if op == "upsert":
                self.documents[id_] = event
            elif op == "patch" and id_ in self.documents:
                changed: Event = {name: event[name] for name in ("price", "expires_at") if name in event}
                self.documents[id_] = {**self.documents[id_], **changed}
            elif op == "delete":
                self.documents.pop(id_, None)
            states.setdefault(id_, [None]).append(self.documents.get(id_))
        return states


def cosine(document: Event, vector: Sequence[float]) -> float:
    """The cosine of a document's vector and another."""
    own = document["vector"]
    dot = sum(one * other for one, other in zip(own, vector, strict=True))
    return float(dot / (sum(each**2 for each in own) ** 0.5 * sum(each**2 for each in vector) ** 0.5))


def visible(state: Event | None, query: Event) -> bool:
    """True if a query may find the document in this state."""
    if state is None or state["namespace"] != query["namespace"] or state.get("expires_at", 4102444800) == 1:
        return False
    most = query["filters"][0]["value"]["lt"] if "filters" in query else 100
    return bool(state["price"] < most)


def key_of(state: Event) -> tuple[str | None, str]:
    """A document's group: its parent, or itself alone."""
    return state.get("parent"), "" if "parent" in state else state["id"]


def judge(pages: Sequence[Event], query: Event, states: States) -> None:
    """Fail unless each page may have been computed in the course of these states, and no result is on two."""
    vector = query["vector"]
    known = {id_: next(each for each in seen if each is not None) for id_, seen in states.items() if any(seen)}
    near = {id_: cosine(each, vector) for id_, each in known.items()}
    sure = {id_ for id_, seen in states.items() if all(visible(each, query) for each in seen)}
    given: set[str] = set()
    groups: set[tuple[str | None, str]]
    shown: set[str]
    for number, page in enumerate(pages):
        assert page["status"] == "ok", page
        last, groups, shown = 1.0, set(), set()
        for hit in page["results"]:
            # A further chunk of a group may lead it on the next page, if the one that led it went away.
            assert hit["id"] not in given, (hit["id"], query)
            given.add(hit["id"])
            for each in (hit, *hit["group"]["results"]):
                assert each["id"] not in shown, (each["id"], query)
                shown.add(each["id"])
                # It was found in one state, and its payload may be read, or be cached, in another one.
                was = [state for state in states[each["id"]] if state is not None]
                assert any(visible(state, query) for state in was), (each, was, query)
                assert each["payload"]["price"] in {state["price"] for state in was}, (each, was, query)
            key = key_of(known[hit["id"]])
            assert key not in groups
            groups.add(key)
            assert hit["group"]["key"] == key[0]
            best = max((near[id_] for id_ in sure if key_of(known[id_]) == key), default=-1.0)
            assert near[hit["id"]] >= best - 1e-6
            assert near[hit["id"]] <= last + 1e-6
            last = near[hit["id"]]
        if number:
            # What went away between two pages moved those behind it forward, past the place of the page.
            continue
        better = {key_of(known[id_]) for id_ in sure if near[id_] > last + 1e-6 or not page["has_more"]}
        assert better <= groups, (better - groups, query)


def exactly(pages: Sequence[Event], query: Event, documents: Mapping[str, Event]) -> None:
    """Fail unless the pages are those of a plain reading of all documents."""
    near = {id_: cosine(each, query["vector"]) for id_, each in documents.items() if visible(each, query)}
    best: dict[tuple[str | None, str], float] = {}
    for id_ in sorted(near, key=lambda id_: -near[id_]):
        best.setdefault(key_of(documents[id_]), near[id_])
    hits = [hit["id"] for page in pages for hit in page["results"]]
    assert near.keys() >= set(hits), query
    assert len({key_of(documents[id_]) for id_ in hits}) == len(hits), (hits, query)
    # The index has 32 bits of a score, and any order of equal ones.
    assert [near[id_] for id_ in hits] == pytest.approx(list(best.values())[: len(hits)], abs=1e-6), (hits, query)
    assert len(hits) == min(len(best), query["limit"] * len(pages))


class Application:
    """Both flows, what writes the catalogue, and what asks."""

    def __init__(self, deployment: Deployment, client: QueryClient, qdrant: str, seed: int) -> None:
        self.deployment = deployment
        self.qdrant = qdrant
        self.catalogue = Catalogue(seed)
        self._client = client
        self._rounds = itertools.count(1)
        self._asked = itertools.count()
        self._producer = kafka.KafkaProducer(bootstrap_servers=deployment.broker.bootstrap, acks="all")

    def close(self) -> None:
        """Close what writes."""
        self._producer.close()

    def write(self, events: Sequence[Event]) -> int:
        """Produce events in one partition, and a marker behind them; its number."""
        number = next(self._rounds)
        marker = {"id": MARKER, "namespace": MARKER, "text": "m", "vector": [1.0] * DIMENSION, "round": number}
        for event in (*events, {**marker, "updated_at": number}):
            self._producer.send(self.deployment.names["documents"], key=b"0", value=json.dumps(event).encode())
        self._producer.flush()
        return number

    def settle(self, number: int) -> None:
        """Wait until a query sees the marker, and until the next generation has it: the flow may go there any time."""

        def seen() -> bool:
            at_least = [{"field": "round", "op": "range", "value": {"gte": number}}]
            [result] = self._ask([{"namespace": MARKER, "filters": at_least}])
            return bool(result["results"])

        def known() -> bool:
            where = [{"key": "namespace", "match": {"value": MARKER}}, {"key": "round", "range": {"gte": number}}]
            counted = httpx.post(f"{self.qdrant}/collections/{NEXT}/points/count", json={"filter": {"must": where}})
            return counted.status_code == HTTPStatus.NOT_FOUND or counted.json()["result"]["count"] > 0

        wait_until(seen)
        wait_until(known)

    def pages(self, queries: Sequence[Event], most: int = 3) -> list[list[Event]]:
        """The first pages of each query."""
        found = [[result] for result in self._ask(queries)]
        for _ in range(most - 1):
            going = [number for number, pages in enumerate(found) if pages[-1].get("next_cursor") is not None]
            further = [
                {**queries[each], "cursor": found[each][-1]["next_cursor"], "cursor_policy": "continue"}
                for each in going
            ]
            for number, result in zip(going, self._ask(further), strict=True):
                found[number].append(result)
        return found

    def _ask(self, events: Sequence[Event]) -> list[Event]:
        asked = [{**event, "query_id": f"q{next(self._asked)}"} for event in events]
        results = {result["query_id"]: result for result in self._client.ask(asked, PATIENCE)} if asked else {}
        return [results[str(event["query_id"])] for event in asked]

    def queries(self, number: int) -> list[Event]:
        """Queries by vector, for the parents with their best chunks; some below a price."""
        draw = self.catalogue.draw
        some: list[Event] = []
        for _ in range(number):
            query = {
                "namespace": draw.choice((*NAMESPACES, GUESTS)),
                "vector": [round(draw.gauss(0, 1), 3) for _ in range(DIMENSION)],
                "recipe": "vector",
                "profile": "parents",
                "limit": 5,
            }
            below = [{"field": "price", "op": "range", "value": {"lt": draw.choice([20, 60])}}]
            some.append({**query, "filters": below} if draw.random() < 0.5 else query)
        return some

    def alias(self) -> str | None:
        """The collection that the alias of a reindexed index has."""
        found = httpx.get(f"{self.qdrant}/aliases").json()["result"]["aliases"]
        return next((each["collection_name"] for each in found), None)


@pytest.mark.timeout(sized(300, nightly=7200))
def test_every_answer_is_one_of_a_plain_reading(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """While documents change, expire, are forgotten and are indexed again, each page of results by parent is one that
    the model allows at that moment; whenever nothing changes, it is exactly the model's.
    """
    with ExitStack() as stack:
        url = stack.enter_context(qdrant_server.running(tmp_path / "engine"))
        sections = {**SECTIONS, "qdrant": {**QDRANT, "url": url}}
        deployment = stack.enter_context(Deployment.on(broker, tmp_path, topic_names, sections))
        deployment.start("index", replica="i")
        deployment.start("run", replica="s")
        settings = load(None, deployment.settings)
        client = stack.enter_context(QueryClient.connect(connect(settings.kafka), settings.kafka.topics))
        life = Application(deployment, client, url, seed=45)
        stack.callback(life.close)
        first = [life.catalogue.upsert() for _ in range(CHUNKS)]
        life.catalogue.apply(first)
        life.settle(life.write(first))
        ends, number = time.monotonic() + sized(0, nightly=3600), 0
        reindexing = None
        while number < ROUNDS or time.monotonic() < ends:
            events = life.catalogue.happening(
                GUESTS if number % 5 == 3 else NAMESPACES[0] if number % 40 == 5 else None
            )
            states = life.catalogue.apply(events)
            marker = life.write(events)
            if number == ROUNDS // 3:
                reindexing = deployment.start("reindex", replica="i", wait=False)
            asked = life.queries(QUERIES)
            for pages, query in zip(life.pages(asked), asked, strict=True):
                judge(pages, query, states)
            if number == ROUNDS // 3:
                wait_until(lambda: life.alias() == NEXT)
            life.settle(marker)
            asked = life.queries(QUERIES // 2)
            for pages, query in zip(life.pages(asked), asked, strict=True):
                exactly(pages, query, life.catalogue.documents)
            number += 1
        assert reindexing is not None
        assert reindexing.process.poll() is None, reindexing.log.read_text()

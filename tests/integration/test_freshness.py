"""An acknowledged document is in every answer to a query produced afterwards, from whatever cache it comes.

Acknowledged is a document whose watermark was read as committed. Two indexing flows share the documents, and other
queries fill the caches all the while.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bench.kafka.broker import Broker
from tests import qdrant_server
from tests.integration.at_random import near
from tests.integration.conversation import NEVER, Asked, Conversation
from tests.integration.deployment import Deployment
from tests.integration.permitted import World
from tests.tiers import sized

pytestmark = pytest.mark.slow

LANES = 6
ROUNDS = sized(15, nightly=40)
DOCUMENTS = 4
VECTOR = [1.0, 0.5, 0.25, 0.0]

CACHES = ("exact_cache", "semantic_cache")


class BatchKey:
    """One namespace, its documents and the queries that are asked for all of these."""

    def __init__(self, world: World, number: int, revisions: Iterator[int]) -> None:
        self.namespace = f"lane-{number}"
        self._world = world
        self._conversation = world.conversation
        self._draw = random.Random(number)
        self._revisions = revisions
        self._asked = 0

    def document(self, number: int, op: str = "upsert") -> dict[str, Any]:
        """The next version of a document, or its end."""
        event = {"id": f"d{number}", "op": op, "rev": next(self._revisions), "namespace": self.namespace}
        event["destination"] = "default"
        if op == "upsert":
            event |= {"vector": near(self._draw, VECTOR, 0.05), "text": f"common {event['rev']}", "price": 1}
        return event

    def queries(self, marker: str = "") -> list[Asked]:
        """Answers of exact and semantic caches, lookups and followers; each query is one of few."""
        fixed = {"vector": VECTOR, "text": "common"}
        by_price = {"filters": [{"field": "price", "op": "eq", "value": 1}]}
        longer = self._draw.choice((2.0, 3.0, 5.0))
        similar = {"vector": [longer * each for each in VECTOR], "profile": "deep"}
        each: list[dict[str, Any]] = [fixed, fixed, similar, by_price, by_price, {**fixed, "profile": "fast"}]
        return [self._query(event, marker) for event in each]

    def _query(self, event: dict[str, Any], marker: str) -> Asked:
        self._asked += 1
        return Asked({**event, "query_id": f"{self.namespace}-{marker}{self._asked}", "namespace": self.namespace})

    def work(self) -> None:
        """Rounds of: a version is written while queries race with it; once it is acknowledged, they are asked again."""
        for _ in range(ROUNDS):
            op = "delete" if self._draw.random() < 0.2 else "upsert"
            racing = self.queries()
            written = self._world.write([self.document(self._draw.randrange(DOCUMENTS), op)])
            self._conversation.ask(racing)
            self._conversation.wait_acknowledged(written, "documents")
            after = self.queries()
            self._conversation.ask(after)
            self._conversation.wait(lambda after=after: all(query.ended < NEVER for query in after))
            self._conversation.ask(self.queries())


@pytest.fixture(scope="module")
def world(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All that the lanes wrote and asked."""
    directory = tmp_path_factory.mktemp("freshness")
    with qdrant_server.running(directory / "engine") as qdrant:
        settings = {
            "qdrant": {"url": qdrant, "timeout": 20, "dimension": len(VECTOR)},
            "cache": {"watermark_timeout": 10.0},
        }
        settings["limits"] = {"timeout": 60}
        with (
            Deployment.on(broker, directory, lambda word: f"{word}-{directory.name}", settings) as system,
            Conversation.with_(system) as conversation,
        ):
            first = system.start("index", replica="i0")
            others = [system.start("index", replica="i1", wait=False), system.start("run", replica="s", wait=False)]
            for flow in (*others, first):
                flow.wait_ready()
            world = World(conversation)
            _race(world)
            yield world


def _race(world: World) -> None:
    conversation = world.conversation
    revisions = iter(range(1, 1_000_000))
    batch_keys = [BatchKey(world, number, revisions) for number in range(LANES)]
    first = [batch_key.document(number) for batch_key in batch_keys for number in range(DOCUMENTS)]
    conversation.wait_acknowledged(world.write(first), "documents")
    enough = threading.Event()

    def fill() -> None:
        others = [BatchKey(world, number, revisions) for number in range(LANES)]
        while not enough.wait(0.02):
            conversation.ask(random.choice(others).queries("other-"))

    with ThreadPoolExecutor(LANES + 1) as pool:
        filling = pool.submit(fill)
        try:
            for working in [pool.submit(batch_key.work) for batch_key in batch_keys]:
                working.result()
        finally:
            enough.set()
        filling.result()
    conversation.wait_answered()


def test_no_answer_is_older_than_what_was_acknowledged_before_its_query(world: World) -> None:
    """Each document is in each answer in a version that was there after the query was produced, or was deleted."""
    checked = 0
    for query in world.conversation.asked.values():
        assert query.dead is None, query
        assert query.answer["status"] == "ok", query.answer
        shown = {hit["id"]: hit["payload"]["rev"] for hit in query.answer["results"]}
        for name in world.of(query):
            true = {each.event["rev"]: each.event["op"] for each in world.true(name, query.sent, query.ended)}
            if name[3] in shown:
                assert true.get(shown[name[3]]) == "upsert", (query.event, query.answer["retrieval_stage"], shown, true)
            else:
                assert "delete" in true.values(), (query.event, query.answer["retrieval_stage"], shown, true)
            checked += len(true) == 1
    assert checked > LANES * ROUNDS * DOCUMENTS


def test_every_way_to_an_answer_was_taken(world: World) -> None:
    """Both caches, followers, and queries that were computed, hundreds of times; documents of each partition."""
    taken: Counter[str] = Counter()
    conversation = world.conversation
    for query in conversation.asked.values():
        stage = query.answer["retrieval_stage"]
        other = conversation.by_place[query.computed_at] is not query
        taken["followed" if other and stage not in CACHES else stage] += 1
        taken["cached lookup"] += other and "filters" in query.event
    partitions = {each.partition for versions in world.versions.values() for each in versions}
    assert len(partitions) > 1
    least = {"exact_cache": 300, "semantic_cache": 100, "followed": 300, "structured": 100, "cached lookup": 200}
    assert not {name: taken[name] for name, count in least.items() if taken[name] < count * ROUNDS / 40}, taken

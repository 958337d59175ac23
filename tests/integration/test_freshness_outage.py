"""A replica whose reader of watermarks hangs: it passes its caches by, answers all the same, and uses them again."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from bench.kafka.broker import Broker
from bench.ports import free_port
from flows.assembly.clients import InProcess
from flows.process import replica as process
from flows.process.embedded import Embedded
from operators.caching.watermark_table import WatermarkTable
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.table_reader import WatermarkReader
from operators.query.in_flight import InFlight
from operators.query.outcome import Answer
from operators.runtime.stage import async_stage
from operators.stages.answers import Watermark
from operators.stages.lookup import Lookup
from schemas.settings import load
from tests import qdrant_server
from tests.integration.conversation import NEVER, Asked, Conversation
from tests.integration.deployment import Deployment, wait_until
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import answers, query
from tests.proxy import Mode, Proxy

MARK = ("0:7",)
KEPT = {"status": "ok", "retrieval_stage": "hybrid_merge", "results": [], "warnings": []}
VECTOR = [1.0, 0.5, 0.25, 0.0]
CACHES = {"exact_cache", "semantic_cache"}


class Known:
    """A reader that knows at once."""

    generation = 0
    behind = False

    async def caught_up(self, timeout: float) -> None:
        """Nothing is behind."""

    def read_since(self, moment: float) -> bool:
        """Only after it was asked."""
        return False

    def of(self, collection: str, namespace: str) -> Watermark:
        """The one watermark."""
        return MARK


class ReadAlready(Known):
    """A reader that had the topic read when the queries came."""

    async def caught_up(self, timeout: float) -> None:
        """There is nothing to wait for."""
        raise AssertionError("a query waits for what is read")

    def read_since(self, moment: float) -> bool:
        """Whenever that was."""
        return True


class Hanging(Known):
    """A reader that knows as much, and never says so."""

    async def caught_up(self, timeout: float) -> None:
        """Never return."""
        await asyncio.Event().wait()


def looked_up(
    watermarks: "WatermarkReader | Known", timeout: float, batches: Sequence[Sequence[InFlight]] | None = None
) -> tuple[list[InFlight], list[InFlight]]:
    """Identical queries through the operator, to which there is a kept answer: those that go on, those answered."""
    kept = answers()
    first = kept.look_up(query(100), MARK)
    kept.put(first, Answer(KEPT, 0.0))
    kept.finish(first.message.origin)
    if batches is None:
        batches = [[query(1), query(2)], [query(3)], [query(4)], [query(5)]]
    lookup = Lookup(kept, cast("WatermarkReader", watermarks), timeout)
    with looping() as calls:
        left = items(batches, lambda up: async_stage("lookup", up, lookup, calls))
    assert not kept.leading
    return [each for each in left if not each.answered], [each for each in left if each.answered]


def test_while_the_reader_hangs_every_query_goes_on_alone() -> None:
    """After its patience each goes on to be computed, without a watermark: neither kept answers nor leaders count."""
    on, answered = looked_up(Hanging(), 0.05)
    assert sorted(each.asked.event.query_id for each in on) == ["q1", "q2", "q3", "q4", "q5"]
    assert not answered
    assert all(
        each.cache.scope.watermark is None and each.cache.key is None and each.cache.cached is None for each in on
    )


def test_with_a_reader_that_knows_the_kept_answer_serves() -> None:
    """The same queries are answered from the cache where nothing hangs."""
    on, answered = looked_up(Known(), 60.0)
    assert not on
    assert len(answered) == 5


def test_a_query_that_came_before_the_last_reading_waits_for_nothing() -> None:
    """The kept answer serves it at once."""
    on, answered = looked_up(ReadAlready(), 60.0)
    assert not on
    assert len(answered) == 5


class Unindexed(Hanging):
    """A reader that knows of no watermark of the namespace, until it is asked once more."""

    def __init__(self) -> None:
        self.asked = 0

    def of(self, collection: str, namespace: str) -> Watermark:
        """At first none."""
        self.asked += 1
        return MARK if self.asked > 1 else ()


def test_in_a_namespace_without_a_watermark_no_query_waits() -> None:
    """Nothing is cached there: each goes on at once. Until the topic is read, it is not known that there is none."""
    on, answered = looked_up(Unindexed(), 60.0, [[query(1)]])
    assert [each.cache.scope.watermark for each in on] == [None]
    assert not answered


def test_while_the_reader_is_behind_no_watermark_counts() -> None:
    """A query goes on without one: that none is known doesn't say that there is none."""
    reader = Unindexed()
    reader.behind = True
    on, answered = looked_up(reader, 0.05, [[query(1)]])
    assert [each.cache.scope.watermark for each in on] == [None]
    assert not answered


@pytest.fixture
def behind_a_proxy(broker_tools: None) -> Iterator[tuple[Broker, Proxy]]:
    """A broker that those who come by the proxy reach by it alone."""
    port = free_port()
    with Proxy("127.0.0.1", port) as link, Broker(proxied=(port, link.port)) as running:
        yield running, link


class Speaker:
    """Writes versions of one document and asks for it, one thing at a time."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._numbers = itertools.count(1)
        self.version = 0

    def write(self) -> None:
        """A new version; returns once it is acknowledged."""
        self.version += 1
        event = {"id": "d", "rev": self.version, "namespace": "n", "vector": VECTOR, "text": f"common {self.version}"}
        self._conversation.wait_acknowledged(self._conversation.write([event]), "documents")

    def ask(self) -> list[dict[str, Any]]:
        """The answers to queries that either cache, a leader or a lookup may answer; each holds the last version."""
        fixed = {"namespace": "n", "vector": VECTOR, "text": "common"}
        lookup = {"namespace": "n", "filters": [{"field": "rev", "op": "range", "value": {"gte": 0}}]}
        longer = [next(self._numbers) * each for each in VECTOR]
        similar = {"namespace": "n", "vector": longer, "profile": "deep"}
        asked = [
            Asked({**event, "query_id": f"q{next(self._numbers)}"})
            for event in (fixed, fixed, lookup, lookup, similar, {**fixed, "profile": "fast"})
        ]
        self._conversation.ask(asked)
        self._conversation.wait(lambda: all(each.ended < NEVER for each in asked))
        for each in asked:
            assert each.answer["status"] == "ok", each
            assert [hit["payload"]["rev"] for hit in each.answer["results"]] == [self.version], each
        return [each.answer for each in asked]

    def cached(self) -> bool:
        """True if both caches serve."""
        return {answer["retrieval_stage"] for answer in self.ask()} >= CACHES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
def test_a_replica_whose_reader_hangs_answers_what_is_true(
    behind_a_proxy: tuple[Broker, Proxy],
    tmp_path: Path,
    topic_names: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the broker doesn't answer the reader, no cache does, and each answer is fresh; then the caches serve again.

    The flow's other connections are well.
    """
    broker, link = behind_a_proxy

    def apart(_: object, timeout: float) -> WatermarkReader:
        """A reader that reaches the broker by the proxy."""
        kafka = settings.kafka.model_copy(update={"bootstrap_servers": f"127.0.0.1:{link.port}"})
        return WatermarkReader(
            lambda: Librdkafka(kafka).tail(settings.kafka.topics.watermarks), timeout, WatermarkTable()
        )

    monkeypatch.setattr(process, "WatermarkReader", apart)
    with qdrant_server.running(tmp_path / "engine") as qdrant:
        sections = {"qdrant": {"url": qdrant, "timeout": 20, "dimension": len(VECTOR)}, "limits": {"timeout": 60}}
        with (
            Deployment.on(broker, tmp_path, topic_names, sections) as system,
            Conversation.with_(system) as conversation,
        ):
            system.start("index")
            settings = load(None, system.settings)
            flow = Embedded(settings, InProcess(settings))
            with flow.running(lambda settings, in_process, *_, **__: process.search_replica(settings, in_process)):
                _outages(Speaker(conversation), link)


def _outages(speaker: Speaker, link: Proxy) -> None:
    speaker.write()
    wait_until(speaker.cached)
    for mode in (Mode.HANG, Mode.REFUSE):
        link.switch(mode)
        for turn in range(9):
            if turn % 3 == 0:
                speaker.write()
            for answer in speaker.ask():
                assert answer["retrieval_stage"] not in CACHES
                assert answer["provenance"]["index_watermark"] is None
        link.switch(Mode.PASS)
        wait_until(speaker.cached)
        speaker.write()
        speaker.ask()
        wait_until(speaker.cached)

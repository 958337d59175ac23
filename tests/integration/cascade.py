"""The fixtures of the cascade's tests: a running system that is asked many queries at once, and Qdrant's requests."""

import asyncio
import itertools
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import kafka
import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from rich.console import Console

from bench.kafka.broker import Broker
from bench.stubs import served
from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from operators.clients.qdrant_edge.shards import Engine
from schemas import headers as names
from schemas.document import EXPIRES
from schemas.result import ResultEvent
from tests.integration.deployment import PARTITIONS, Deployment, Headers, wait_until
from tests.integration.searching import CACHE
from tests.qdrant_server import application

Json = dict[str, Any]
AskTogether = Callable[[Sequence[Json]], list[Json]]

EVERY_LEG: Json = {"recipe": "rrf", "overrides": {"rrf": {"weights": {"structured": 0.5}}}}
"""A query's wish to be answered by vector, keyword and structured leg."""

BATCH = "/points/query/batch"
SCROLL = "/points/scroll"
RETRIEVE = "/points"


def _sweeps(scroll: Json) -> bool:
    """True if a scroll looks for what has expired."""
    return any(each.get("key") == EXPIRES for each in scroll.get("filter", {}).get("must", ()))


class Heard(NamedTuple):
    """One request to Qdrant."""

    path: str
    body: Any


class Recorder:
    """Stands before Qdrant: keeps what it is asked, and can hold requests back."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self._held: str | None = None
        self.reached = threading.Event()
        """A request has come that is held back."""

    @contextmanager
    def holding(self, path: str) -> Iterator[None]:
        """While the block is open no request whose path ends so is answered."""
        self._held = path
        self.reached.clear()
        try:
            yield
        finally:
            self._held = None

    @property
    def asked(self) -> list[Heard]:
        """The requests for queries: flows look at collections, and for expired documents, from time to time."""
        asked = [each for each in list(self.heard) if each.body is not None]
        return [each for each in asked if not (each.path.endswith(SCROLL) and _sweeps(each.body))]

    def forget(self) -> None:
        """From now on only what comes now counts."""
        self.heard.clear()

    def searches(self, leg: str | None = None) -> list[Json]:
        """The legs' searches: `dense`, `bm25`, or `structured`; None: all of them."""
        batches = [each for path, body in list(self.heard) if path.endswith(BATCH) for each in body["searches"]]
        # The indexing flow looks for expired documents whenever it is time.
        scrolls = [body for path, body in list(self.heard) if path.endswith(SCROLL) and not _sweeps(body)]
        if leg == "structured":
            return scrolls
        return [each for each in batches if leg in (None, each.get("using"))] + (scrolls if leg is None else [])

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep the request, and hold it back as long as that is wanted."""
        content = await request.read()
        self.heard.append(Heard(request.path, json.loads(content) if content else None))
        while self._held is not None and request.path.endswith(self._held):
            self.reached.set()
            await asyncio.sleep(0.005)
        return await handler(request)


@contextmanager
def recorded(directory: Path, recorder: Recorder) -> Iterator[str]:
    """Qdrant's engine over HTTP, behind the recorder; gives the base URL."""
    with Engine(directory) as engine:
        app = application(engine)
        app.middlewares.append(recorder.middleware)
        with served(app) as url:
            yield url


class Ended(NamedTuple):
    """The end of a query: `kind` is `result`, or a dead letter's class, of which `said` is the message."""

    kind: str
    value: Json
    headers: dict[str, bytes]
    said: str


class Position(NamedTuple):
    """The destination of the documents; None: the default."""

    namespace: str
    destination: str | None
    collection: str | None


class System:
    """A running deployment, asked in one namespace unless the query says otherwise."""

    def __init__(self, deployment: Deployment, recorder: Recorder, namespace: str, probe: Headers) -> None:
        """`probe`: the headers of a source that may ask in every namespace."""
        self.deployment = deployment
        self.qdrant = recorder
        self._namespace = namespace
        self._probe = probe
        self._asked = 0
        self._ended: dict[str, Ended] = {}
        self._refusals: dict[str, Json] = {}
        self._marks: dict[Position, dict[int, int]] = defaultdict(dict)
        bootstrap = deployment.broker.bootstrap
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=1)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        topics = (deployment.names["results"], deployment.names["dead_letters"])
        self._consumer.assign([kafka.TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._producer.close()
        self._consumer.close()

    def together(
        self, events: Sequence[Mapping[str, Any]], headers: Headers | None = None, *, later: float = 0.0
    ) -> list[Ended]:
        """The end of each query, all produced before one is waited for; results must hold to the contract.

        `later`: seconds by which the messages' timestamps are ahead.
        """
        return self.collect(self.send(events, headers, later=later))

    def send(
        self, events: Sequence[Mapping[str, Any]], headers: Headers | None = None, *, later: float = 0.0
    ) -> list[str]:
        """Produce the queries and return once the broker has them; their ids."""
        sent = []
        for event in events:
            self._asked += 1
            whole = {"query_id": f"q{self._asked}", "namespace": self._namespace, **event}
            # None leaves a field out, so that a query can be asked without a namespace.
            value = json.dumps({name: each for name, each in whole.items() if each is not None}).encode()
            key = str(self._asked).encode()
            stamp = int((time.time() + later) * 1000) if later else None
            topic = self.deployment.names["queries"]
            future = self._producer.send(topic, value, key, headers or [], timestamp_ms=stamp)
            sent.append((str(whole["query_id"]), future))
        self._producer.flush()
        for _, future in sent:
            future.get(10)
        return [query_id for query_id, _ in sent]

    def collect(self, query_ids: Sequence[str]) -> list[Ended]:
        """The ends of the queries with these ids."""

        def ended() -> bool:
            self._read()
            return all(self._heard(query_id) for query_id in query_ids)

        wait_until(ended)
        return [self._ended[query_id] for query_id in query_ids]

    def ask(self, event: Mapping[str, Any], headers: Headers | None = None) -> Json:
        """The result of one query."""
        (answer,) = self.answers([event], headers)
        return answer

    def answers(
        self, events: Sequence[Mapping[str, Any]], headers: Headers | None = None, *, later: float = 0.0
    ) -> list[Json]:
        """The results of these queries, asked together; none of them may be a dead letter."""
        ended = self.together(events, headers, later=later)
        assert {each.kind for each in ended} == {"result"}, [each.said for each in ended if each.kind != "result"]
        return [each.value for each in ended]

    def pages(self, events: Sequence[Mapping[str, Any]], headers: Headers | None = None) -> list[list[Json]]:
        """Every page of each of these queries."""
        pages: list[list[Json]] = [[] for _ in events]
        going = dict(enumerate(events))
        while going:
            for place, answer in zip(going.copy(), self.answers(list(going.values()), headers), strict=True):
                pages[place].append(answer)
                going[place] = {**events[place], "cursor": answer["next_cursor"]}
                if answer["next_cursor"] is None:
                    del going[place]
        return pages

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Produce documents, and return once the search flow knows that they are indexed."""
        topic = self.deployment.names["documents"]
        sent = [
            (each, self._producer.send(topic, json.dumps(each).encode(), each["id"].encode())) for each in documents
        ]
        self._producer.flush()
        for document, future in sent:
            metadata = future.get(10)
            self._marks[_place(document)][metadata.partition] = metadata.offset
        wait_until(lambda: all(map(self._known, {_place(document) for document in documents})))

    def _known(self, place: Position) -> bool:
        nothing = [{"field": "id", "op": "eq", "value": "nothing"}]
        known = self.ask({**place._asdict(), "filters": nothing}, self._probe)["provenance"]["index_watermark"]
        marks = self._marks[place]
        return bool(known == [f"{partition}:{marks[partition]}" for partition in sorted(marks)])

    def _read(self) -> None:
        for records in self._consumer.poll(timeout_ms=100).values():
            for record in records:
                ended = self._of(record)
                query_id = ended.value["query_id"]
                if ended.value.get("status") == "invalid":
                    assert query_id not in self._refusals, f"{query_id} was refused twice"
                    self._refusals[query_id] = ended.value
                    continue
                assert query_id not in self._ended, f"{query_id} ended twice"
                self._ended[query_id] = ended

    def _heard(self, query_id: str) -> bool:
        """True if the query has ended; one that is refused has both its dead letter and its result."""
        ended, refusal = self._ended.get(query_id), self._refusals.get(query_id)
        if ended is None or ended.kind == "result":
            return ended is not None
        if refusal is None:
            return False
        assert (refusal["error"]["class"], refusal["error"]["reason"]) == (ended.kind, ended.said)
        return True

    def _of(self, record: Any) -> Ended:
        headers, value = dict(record.headers), json.loads(record.value)
        if record.topic == self.deployment.names["dead_letters"]:
            said = headers[names.MESSAGE].decode()
            return Ended(headers[names.CLASS].decode(), value, headers, said)
        ResultEvent.model_validate(value)
        return Ended("result", value, headers, "")


def _place(document: Mapping[str, Any]) -> Position:
    return Position(document["namespace"], document.get("destination"), document.get("collection"))


def ids(answer: Json) -> list[str]:
    """The documents of an answer, in order."""
    return [hit["id"] for hit in answer["results"]]


def listed(pages: Sequence[Json]) -> list[str]:
    """The documents of pages, in order."""
    return [id_ for page in pages for id_ in ids(page)]


def leg(answer: Json, name: str) -> tuple[str, str | None]:
    """The status of a leg, and its reason."""
    return next((each["status"], each["reason"]) for each in answer["legs"] if each["name"] == name)


@contextmanager
def running(
    broker: Broker,
    directory: Path,
    sections: Mapping[str, Any],
    *,
    namespace: str,
    probe: Headers | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Both flows over an empty index; in `sections`, QUERIES stands for the topic's name."""
    recorder = Recorder()
    unique = uuid.uuid4().hex[:8]

    def name(word: str) -> str:
        return f"{word}-{unique}"

    written = orjson.loads(orjson.dumps(sections).replace(b"QUERIES", name("queries").encode()))
    with recorded(directory / "engine", recorder) as qdrant:
        settings = {
            **written,
            "qdrant": {"url": qdrant, "timeout": 20, **written.get("qdrant", {})},
            "cache_dir": str(CACHE),
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, directory, name, settings) as deployment:
            deployment.start("index", replica="i")
            deployment.environment = dict(environment or {})
            deployment.start("run", replica="s")
            with System(deployment, recorder, namespace, probe or []) as system:
                yield system


@contextmanager
def over(
    broker: Broker | None,
    directory: Path,
    sections: Mapping[str, Any],
    documents: Sequence[Mapping[str, Any]],
    namespace: str,
) -> Iterator[AskTogether]:
    """Both flows over these documents, which their results hold to the contract: with a broker over HTTP to a server,
    without one with the engine in the process. Queries are of the namespace unless they name another.
    """
    if broker is not None:
        with running(broker, directory, sections, namespace=namespace) as system:
            system.write(documents)
            yield system.answers
        return
    inside = {**sections, "qdrant": {**sections["qdrant"], "path": str(directory)}}
    with start_with_settings(embedded_settings(directory, inside)) as embedded:
        index_once(embedded, "corpus", lambda: enumerate(documents, 1), "1", directory, Console(quiet=True))
        numbers = itertools.count()
        with embedded.searching(), QueryClient.connect(embedded.kafka, embedded.settings.kafka.topics) as client:

            def together(events: Sequence[Json]) -> list[Json]:
                asked = [{"query_id": f"q{next(numbers)}", "namespace": namespace, **event} for event in events]
                found = {result["query_id"]: result for result in client.ask(asked, 60)}
                for result in found.values():
                    ResultEvent.model_validate(result)
                return [found[str(event["query_id"])] for event in asked]

            yield together

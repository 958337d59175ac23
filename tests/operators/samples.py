"""Messages, queries and terminal records as the tests of the operators need them."""

import dataclasses
import time
from typing import Any

import orjson
from opentelemetry.trace import NoOpTracer, Tracer

from operators.caching.bounded import ExactCache
from operators.caching.keys import binding
from operators.caching.semantic_cache import SemanticCache
from operators.collections.catalogue import Catalogue
from operators.delivery.output_record import OutputRecord
from operators.delivery.topics import DEFAULT_MAX, ReplyTopics, TopicState
from operators.delivery.way_out import WayOut
from operators.query.collection import Capabilities, Destinations, Modifier
from operators.query.cursor import CursorCodec
from operators.query.in_flight import InFlight
from operators.query.legs import Searches
from operators.query.normalise import Normalised, Normaliser
from operators.query.plan import Planner
from operators.query.search import QueryBatch, Scroll, Search
from operators.query.search_bodies import Bodies
from operators.stages.admit import Admission
from operators.stages.answers import Answers
from operators.stages.decode import Decoder
from operators.telemetry.metrics import FlowMetrics, Instruments
from operators.telemetry.traces import QueryTrace, Signals
from operators.wire.message import Message, Origin
from operators.wire.reply import Replies
from schemas.settings import Defaults, FirewallSettings, Limits, PolicySettings, QdrantSettings
from schemas.settings.delivery import ReplySettings
from schemas.settings.qdrant import Vectors
from schemas.settings.ranking import PROFILES

DIMENSION = 3
OURS = Capabilities("documents")
STRICT = {"unindexed_filtering_retrieve": False}
"""The limit of a collection whose filters need an index."""

METRICS = FlowMetrics(Instruments(), "search")


def signals(tracer: Tracer | None = None) -> Signals:
    """Signals of a tracer; without one nothing is recorded."""
    return Signals(tracer if tracer is not None else NoOpTracer(), METRICS, "rankstream")


SIGNALS = signals()
PLANNER = Planner(PROFILES)
CURSORS = CursorCodec(None)
REPLY_TOPICS = ReplyTopics((), {}, lambda names: dict.fromkeys(names, TopicState(8, DEFAULT_MAX)))
"""Every topic is there, with eight partitions."""

REPLIES = Replies(("results", "answers"), ReplySettings())


def origin(offset: int = 0, *, partition: int = 0, epoch: int = 1, topic: str = "queries") -> Origin:
    """A place in Kafka."""
    return Origin(topic, partition, offset, epoch)


def message(value: Any = b"{}", offset: int = 0, **changes: Any) -> Message:
    """A message that was just read; a value that isn't bytes is written as JSON."""
    now = time.time()
    fields: dict[str, Any] = {
        "origin": origin(offset),
        "key": b"key",
        "value": value if value is None or isinstance(value, bytes) else orjson.dumps(value),
        "headers": (),
        "timestamp": now,
        "received": now,
        "clock": time.monotonic(),
    }
    return Message(**{**fields, **changes})


def normaliser(**changes: Any) -> Normaliser:
    """A normaliser of one destination, `default`, in the collection `documents`."""
    fields: dict[str, Any] = {
        "destinations": Destinations({"default": "documents"}),
        "defaults": Defaults(namespace="public"),
        "policies": PolicySettings(),
        "firewall": FirewallSettings(),
        "planner": PLANNER,
        "cursors": CURSORS,
        "replies": REPLIES,
        "config_hash": "0" * 64,
        **changes,
    }
    fields["replies"] = dataclasses.replace(fields["replies"], policies=fields["policies"])
    return Normaliser(**fields)


def decoder(tracer: Tracer | None = None, **changes: Any) -> Decoder:
    """A decoder of one destination, `default`, in the collection `documents`; `changes` may be its normaliser's."""
    its_own = {field.name for field in dataclasses.fields(Decoder)}
    fields: dict[str, Any] = {
        "limits": Limits(),
        "dimension": DIMENSION,
        "record_content": False,
        "signals": signals(tracer),
        "normalise": normaliser(**{name: value for name, value in changes.items() if name not in its_own}),
    }
    return Decoder(**{**fields, **{name: value for name, value in changes.items() if name in its_own}})


def way_out(**changes: Any) -> WayOut:
    """A way out that tells the caller of a refusal, to topics of which nothing is known, under `policies`."""
    replies = changes.get("replies", REPLIES)
    changes["replies"] = dataclasses.replace(replies, policies=changes.pop("policies", replies.policies))
    fields: dict[str, Any] = {
        "results": "results",
        "dead_letters": "dead-letters",
        "replies": REPLIES,
        "max_bytes": {},
        "source": "/rankstream/test",
        "config_hash": "0" * 64,
        "tells": True,
        "signals": SIGNALS,
    }
    return WayOut(**{**fields, **changes})


def admission(**changes: Any) -> Admission:
    """An admission at the beginning of its clock."""
    settings = QdrantSettings(url="http://qdrant")
    unasked: Any = None
    fields: dict[str, Any] = {
        "catalogue": Catalogue(unasked, settings),
        "columns": settings.columns,
        "ordered": frozenset({"created_at", "updated_at"}),
        "clock": lambda: 0.0,
    }
    return Admission(**{**fields, **changes})


def capable(of: Capabilities = OURS, **given: Any) -> Capabilities:
    """These capabilities with other ones: vectors by their keys in qdrant.vectors, limits by Qdrant's names.

    A vector is there (True), lacking (False) or not configured (None). A name that is neither is taken for a limit.
    """
    vectors = {key: given.pop(key) for key in [*given] if key in Vectors.model_fields}
    limits = {**of.limits, **given.pop("limits", {})}
    own = {name: given.pop(name) for name in [*given] if name in Capabilities.__dataclass_fields__}
    there: dict[str, Modifier | None] = {key: None for key, has in vectors.items() if has is False}
    there |= {key: "idf" if key.startswith("sparse") else "none" for key, has in vectors.items() if has}
    known = {key: each for key, each in of.vectors.items() if key not in vectors}
    return dataclasses.replace(of, vectors={**known, **there}, limits={**limits, **given}, **own)


def answers(**changes: Any) -> Answers:
    """Nothing is answered yet; of what will be, a MiB is kept in each cache for a minute."""
    caches = {"exact": ExactCache(1 << 20, 60.0), "semantic": SemanticCache(1 << 20, 60.0, 0.92, 1000)}
    return Answers(**{**caches, "clock_bucket": 60.0, **changes})


def query(offset: int = 0, tracer: Tracer | None = None, **event: Any) -> InFlight:
    """A query in flight, as `decode` makes it."""
    return decoder(tracer)(message({"query_id": f"q{offset}", "text": "some text", **event}, offset))


def bound(query: InFlight | Normalised) -> bytes:
    """The query that its cursors continue."""
    asked, scope = (query.query, query.scope) if isinstance(query, Normalised) else (query.asked, query.cache.scope)
    return binding(scope, asked.text, asked.event.vector)


def output_record(offset: int, *, partition: int = 0, epoch: int = 1, **changes: Any) -> OutputRecord:
    """The result record of the query at `offset`."""
    fields: dict[str, Any] = {
        "origin": origin(offset, partition=partition, epoch=epoch),
        "topic": "results",
        "key": b"key",
        "value": b"answer %d" % offset,
        "headers": (),
    }
    return OutputRecord(**{**fields, **changes})


def trace(tracer: Tracer | None = None, *headers: tuple[str, bytes], **attributes: str) -> QueryTrace:
    """A trace of no query in particular."""
    return signals(tracer).trace(message(), headers, attributes)


VECTORS = {
    "vector": "dense",
    "keyword": "bm25",
    "vector_context": "dense_context",
    "keyword_context": "bm25_context",
    "learned": "splade",
    "fuzzy": "fuzzy",
}


def searches(*, idf_of_namespace: bool = True, vectors: dict[str, str] | None = None, **changes: Any) -> Searches:
    """The searches of all legs, on vectors with their usual names."""
    return Searches(Bodies({**VECTORS, **(vectors or {})}, idf_of_namespace, **changes))


def body(search: Search) -> Any:
    """The body of a search's first request, which is a query or a page of records."""
    match next(search.start()):
        case QueryBatch([first, *_]):
            return first
        case Scroll(where, limit, fields, order_by, _):
            return {"filter": where, "limit": limit, "with_payload": fields, "order_by": order_by}
    raise AssertionError

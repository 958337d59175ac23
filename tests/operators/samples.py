"""Messages, queries and terminal records as the tests of the operators need them."""

import time
from typing import Any

import orjson
from opentelemetry.trace import NoOpTracer, Tracer

from operators.decode import Decoder
from operators.inflight import InFlight, Message, Origin, Terminal
from operators.recipes import Planner
from operators.telemetry import QueryTrace
from schemas.settings import Limits
from schemas.settings.ranking import PROFILES

DIMENSION = 3
TRACER = NoOpTracer()
PLANNER = Planner(PROFILES)


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


def decoder(tracer: Tracer = TRACER, **changes: Any) -> Decoder:
    """A decoder of one destination, `default`, in the collection `documents`."""
    fields: dict[str, Any] = {
        "limits": Limits(),
        "destinations": {"default": "documents"},
        "default_destination": "default",
        "default_namespace": "public",
        "reply_to": frozenset({"results", "answers"}),
        "dimension": DIMENSION,
        "record_content": False,
        "tracer": tracer,
        "planner": PLANNER,
    }
    return Decoder(**{**fields, **changes})


def query(offset: int = 0, tracer: Tracer = TRACER, **event: Any) -> InFlight:
    """A query in flight, as `decode` makes it."""
    return decoder(tracer)(message({"query_id": f"q{offset}", "text": "some text", **event}, offset))


def terminal(offset: int, *, partition: int = 0, epoch: int = 1, **changes: Any) -> Terminal:
    """The result record of the query at `offset`."""
    fields: dict[str, Any] = {
        "origin": origin(offset, partition=partition, epoch=epoch),
        "topic": "results",
        "key": b"key",
        "value": b"answer %d" % offset,
        "headers": (),
    }
    return Terminal(**{**fields, **changes})


def trace(tracer: Tracer = TRACER) -> QueryTrace:
    """A trace of no query in particular."""
    return QueryTrace(tracer, (), "queries", time.time(), {})

"""Decode: a message's bytes become a query in flight, or a named error."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from bytewax.dataflow import Stream, operator
from opentelemetry.trace import Tracer
from pydantic import BaseModel, ValidationError

from operators import cloud_event
from operators.cloud_event import CloudEvent, Mode
from operators.inflight import InFlight, Message
from operators.normalise import Normaliser
from operators.stage import Stage, stage
from operators.telemetry import QueryTrace
from schemas.errors import DeadLetterClass, InputError, invalid, problem
from schemas.normalization import nfc
from schemas.query import SCHEMA_VERSION, QueryEvent
from schemas.settings import Limits, Settings
from schemas.timestamp import unix_seconds

E = TypeVar("E", bound=BaseModel)

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?')

_NESTING: Final = frozenset({dict, list})
MAX_DEPTH: Final = 100
"""Levels of nesting: what is written again, to Qdrant and into results, must stay within the writer's 254."""


def parse(value: bytes | None, max_bytes: int) -> dict[str, Any]:
    """Read one event. Raises InputError as `json_object` does, and `unsupported_version`."""
    return readable(json_object(value, max_bytes))


def json_object(value: bytes | None, max_bytes: int) -> dict[str, Any]:
    """Read one JSON object.

    Raises InputError: `too_large`, `not_json` (NaN and deep nesting included), or `invalid` for anything but an object
    and for a repeated key.
    """
    if value is None:
        raise InputError(DeadLetterClass.NOT_JSON, "the message has no value")
    if len(value) > max_bytes:
        raise InputError(DeadLetterClass.TOO_LARGE, f"{len(value)} bytes, at most {max_bytes}")
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InputError(DeadLetterClass.NOT_JSON, f"{error.msg} at character {error.pos}") from error
    if not isinstance(document, dict):
        raise InputError(DeadLetterClass.INVALID, f"an object is expected, not {type(document).__name__}")
    keys, levels = _shape(document)
    if levels > MAX_DEPTH:
        raise InputError(DeadLetterClass.NOT_JSON, f"nested {levels} levels deep, at most {MAX_DEPTH}")
    # The parser keeps the last of repeated keys without a word: count what was written.
    if sum(1 for match in _STRINGS.finditer(value) if match[1]) != keys:
        raise InputError(DeadLetterClass.INVALID, "a key is repeated")
    return document


def readable(document: dict[str, Any]) -> dict[str, Any]:
    """The same event, if its schema version is ours. Raises InputError `unsupported_version`."""
    version = document.get("schema_version", SCHEMA_VERSION)
    # What isn't an integer is no version at all, and the schema's to refuse.
    if type(version) is int and version != SCHEMA_VERSION:
        raise InputError(
            DeadLetterClass.UNSUPPORTED_VERSION, f"schema_version: {version}, this version reads {SCHEMA_VERSION}"
        )
    return document


def explain(error: ValidationError) -> str:
    """Every problem as `field: what is wrong (value)`, values cut short."""
    problems = []
    for item in error.errors(include_url=False):
        field = ".".join(str(part) for part in item["loc"])
        problems.append(problem(field, item["msg"], item["input"]) if field else item["msg"])
    return "; ".join(problems)


def validated(model: type[E], document: dict[str, Any]) -> E:
    """The event that the object is. Raises InputError `invalid` with every problem."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise InputError(DeadLetterClass.INVALID, explain(error)) from error


def check_headers(message: Message) -> None:
    """Raise InputError `invalid` for a message whose headers can't be read."""
    if not message.legible:
        raise InputError(DeadLetterClass.INVALID, "headers: a name isn't UTF-8")


def check_dimension(vector: Sequence[float] | None, dimension: int) -> None:
    """Raise InputError `vector_dimension` for a vector of another length than the collection's."""
    if vector is not None and len(vector) != dimension:
        raise InputError(DeadLetterClass.VECTOR_DIMENSION, f"vector: {len(vector)} numbers, expected {dimension}")


@dataclass(frozen=True, slots=True)
class Decoder:
    """Turns messages into queries under one configuration."""

    limits: Limits
    reply_to: frozenset[str]
    dimension: int
    record_content: bool
    tracer: Tracer
    normalise: Normaliser

    @classmethod
    def of(cls, settings: Settings, tracer: Tracer) -> "Decoder":
        """The decoder that the settings ask for."""
        return cls(
            settings.limits,
            frozenset((settings.kafka.topics.results, *settings.kafka.topics.reply_to)),
            settings.qdrant.dimension,
            settings.telemetry.record_content,
            tracer,
            Normaliser.of(settings),
        )

    def __call__(self, message: Message) -> InFlight:
        """The query that the message asks. Raises InputError."""
        check_headers(message)
        envelope, document = self._opened(message)
        check_text(document.get("text"), self.limits)
        event = validated(QueryEvent, document)
        check_dimension(event.vector, self.dimension)
        if event.reply_to is not None and event.reply_to not in self.reply_to:
            raise invalid("reply_to", "not a topic that a query may choose", event.reply_to)
        sent = event.now if event.now is not None else _clock(message)
        query = self.normalise(event, message.headers, message.origin.topic, sent)
        patience = self.limits.timeout if event.timeout_ms is None else event.timeout_ms / 1000
        attributes: dict[str, str | int] = {
            "messaging.destination.partition.id": str(message.origin.partition),
            "messaging.kafka.offset": message.origin.offset,
            "rankstream.query_id": event.query_id,
        }
        if query.denial is None:
            attributes["db.collection.name"] = query.collection
        if self.record_content and event.text is not None:
            attributes["db.query.text"] = event.text
        headers = message.headers if envelope is None else cloud_event.traced(message.headers, envelope.trace)
        trace = QueryTrace(self.tracer, headers, message.origin.topic, message.received, attributes)
        return InFlight(
            message=message,
            event=event,
            canonical=query.canonical,
            plan=query.plan,
            denial=query.denial,
            guard=query.guard,
            collection=query.collection,
            scope=query.scope,
            deadline=message.clock - message.age + min(patience, self.limits.max_timeout),
            trace=trace,
            envelope=envelope,
            warnings=query.warnings,
        )

    def _opened(self, message: Message) -> tuple[CloudEvent | None, dict[str, Any]]:
        limit = self.limits.max_message_bytes
        mode = cloud_event.content_mode(message.headers)
        if mode is None:
            return None, parse(message.value, limit)
        if mode is Mode.BINARY:
            return cloud_event.from_headers(message.headers), parse(message.value, limit)
        envelope, data = cloud_event.from_envelope(json_object(message.value, limit))
        if isinstance(data, bytes):
            return envelope, parse(data, limit)
        if not isinstance(data, dict):
            raise invalid("data", "an object is expected", data)
        return envelope, readable(data)


def check_text(text: object, limits: Limits) -> None:
    """Raise InputError `too_large` for a query's text that is too long, composed as it is searched for."""
    if isinstance(text, str) and (length := len(nfc(text))) > limits.max_text_chars:
        raise InputError(DeadLetterClass.TOO_LARGE, f"text: {length} characters, at most {limits.max_text_chars}")


def _clock(message: Message) -> float:
    try:
        return unix_seconds(message.sent)
    except ValueError as error:
        raise InputError(DeadLetterClass.INVALID, f"the message's timestamp: {error}") from error


def _shape(document: Any) -> tuple[int, int]:
    """How many keys there are, and how many levels of objects and arrays."""
    keys = levels = 0
    level = [document]
    while level:
        levels += 1
        below: list[Any] = []
        for value in level:
            items: Iterable[Any] = value
            if isinstance(value, dict):
                keys += len(value)
                items = value.values()
            # A vector's hundreds of numbers are passed over at once.
            if not _NESTING.isdisjoint(map(type, items)):
                below += [item for item in items if type(item) in _NESTING]
        level = below
    return keys, levels


@operator
def decode(step_id: str, up: Stream[list[Message]], decoder: Decoder) -> Stage[InFlight]:
    """Messages in; queries on, what can't be read dead."""
    return stage("decode", up, lambda message: message, decoder)

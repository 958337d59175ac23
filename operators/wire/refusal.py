"""Refusals: who sent a message that is refused, as far as that can be read, and the result that says why.

Rules
-----
- The caller is *legible* if the message's value is a JSON object whose `query_id` is valid and given once. It doesn't
  matter what else is wrong: other fields, their number or size, repeated keys, NaN, half of a surrogate pair, nesting
  too deep for an event. JSON that breaks off, or is nested too deep to be read at all, is not legible.
- `reply_to`, `source` and `metadata` count only if they are given once, and `metadata` only if it can be returned
  unchanged.
- A CloudEvent's query is read out of an envelope that is wrong, too; its result is then a plain one, because there is
  nothing to answer in kind.
"""

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from operators.wire import cloud_event
from operators.wire.cloud_event import CloudEvent, Mode
from operators.wire.message import Message, Origin, result_id
from schemas import fields
from schemas.errors import DeadLetterClass, InputError
from schemas.event import whole
from schemas.result import Status, TotalRelation

_MOST_DIGITS: Final = 19
"""Of an integer of 64 bits."""

_LONG: Final = re.compile(rb"\d{%d}" % (_MOST_DIGITS + 1))


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender to answer. `reply_to` is the topic that was named, allowed or not, `source` the event's claim."""

    query_id: str
    reply_to: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] | None = None
    envelope: CloudEvent | None = None


def caller(message: Message) -> Caller | None:
    """The sender of the message; None if it isn't legible."""
    try:
        mode = cloud_event.content_mode(message.headers)
    except InputError:
        # A format that isn't read here.
        return None
    query, envelope = _open(message, mode)
    query_id = fields.query_id(query.once("query_id")) if query is not None else None
    if query is None or query_id is None:
        return None
    reply_to, source = query.once("reply_to"), query.once("source")
    return Caller(
        query_id,
        reply_to if isinstance(reply_to, str) else None,
        source if isinstance(source, str) else None,
        fields.metadata(query.once("metadata")) if not query.repeats else None,
        envelope,
    )


def refused_result(
    sent_by: Caller,
    origin: Origin,
    config_hash: str,
    kind: DeadLetterClass,
    field: str | None,
    reason: str,
) -> dict[str, Any]:
    """The result event of a refused query: it has no results, and says why."""
    return {
        "schema_version": 1,
        "query_id": sent_by.query_id,
        "result_id": result_id(origin),
        "status": Status.INVALID,
        "profile": None,
        "retrieval_stage": None,
        "results": [],
        "total": 0,
        "total_relation": TotalRelation.EQ,
        "has_more": False,
        "next_cursor": None,
        "backends_used": [],
        "semantic_unavailable": False,
        "legs": [],
        "degraded": [],
        "warnings": [],
        "removed_by_firewall": 0,
        "provenance": {
            "config_hash": config_hash,
            "recipe": None,
            "recipe_hash": None,
            "models": {"embedder": None, "reranker": None},
            "index_watermark": None,
            "now": None,
            "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        },
        "metadata": sent_by.metadata,
        "error": {"class": kind, "field": field, "reason": reason},
    }


class _Object(dict[str, Any]):
    """A JSON object with keys that are given twice."""

    __slots__ = ("twice",)

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.twice = frozenset(name for name, count in counts.items() if count > 1)


class _Read(NamedTuple):
    """A JSON object as it was written. `repeats`: an object in the text has a key twice."""

    fields: dict[str, Any]
    repeats: bool

    @classmethod
    def of(cls, value: bytes | None) -> "_Read | None":
        """The one object that the value is; None if it is none, or can't be read."""
        repeats = False

        def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal repeats
            made = dict(pairs)
            if len(made) == len(pairs):
                return made
            repeats = True
            return _Object(pairs)

        text = whole(value or b"")
        # Python's own parser: it says which keys are repeated, and reads what only ours is too strict for.
        integer = _integer if _LONG.search(text) else None
        try:
            found = json.loads(text.decode(), object_pairs_hook=build, parse_int=integer)
        except (ValueError, RecursionError):
            return None
        return cls(found, repeats) if isinstance(found, dict) else None

    def once(self, name: str) -> Any:
        """The field's value; None if it isn't given exactly once."""
        return None if isinstance(self.fields, _Object) and name in self.fields.twice else self.fields.get(name)


def _integer(digits: str) -> float:
    # Python refuses to read more than a few thousand digits.
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _open(message: Message, mode: Mode | None) -> tuple[_Read | None, CloudEvent | None]:
    """The query, and its envelope if that keeps the specification."""
    document = _Read.of(message.json)
    if mode is None or document is None:
        return document, None
    if mode is Mode.BINARY:
        return document, _read_envelope(lambda: cloud_event.from_headers(message.headers))
    envelope = _read_envelope(lambda: cloud_event.from_envelope(document.fields)[0]) if not document.repeats else None
    return _data(document), envelope


def _data(envelope: _Read) -> _Read | None:
    encoded, data = envelope.once("data_base64"), envelope.once("data")
    if encoded is None:
        return _Read(data, envelope.repeats) if isinstance(data, dict) else None
    if "data" in envelope.fields:
        return None
    try:
        return _Read.of(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, TypeError):
        return None


def _read_envelope(read: Callable[[], CloudEvent]) -> CloudEvent | None:
    try:
        envelope = read()
        # Half of a surrogate pair can be in no header.
        "".join((envelope.id, envelope.source, envelope.correlation_id or "")).encode()
    except (InputError, ValueError):
        return None
    return envelope

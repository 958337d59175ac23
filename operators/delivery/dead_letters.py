"""Dead letters: a rejected message becomes a record of its own, with the original unchanged."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson

from operators.delivery.error_codes import too_large
from operators.delivery.record_size import record_size
from operators.query import cloud_event
from operators.query.message import Cause, Message, OutputRecord, Rejected
from operators.query.trace import Headers, Trace
from operators.telemetry.traces import DEAD_LETTER, Signals
from schemas import dead_letter as names
from schemas.errors import DeadLetterClass

_MAX_TIMESTAMP_MS: Final = 2**63 - 1

WITHOUT_PAYLOAD: Final = "send"
"""The stage that dead letters without payload name, and no others."""


def dead_letter(rejected: Rejected, topic: str, trace_id: str | None) -> OutputRecord:
    """The record for a rejected message: its key, value, headers and timestamp, and headers that say why."""
    message = rejected.message
    # A record without key and value can't be produced: the key becomes empty.
    key = b"" if message.key is None and message.value is None else message.key
    return OutputRecord(
        message.origin,
        topic,
        key,
        message.value,
        message.headers + _why(rejected, trace_id),
        timestamp_ms=_timestamp_ms(message.timestamp),
        cause=Cause(rejected.kind, rejected.stage, rejected.field),
    )


def without_payload(
    refused: OutputRecord, topic: str, kind: DeadLetterClass = DeadLetterClass.TOO_LARGE, reason: str | None = None
) -> OutputRecord:
    """The record in place of one that its topic doesn't take, for its size if no `reason` is given.

    It has no value, and headers that name the message.
    """
    origin = refused.origin
    cause = Cause(kind, WITHOUT_PAYLOAD)
    headers: Headers = (
        *_place(origin.topic, origin.partition, origin.offset),
        (names.STAGE, cause.stage.encode()),
        (names.CLASS, cause.kind.encode()),
        (names.MESSAGE, (reason or too_large(refused.topic)).encode()),
    )
    return OutputRecord(origin, topic, short(refused.key) or b"", None, headers, cause=cause)


def short(key: bytes | None) -> bytes | None:
    """The key; an empty one in place of a long one."""
    return key if key is None or len(key) <= names.MAX_MESSAGE_CHARS else b""


def fits(record: OutputRecord, max_bytes: Mapping[str, int]) -> bool:
    """Whether the record is within its topic's limit; True for a topic without a known limit."""
    limit = max_bytes.get(record.topic)
    return limit is None or record_size(record.key, record.value, record.headers) <= limit


def undeliverable(
    rejected: Rejected, topic: str, signals: Signals, max_bytes: Mapping[str, int] = MappingProxyType({})
) -> OutputRecord:
    """The dead letter of a message, in the message's trace; without payload if its topic takes no larger one."""
    trace = rejected.trace if rejected.trace is not None else _trace(rejected.message, signals)
    trace.rejected(rejected.kind)
    letter = dead_letter(rejected, topic, trace.trace_id)
    trace.send(topic, DEAD_LETTER)
    return replace(letter if fits(letter, max_bytes) else without_payload(letter, topic), trace=trace)


def _trace(message: Message, signals: Signals) -> Trace:
    """The trace of a message that could not be read as a query."""
    headers = cloud_event.traced_rejected(message.headers, lambda: _json(message.value))
    return signals.trace(message, headers, {})


def _json(value: bytes | None) -> object:
    try:
        return orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None


def _timestamp_ms(timestamp: float) -> int | None:
    # A record without a timestamp can't be produced, and a float of seconds rounds the latest possible times up.
    return min(round(timestamp * 1000), _MAX_TIMESTAMP_MS) if timestamp >= 0 else None


def _why(rejected: Rejected, trace_id: str | None) -> Headers:
    origin = rejected.message.origin
    reason = rejected.reason[: names.MAX_MESSAGE_CHARS]
    why: Headers = (
        *_place(origin.topic, origin.partition, origin.offset),
        (names.STAGE, rejected.stage.encode()),
        (names.CLASS, rejected.kind.encode()),
        (names.MESSAGE, reason.encode("utf-8", "replace")),
    )
    return (*why, (names.TRACE_ID, trace_id.encode())) if trace_id else why


def _place(topic: str, partition: int, offset: int) -> Headers:
    return (
        (names.TOPIC, topic.encode()),
        (names.PARTITION, str(partition).encode()),
        (names.OFFSET, str(offset).encode()),
    )

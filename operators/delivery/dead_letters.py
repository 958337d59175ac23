"""Dead letters: rejected messages become records of their own, the original untouched."""

from typing import Final

from operators.inflight import Headers, Rejected, Terminal
from schemas import dead_letter as names
from schemas.errors import DeadLetterClass

_MAX_TIMESTAMP_MS: Final = 2**63 - 1


def dead_letter(rejected: Rejected, topic: str, trace_id: str | None) -> Terminal:
    """The record for a rejected message: its key, value, headers and timestamp, and headers that say why."""
    message = rejected.message
    # A record without key and value can't be produced: the key becomes empty.
    key = b"" if message.key is None and message.value is None else message.key
    return Terminal(
        message.origin,
        topic,
        key,
        message.value,
        message.headers + _why(rejected, trace_id),
        timestamp_ms=_timestamp_ms(message.timestamp),
    )


def without_payload(refused: Terminal, topic: str) -> Terminal:
    """The record in place of one that is too large for its topic: no value, headers that name the query."""
    origin = refused.origin
    headers: Headers = (
        *_place(origin.topic, origin.partition, origin.offset),
        (names.STAGE, b"send"),
        (names.CLASS, DeadLetterClass.TOO_LARGE.encode()),
        (names.MESSAGE, f"the record for {refused.topic} is larger than its topic takes".encode()),
    )
    key = refused.key if refused.key is not None and len(refused.key) <= names.MAX_MESSAGE_CHARS else b""
    return Terminal(origin, topic, key, None, headers)


def _timestamp_ms(timestamp: float) -> int | None:
    # A record without a timestamp can't be produced; and seconds in a float round the last milliseconds of time up.
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

"""Records as kafka-python reads them, also those with a header whose name isn't UTF-8, which other clients can produce.

kafka-python fails at the batch that holds one, at every further poll: nothing behind it would ever be read. After
`read_any_headers` it reads such a record with None in place of its headers.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

from operators.delivery.client import ConsumerRecord, TopicPartition

ALL: Final = 1_000_000
FETCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes that one fetch brings at most, and that may wait in this process, unless a single record is larger."""

_read: Final = DefaultRecordBatch._read_msg


def read_any_headers() -> None:
    """Have every consumer of this process read records whatever the names of their headers."""
    DefaultRecordBatch._read_msg = _read_msg


def consumer_records(fetched: Mapping[Any, Any]) -> list[ConsumerRecord]:
    """The records that a poll returned."""
    return [
        ConsumerRecord(
            TopicPartition(*partition),
            record.offset,
            record.key,
            record.value,
            None if record.headers is None else tuple((name, value or b"") for name, value in record.headers),
            record.timestamp / 1000,
        )
        for partition, records in fetched.items()
        for record in records
    ]


def _read_msg(batch: Any) -> Any:
    try:
        return _read(batch)
    except UnicodeDecodeError:
        return _without_headers(batch)


def _without_headers(batch: Any) -> Any:
    """The record at the batch's position, which moves behind it; the layout is version 2's of Kafka's record format."""
    buffer = batch._buffer
    length, pos = decode_varint(buffer, batch._pos)
    end = pos + length
    _, pos = decode_varint(buffer, pos)
    ts_delta, pos = decode_varint(buffer, pos)
    appended = batch.timestamp_type == batch.LOG_APPEND_TIME
    timestamp = batch.max_timestamp if appended else batch.first_timestamp + ts_delta
    offset_delta, pos = decode_varint(buffer, pos)
    key, pos = _nullable(buffer, pos)
    value, _ = _nullable(buffer, pos)
    batch._pos = end
    return DefaultRecord(
        length, batch.base_offset + offset_delta, timestamp, batch.timestamp_type, key, value, headers=None
    )


def _nullable(buffer: bytearray, pos: int) -> tuple[bytes | None, int]:
    length, pos = decode_varint(buffer, pos)
    return (bytes(buffer[pos : pos + length]), pos + length) if length >= 0 else (None, pos)

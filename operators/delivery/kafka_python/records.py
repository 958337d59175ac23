"""Records as kafka-python reads them, also those with headers that can't be read, which other clients can produce.

kafka-python fails at the batch that holds a header whose name isn't UTF-8, at every further poll: nothing behind it
would ever be read. After `read_any_headers` it reads such a record with None in place of its headers, and so one with
too many of them.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import kafka
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

from operators.delivery.client import CALL_TIMEOUT, READ_HEADERS, ConsumerRecord, TopicPartition
from operators.delivery.kafka_python.connection import close_consumer, connection, naming_failures
from operators.wire.message import Headers
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings

ALL: Final = 1_000_000

_Place = tuple[TopicPartition, int]
"""A partition and an offset."""

_read: Final = DefaultRecordBatch._read_msg


def read_any_headers() -> None:
    """Have every consumer of this process read records whatever the names of their headers."""
    DefaultRecordBatch._read_msg = _read_msg


def consumer_records(fetched: Mapping[Any, Any]) -> list[ConsumerRecord]:
    """The records that a poll returned."""
    found = []
    for of, records in fetched.items():
        partition = TopicPartition(*of)
        for each in records:
            headers = None if each.headers is None else tuple((name, value or b"") for name, value in each.headers)
            found.append(ConsumerRecord(partition, each.offset, each.key, each.value, headers, each.timestamp / 1000))
    return found


class SecondReader:
    """Reads single records a second time, for a client that says of some that they have no headers."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._consumer: Any = None

    def fill_headers(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """The same records, each of them with its headers, if it has any. Raises RetriableDelivery."""
        wanted = {(each.partition, each.offset) for each in records if each.headers == ()}
        if not wanted:
            return list(records)
        with naming_failures("second reading of records without headers"):
            found = self._read(wanted)
        return [replace(each, headers=found.get((each.partition, each.offset), each.headers)) for each in records]

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            close_consumer(self._consumer)

    def _read(self, wanted: set[_Place]) -> dict[_Place, Headers | None]:
        if self._consumer is None:
            read_any_headers()
            # The options of the settings are those of the other client.
            own = {"isolation_level": "read_committed", "allow_auto_create_topics": False, "metrics_enabled": False}
            self._consumer = kafka.KafkaConsumer(**own, **connection(self._settings))
        starts: dict[TopicPartition, int] = {}
        for partition, offset in wanted:
            starts[partition] = min(offset, starts.get(partition, offset))
        self._consumer.assign([kafka.TopicPartition(*partition) for partition in starts])
        for partition, offset in starts.items():
            self._consumer.seek(kafka.TopicPartition(*partition), offset)
        found: dict[_Place, Headers | None] = {}
        until = time.monotonic() + CALL_TIMEOUT
        while not wanted <= found.keys():
            if time.monotonic() > until:
                raise RetriableDelivery("the records don't come")
            fetched = self._consumer.poll(timeout_ms=CALL_TIMEOUT * 1000, max_records=ALL)
            found |= {(each.partition, each.offset): each.headers for each in consumer_records(fetched)}
        return found


def _read_msg(batch: Any) -> Any:
    length, _ = decode_varint(batch._buffer, batch._pos)
    # A header takes two bytes at least.
    if length > 2 * READ_HEADERS and (found := _without_headers(batch, READ_HEADERS)) is not None:
        return found
    try:
        return _read(batch)
    except UnicodeDecodeError:
        return _without_headers(batch)


def _without_headers(batch: Any, most: int = -1) -> Any:
    """The record at the batch's position, which moves behind it; the layout is version 2's of Kafka's record format.

    None, and nothing moves, if the record has at most `most` headers.
    """
    buffer = batch._buffer
    length, pos = decode_varint(buffer, batch._pos)
    end = pos + length
    _, pos = decode_varint(buffer, pos)
    ts_delta, pos = decode_varint(buffer, pos)
    appended = batch.timestamp_type == batch.LOG_APPEND_TIME
    timestamp = batch.max_timestamp if appended else batch.first_timestamp + ts_delta
    offset_delta, pos = decode_varint(buffer, pos)
    key, pos = _nullable(buffer, pos)
    value, pos = _nullable(buffer, pos)
    if decode_varint(buffer, pos)[0] <= most:
        return None
    batch._pos = end
    offset = batch.base_offset + offset_delta
    return DefaultRecord(length, offset, timestamp, batch.timestamp_type, key, value, headers=None)


def _nullable(buffer: bytearray, pos: int) -> tuple[bytes | None, int]:
    length, pos = decode_varint(buffer, pos)
    return (bytes(buffer[pos : pos + length]), pos + length) if length >= 0 else (None, pos)

"""Kafka's frames as a network sees them: which request it is, and whose. Pure, by kafka-python's reading of them."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Self

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)


class Api(IntEnum):
    """The requests that deliver, by their keys."""

    PRODUCE = 0
    OFFSET_COMMIT = 8
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


_SCHEMAS: Final = {
    Api.PRODUCE: (ProduceRequest, ProduceResponse),
    Api.OFFSET_COMMIT: (OffsetCommitRequest, OffsetCommitResponse),
    Api.INIT_PRODUCER_ID: (InitProducerIdRequest, InitProducerIdResponse),
    Api.ADD_PARTITIONS_TO_TXN: (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    Api.ADD_OFFSETS_TO_TXN: (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    Api.END_TXN: (EndTxnRequest, EndTxnResponse),
    Api.TXN_OFFSET_COMMIT: (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that delivers: its bytes without their length, and what it says.

    `transactional_id` is None outside of transactions, `committed` for all but EndTxn.
    """

    api: Api
    version: int
    correlation: int
    transactional_id: str | None
    epoch: int | None
    committed: bool | None
    frame: bytes

    @classmethod
    def read(cls, frame: bytes) -> Self | None:
        """Read a request; None for one of another kind."""
        key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if key not in _SCHEMAS:
            return None
        api = Api(key)
        body = _SCHEMAS[api][0].decode(frame, version=version, header=True)
        transactional_id = _first(body, "transactional_id", "v3_and_below_transactional_id")
        epoch = _first(body, "producer_epoch", "v3_and_below_producer_epoch")
        committed = body.committed if api is Api.END_TXN else None
        return cls(api, version, int.from_bytes(frame[4:8]), transactional_id, epoch, committed, frame)

    def errors(self, answer: bytes) -> set[int]:
        """The error codes in the broker's answer to it; without 0, which is none."""
        return set(_codes(_SCHEMAS[self.api][1].decode(answer, version=self.version, header=True).to_dict())) - {0}

    def with_error(self, answer: bytes, code: int) -> bytes:
        """The broker's answer to it with this code wherever it has one."""
        body = _SCHEMAS[self.api][1].decode(answer, version=self.version, header=True)
        _put(body, code)
        return bytes(body.encode(header=True))

    def throttled(self, answer: bytes, milliseconds: int) -> bytes:
        """The broker's answer to it, of a broker that throttles."""
        body = _SCHEMAS[self.api][1].decode(answer, version=self.version, header=True)
        body.throttle_time_ms = milliseconds
        return bytes(body.encode(header=True))

    def __str__(self) -> str:
        said = {None: "", True: " commit", False: " abort"}[self.committed]
        epoch = "" if self.epoch is None else f" epoch {self.epoch}"
        return f"{self.api.name}{said} of {self.transactional_id}{epoch}"


API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class Versions:
    """A request for the versions of all requests that the broker takes."""

    version: int

    @classmethod
    def read(cls, frame: bytes) -> Self | None:
        """Read it; None for a request of another kind."""
        return cls(int.from_bytes(frame[2:4])) if int.from_bytes(frame[:2]) == API_VERSIONS else None

    def without(self, answer: bytes, lacking: Collection[int]) -> bytes:
        """The broker's answer, of a broker that lacks these kinds of requests."""
        body = ApiVersionsResponse.decode(answer, version=self.version, header=True)
        body.api_keys = [each for each in body.api_keys if each.api_key not in lacking]
        return bytes(body.encode(header=True))


def _first(body: Any, *names: str) -> Any:
    # Names of fields that this version of the request hasn't got hold nothing.
    for name in names:
        if (value := getattr(body, name, None)) not in {None, ""}:
            return value
    return None


def _put(value: Any, code: int) -> None:
    if isinstance(value, list | tuple):
        for inner in value:
            _put(inner, code)
    elif hasattr(value, "to_dict"):
        for name in value.to_dict():
            if name.endswith("error_code"):
                setattr(value, name, code)
            else:
                _put(getattr(value, name), code)


def _codes(value: Any) -> list[int]:
    if isinstance(value, dict):
        own = [code for name, code in value.items() if name.endswith("error_code") and isinstance(code, int)]
        return own + [code for inner in value.values() for code in _codes(inner)]
    if isinstance(value, list | tuple):
        return [code for inner in value for code in _codes(inner)]
    return []

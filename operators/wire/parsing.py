"""Parsing: the event in a message, or an error that says what is wrong; and all that can be read of a refused one.

Rules
-----
- A message is refused by its first defect. Of a refused one its sender is told, so it is parsed past its defects.
- It is then *legible* if its value is a JSON object whose `query_id` is valid and given once. It doesn't matter what
  else is wrong: other fields, their number or size, repeated keys, NaN, half of a surrogate pair, nesting too deep for
  an event. JSON that breaks off, or is nested too deep to be read at all, is not legible.
- `reply_to`, `source` and `metadata` count only if they are given once, and `metadata` only if it can be returned
  unchanged.
- A CloudEvent's query is read out of an envelope that is wrong, too; its result is then a plain one, because there is
  nothing to answer in kind.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from operators.wire.cloud_event import CloudEvent, Mode, content_mode, from_envelope, from_headers, trace_headers
from operators.wire.message import Headers, Message
from schemas import fields
from schemas import headers as names
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.event import json_object, read_past_defects, readable

Given = TypeVar("Given")
Taken = TypeVar("Taken")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message's event, empty if it can't be read, and its envelope, if that keeps the specification.

    `trace` are the headers that name the trace to continue. `repeats`: an object in the event has a key twice.
    """

    event: dict[str, Any]
    envelope: CloudEvent | None
    trace: Headers
    warnings: list[str] = field(default_factory=list)
    repeats: bool = False

    @property
    def query_id(self) -> str | None:
        """The query's id; None if the message isn't legible."""
        return fields.query_id(self.event.get("query_id"))

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The metadata that can be returned."""
        return None if self.repeats else fields.metadata(self.event.get("metadata"))

    def text(self, name: str) -> str | None:
        """A field that is a string."""
        value = self.event.get(name)
        return value if isinstance(value, str) else None


def parse(message: Message, max_bytes: int, max_parts: int) -> Parsed:
    """The event in a message of at most so many bytes and parts. Raises InputError."""
    return _parse(message, _Reader(max_bytes, max_parts))


def parse_refused(message: Message) -> Parsed:
    """All that can be read of a message that is refused."""
    try:
        return _parse(message, _PatientReader())
    except InputError:
        # A format that isn't read here.
        return Parsed({}, None, message.headers)


def check_plain(document: Mapping[str, Any]) -> None:
    """Raise InputError `invalid` for an envelope without the header that would say that it is one."""
    if "specversion" in document:
        missing = f"missing: an event with a specversion is read by its header {names.CONTENT_TYPE}: {names.ENVELOPE}"
        raise InputError(DeadLetterClass.INVALID, f"{names.CONTENT_TYPE}: {missing}", names.CONTENT_TYPE)


class _Reader:
    """Reads one message, up to its first defect."""

    def __init__(self, max_bytes: int = 0, max_parts: int | None = None) -> None:
        self.warnings: list[str] = []
        self.repeats = False
        self._max_bytes = max_bytes
        self._max_parts = max_parts

    def read(self, value: bytes | None) -> dict[str, Any]:
        return json_object(value, self._max_bytes, self._max_parts, warnings=self.warnings)

    def attempt(self, step: Callable[[Given], Taken], given: Given) -> Taken | None:
        return step(given)


class _PatientReader(_Reader):
    """Reads one message past its defects."""

    def read(self, value: bytes | None) -> dict[str, Any]:
        found, self.repeats = read_past_defects(value)
        return found

    def attempt(self, step: Callable[[Given], Taken], given: Given) -> Taken | None:
        try:
            return step(given)
        except InputError:
            return None


def _parse(message: Message, reader: _Reader) -> Parsed:
    headers, envelope = message.headers, None
    mode = content_mode(headers)
    if mode is Mode.BINARY:
        envelope = reader.attempt(from_headers, headers)
    event = document = reader.read(message.json)
    if mode is Mode.STRUCTURED:
        envelope = reader.attempt(from_envelope, document) if not reader.repeats else None
        data = reader.attempt(_data, document)
        event = reader.read(data) if isinstance(data, bytes) else data or {}
    reader.attempt(readable, event)
    return Parsed(event, envelope, trace_headers(mode, headers, document), reader.warnings, reader.repeats)


def _data(envelope: Mapping[str, Any]) -> dict[str, Any] | bytes:
    """The event in an envelope, as bytes if it was in base64. Raises InputError `invalid`."""
    encoded, data = envelope.get("data_base64"), envelope.get("data")
    if encoded is None:
        if "data" not in envelope:
            raise InputError(DeadLetterClass.INVALID, "data: missing", "data")
        if not isinstance(data, dict):
            raise invalid("data", "an object is expected", data)
        return data
    if "data" in envelope:
        raise invalid("data_base64", "not beside data", encoded)
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise invalid("data_base64", "not base64", encoded) from None

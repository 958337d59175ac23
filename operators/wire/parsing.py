"""Parsing: the event in a message, or an error that says what is wrong; and all that can be read of a refused one.

Rules:
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
from typing import Any

from operators.wire.cloud_event import CloudEvent, Mode, content_mode, from_envelope, from_headers, trace_headers
from operators.wire.message import Headers, Message
from schemas import fields
from schemas import headers as names
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.event import check_version, json_object, read_past_defects

ReadEvent = Callable[[bytes | None], tuple[dict[str, Any], bool]]
Attempt = Callable[[Callable[[Any], Any], Any], Any]


@dataclass(frozen=True, slots=True)
class ParsedMessage:
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
        return fields.valid_query_id(self.event.get("query_id"))

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The metadata that can be returned."""
        return None if self.repeats else fields.valid_metadata(self.event.get("metadata"))

    def text(self, name: str) -> str | None:
        """A field that is a string."""
        value = self.event.get(name)
        return value if isinstance(value, str) else None


def parse_message(message: Message, max_bytes: int, max_parts: int) -> ParsedMessage:
    """The event in a message of at most so many bytes and parts. Raises InputError."""
    warnings: list[str] = []

    def read(value: bytes | None) -> tuple[dict[str, Any], bool]:
        return json_object(value, max_bytes, max_parts, warnings=warnings), False

    return _parse(message, read, lambda step, given: step(given), warnings)


def parse_refused(message: Message) -> ParsedMessage:
    """All that can be read of a message that is refused."""
    try:
        return _parse(message, read_past_defects, _attempt, [])
    except InputError:
        # A format that isn't read here.
        return ParsedMessage({}, None, message.headers)


def check_plain(document: Mapping[str, Any]) -> None:
    """Raise InputError `invalid` for an envelope without the header that would say that it is one."""
    if "specversion" in document:
        missing = f"missing: an event with a specversion is read by its header {names.CONTENT_TYPE}: {names.ENVELOPE}"
        raise InputError(DeadLetterClass.INVALID, f"{names.CONTENT_TYPE}: {missing}", names.CONTENT_TYPE)


def _attempt(step: Callable[[Any], Any], given: Any) -> Any:
    try:
        return step(given)
    except InputError:
        return None


def _parse(message: Message, read: ReadEvent, attempt: Attempt, warnings: list[str]) -> ParsedMessage:
    """The event in a message; `read` gives the object in JSON, and True if a key is repeated in it."""
    headers, envelope = message.headers, None
    mode = content_mode(headers)
    if mode is Mode.BINARY:
        envelope = attempt(from_headers, headers)
    document, repeats = read(message.json)
    event = document
    if mode is Mode.STRUCTURED:
        envelope = attempt(from_envelope, document) if not repeats else None
        data = attempt(_data, document)
        event, repeats = read(data) if isinstance(data, bytes) else (data or {}, repeats)
    attempt(check_version, event)
    return ParsedMessage(event, envelope, trace_headers(mode, headers, document), warnings, repeats)


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

"""CloudEvents 1.0 over Kafka: a query's envelope, and its result in an envelope of the same kind.

Rules:
- Headers alone tell the mode: a `content-type` of CloudEvents is structured, else a `ce_specversion` is binary, else
  the message is a plain one. ASCII's case in names of headers doesn't count, as in those of traces.
- An envelope is held to the specification, whether we need the attribute or not: an InputError names the attribute and
  its value.
- A result is answered in kind: the result of a binary event is a binary one, and so on.
- A trace's own header counts before the envelope's extension.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from operators.wire.message import Headers
from schemas import headers as names
from schemas.errors import DeadLetterClass, InputError, invalid, problem
from schemas.fields import rfc3339, unix_seconds
from schemas.headers import fold_name

_MEDIA_TYPE: Final = names.MEDIA_TYPE.encode()
_SPECVERSION: Final = f"{names.HEADER_PREFIX}specversion"
_TRACEPARENT: Final = "traceparent"
_TRACESTATE: Final = "tracestate"
_TRACE: Final = (_TRACEPARENT, _TRACESTATE)

_REQUIRED: Final = ("specversion", "id", "source", "type")
_DATA: Final = ("data", "data_base64")

_NAME: Final = re.compile(r"[a-z0-9]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_URI_REFERENCE: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_JSON_TYPE: Final = re.compile(r"[^\s/;]+/(?:[^\s/;]+\+)?json")
_UNREADABLE: Final = re.compile(r""";\s*charset\s*=\s*(?!"?(?:utf-8|us-ascii)"?\s*(?:;|$))""")


class Mode(Enum):
    """The mode in which a message carries its attributes."""

    BINARY = "binary"
    STRUCTURED = "structured"


class CloudEvent(NamedTuple):
    """The part of a query's envelope that its result needs."""

    mode: Mode
    id: str
    source: str
    correlation_id: str | None


def content_mode(headers: Headers) -> Mode | None:
    """The message's mode; None: it is no CloudEvent. Raises InputError `invalid` for a format that isn't read here."""
    binary = False
    for name, value in headers:
        lower = fold_name(name)
        if lower == _SPECVERSION:
            binary = True
        elif lower == names.CONTENT_TYPE and value[: len(_MEDIA_TYPE)].lower() == _MEDIA_TYPE:
            content_type = value.decode("latin-1")
            if fold_name(content_type.partition(";")[0].strip()) != names.ENVELOPE or not _is_json(content_type):
                raise invalid(names.CONTENT_TYPE, f"{names.ENVELOPE} in UTF-8 is expected", content_type)
            return Mode.STRUCTURED
    return Mode.BINARY if binary else None


def from_headers(headers: Headers) -> CloudEvent:
    """The event of the headers of a binary message. Raises InputError `invalid` or `unsupported_version`."""
    attributes: dict[str, Any] = {}
    for name, value in headers:
        lower = fold_name(name)
        if lower != names.CONTENT_TYPE and not lower.startswith(names.HEADER_PREFIX):
            continue
        attribute = "datacontenttype" if lower == names.CONTENT_TYPE else lower.removeprefix(names.HEADER_PREFIX)
        if not value and attribute not in _REQUIRED:
            # A client writes it for an attribute that is null.
            continue
        if attribute in attributes:
            raise invalid(lower, "given twice", value)
        if len(attributes) == names.MAX_ATTRIBUTES:
            raise _too_many()
        try:
            attributes[attribute] = value.decode()
        except UnicodeDecodeError:
            raise invalid(lower, "not UTF-8", value) from None
    return _check(Mode.BINARY, attributes)


def from_envelope(envelope: Mapping[str, Any]) -> CloudEvent:
    """The event of an envelope without its data. Raises InputError `invalid` or `unsupported_version`."""
    given = envelope.items()
    return _check(Mode.STRUCTURED, {name: value for name, value in given if value is not None and name not in _DATA})


def _check(mode: Mode, attributes: Mapping[str, Any]) -> CloudEvent:
    def field(name: str) -> str:
        return _header(name) if mode is Mode.BINARY else name

    def error(name: str, what: str) -> InputError:
        return invalid(field(name), what, attributes.get(name))

    if len(attributes) > names.MAX_ATTRIBUTES:
        raise _too_many()
    # First: the rest is judged by the rules of that version.
    version = attributes.get("specversion")
    if isinstance(version, str) and version not in ("", names.SPECVERSION):
        reason = problem(field("specversion"), f"this version reads {names.SPECVERSION}", version)
        raise InputError(DeadLetterClass.UNSUPPORTED_VERSION, reason, field("specversion"))
    for name in _REQUIRED:
        if name not in attributes:
            reason = f"{field(name)}: required by CloudEvents, and missing"
            raise InputError(DeadLetterClass.INVALID, reason, field(name))
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            raise invalid("an attribute's name", "not of a to z and 0 to 9", name)
        if isinstance(value, str):
            if len(value) > names.MAX_ATTRIBUTE_CHARS:
                raise error(name, f"{len(value)} characters, at most {names.MAX_ATTRIBUTE_CHARS}")
            if _CONTROL.search(value):
                raise error(name, "a control character")
        elif name in _STRINGS or not isinstance(value, bool | int):
            raise error(name, "a string is expected")
        if value == "" and name in _STRINGS:
            raise error(name, "empty")
    if not _URI_REFERENCE.fullmatch(attributes["source"]):
        raise error("source", "not a URI-reference")
    if "time" in attributes:
        try:
            unix_seconds(attributes["time"].upper())
        except ValueError as wrong:
            raise error("time", str(wrong)) from None
    if not _is_json(attributes.get("datacontenttype", names.JSON)):
        raise error("datacontenttype", "JSON in UTF-8 is expected")
    return CloudEvent(mode, attributes["id"], attributes["source"], attributes.get(names.CORRELATION_ID))


def _too_many() -> InputError:
    return InputError(DeadLetterClass.INVALID, f"a CloudEvent has at most {names.MAX_ATTRIBUTES} attributes")


_STRINGS: Final = frozenset({*_REQUIRED, "subject", "time", "datacontenttype", "dataschema", names.CORRELATION_ID})
"""Attributes that hold a string, and never an empty one; an extension may hold a boolean or an integer, too."""


def _is_json(content_type: str) -> bool:
    lower = fold_name(content_type.strip())
    media_type = lower.partition(";")[0].rstrip()
    return _JSON_TYPE.fullmatch(media_type) is not None and _UNREADABLE.search(lower) is None


def trace_headers(mode: Mode | None, headers: Headers, document: Mapping[str, Any]) -> Headers:
    """The headers that name the trace to continue: the message's own, or its envelope's, a broken one's, too."""
    if mode is None or any(fold_name(name) == _TRACEPARENT for name, _ in headers):
        return headers
    if mode is Mode.BINARY:
        given = {fold_name(name): value for name, value in headers}
        extension = tuple((name, given[_header(name)]) for name in _TRACE if _header(name) in given)
    else:
        extension = tuple((name, value.encode()) for name in _TRACE if isinstance(value := document.get(name), str))
    if not extension:
        return headers
    # A state without its parent is none.
    return (*(header for header in headers if fold_name(header[0]) != _TRACESTATE), *extension)


def result_message(
    event: CloudEvent, result: Mapping[str, Any], source: str, time: float | None, trace: Headers
) -> tuple[Headers, Mapping[str, Any]]:
    """The headers, those of the trace included, and the value, as an object, of a result in kind.

    The attributes are the same for the same query, except those of the trace. A `query_id` that the specification
    doesn't take for a `subject` leaves that out. `time` is in Unix seconds.
    """
    attributes = {
        "specversion": names.SPECVERSION,
        "id": result["result_id"],
        "source": source,
        "type": names.RESULT_TYPE,
        "datacontenttype": names.JSON,
        names.CAUSATION_ID: event.id,
        names.CAUSATION_SOURCE: event.source,
    }
    if not _CONTROL.search(result["query_id"]):
        attributes["subject"] = result["query_id"]
    if time is not None:
        attributes["time"] = rfc3339(time)
    if event.correlation_id is not None:
        attributes[names.CORRELATION_ID] = event.correlation_id
    attributes |= {name: value.decode("latin-1") for name, value in trace if name in _TRACE}
    headers, document = in_kind(event.mode, attributes, result)
    return trace + headers, document


def in_kind(mode: Mode, attributes: Mapping[str, str], data: Mapping[str, Any]) -> tuple[Headers, Mapping[str, Any]]:
    """The headers and the value, as an object, of an event."""
    if mode is Mode.STRUCTURED:
        content_type = f"{names.ENVELOPE}; charset=UTF-8"
        return ((names.CONTENT_TYPE, content_type.encode()),), {**attributes, "data": data}
    return tuple((_header(name), value.encode()) for name, value in attributes.items()), data


def _header(attribute: str) -> str:
    return names.CONTENT_TYPE if attribute == "datacontenttype" else f"{names.HEADER_PREFIX}{attribute}"

"""Random damage to good events: what a producer, a network or an enemy may put on a topic.

`mutations` is deterministic: a seed and a number name a message for ever, so that a failure can be looked at again.
"""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

Headers = list[tuple[str, bytes]]
Mutant = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""

_TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_EVENTS: tuple[dict[str, Any], ...] = (
    {"query_id": "q", "text": "blue lantern"},
    {"query_id": "q", "text": "Gr\u00f6\u00dfe \U0001f600", "limit": 5, "timeout_ms": 2000, "rerank": False},
    {"query_id": "q", "vector": [0.25, -1, 3.5], "namespace": "n", "destination": "default", "schema_version": 1},
    {"query_id": "q", "text": "t", "now": "2024-01-01T00:00:00Z", "metadata": {"a": [1, {"b": None}], "c": '\\"'}},
    {"query_id": "q", "text": "t", "reply_to": "results", "now": 1_700_000_000},
)
_ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "time": "2024-01-01T00:00:00Z"}
_RAW = (
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x00",
    b"\\ud800",
    b"\\u0000",
    b"\\",
    b'"',
    b"{",
    b"]",
    b",",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"9" * 400,
    b"1" + b"0" * 5000,
    b"[" * 300,
    b'{"a":' * 120 + b"1" + b"}" * 120,
    b"\xe2\x80\xa8",
    b" " * 3000,
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.0,
    2**31,
    2**63,
    2**64 - 1,
    -(2**63),
    1e300,
    -1e-320,
    "",
    " ",
    "x" * 9000,
    "\x00\x1f",
    "\u2028\ufffe",
    "../../etc",
    "1",
    "2024-02-30T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    [],
    {},
    [[]],
    [1e300, 0, 0],
    [True, 1, 2],
    [0.5] * 2000,
    {"a": {}},
    {"": ""},
)
_NAMES = (
    "query_id",
    "text",
    "vector",
    "namespace",
    "destination",
    "limit",
    "timeout_ms",
    "now",
    "metadata",
    "schema_version",
    "reply_to",
    "rerank",
    "filters",
    "specversion",
    "id",
    "source",
    "data",
    "data_base64",
    "datacontenttype",
    "traceparent",
    "Query_Id",
    "",
    "\u00fc",
)
_HEADERS = (
    "content-type",
    "Content-Type",
    "ce_specversion",
    "ce_id",
    "ce_source",
    "ce_type",
    "ce_time",
    "ce_traceparent",
    "ce_",
    "traceparent",
    "tracestate",
    "baggage",
    "__connect.errors.topic",
    "",
    "\u00fc\u2028",
)
_CONTENTS = (
    b"",
    b"1.0",
    b"0.3",
    b"\xff\x00",
    b"application/json",
    b"application/xml",
    b"application/json; charset=utf-16",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json",
    b"APPLICATION/CLOUDEVENTS",
    _TRACEPARENT,
    _TRACEPARENT[:-1],
    b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00",
    b"a=b," * 60,
    b"x" * 20_000,
    b"2024-01-01T00:00:00Z",
    b"\r\n\r\n",
)


def mutations(seed: int, count: int) -> list[Mutant]:
    """So many messages, each a good one with one to three kinds of damage; here and there one is left good."""
    chance = random.Random(seed)
    return [_mutant(chance) for _ in range(count)]


def _mutant(chance: random.Random) -> Mutant:
    event: dict[str, Any] = json.loads(json.dumps(chance.choice(_EVENTS)))
    damage = chance.choices((_fields, _bytes, _headers, _whole), k=chance.randint(0, 3))
    if _fields in damage:
        _fields(chance, event)
    value, headers = _message(chance, event, _fields in damage)
    key: bytes | None = b"k"
    if _bytes in damage:
        value = _bytes(chance, value)
    if _headers in damage:
        headers = _headers(chance, headers)
    if _whole in damage:
        return _whole(chance, value, headers)
    return key, value, headers


def _message(chance: random.Random, event: dict[str, Any], damaged: bool) -> tuple[bytes, Headers]:
    trace: Headers = [("traceparent", _TRACEPARENT)] if chance.random() < 0.5 else []
    kind = chance.randrange(4)
    if kind == 0:
        headers = [(f"ce_{name}", value.encode()) for name, value in _ATTRIBUTES.items()]
        return _written(event), [*headers, ("content-type", b"application/json"), *trace]
    if kind == 1:
        envelope: dict[str, Any] = dict(_ATTRIBUTES)
        if chance.random() < 0.5:
            envelope["data"] = event
        else:
            envelope["data_base64"] = base64.b64encode(_written(event)).decode()
        if damaged:
            _fields(chance, envelope)
        return _written(envelope), [("content-type", b"application/cloudevents+json"), *trace]
    return _written(event), trace


def _written(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _fields(chance: random.Random, event: dict[str, Any]) -> None:
    for _ in range(chance.randint(1, 3)):
        name = chance.choice((*event, chance.choice(_NAMES)))
        step = chance.randrange(5)
        if step == 0:
            event.pop(name, None)
        elif step == 1 and name in event:
            event[chance.choice((name.upper(), name + "s", " " + name, chance.choice(_NAMES)))] = event.pop(name)
        elif step == 2:
            event[name] = "\ud800" if chance.random() < 0.1 else chance.choice(_VALUES)
        elif step == 3 and isinstance(event.get(name), list | str):
            event[name] = event[name] * 2 if chance.random() < 0.5 else event[name][1:]
        else:
            event[name] = _nested(chance, chance.choice((3, 90, 101, 400)), event.get(name))


def _nested(chance: random.Random, levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def _bytes(chance: random.Random, value: bytes) -> bytes:
    damaged = bytearray(value)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged) + 1)
        end = min(len(damaged), at + chance.choice((1, 2, 8, 40)))
        span = damaged[at:end]
        step = chance.randrange(6)
        if step == 0 and span:
            damaged[at] ^= 1 << chance.randrange(8)
        elif step == 1:
            del damaged[at:]
        elif step == 2:
            damaged[at:at] = span * chance.choice((1, 2, 50))
        elif step == 3:
            del damaged[at:end]
        elif step == 4:
            del damaged[at:end]
            to = chance.randrange(len(damaged) + 1)
            damaged[to:to] = span
        else:
            damaged[at:end] = chance.choice(_RAW)
    return bytes(damaged)


def _headers(chance: random.Random, headers: Headers) -> Headers:
    headers = list(headers)
    for _ in range(chance.randint(1, 4)):
        step = chance.randrange(5)
        if step == 0 or not headers:
            headers.insert(chance.randrange(len(headers) + 1), (chance.choice(_HEADERS), chance.choice(_CONTENTS)))
            continue
        at = chance.randrange(len(headers))
        name, content = headers[at]
        if step == 1:
            del headers[at]
        elif step == 2:
            headers.append((name.swapcase(), content))
        elif step == 3:
            headers[at] = (name, _bytes(chance, content))
        else:
            headers[at] = (chance.choice((name[:-1], name + "x", chance.choice(_HEADERS))), content)
    return headers


def _whole(chance: random.Random, value: bytes, headers: Headers) -> Mutant:
    step: Callable[[], Mutant] = chance.choice(
        (
            lambda: (None, value, headers),
            lambda: (b"", value, headers),
            lambda: (b"k", None, headers),
            lambda: (b"k", b"", headers),
            lambda: (None, None, []),
            lambda: (chance.randbytes(chance.choice((1, 600, 70_000))), value, headers),
            lambda: (b"k", chance.randbytes(chance.choice((1, 16, 300))), headers),
            lambda: (b"k", value + b" " * 300_000, headers),
            lambda: (b"k", value, headers * 50),
            lambda: (b"k", value, [*headers, ("huge", b"h" * 500_000)]),
        )
    )
    return step()

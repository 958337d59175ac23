"""Events that are dear to refuse, or to accept: the kinds that an adversary sends, each nearly as large as allowed."""

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import orjson

from schemas import headers as names
from schemas.settings import Limits

QUERY_BYTES: Final = Limits().max_message_bytes
DOCUMENT_BYTES: Final = Limits().max_document_bytes

_QUERY: Final = {"query_id": "q", "text": "water"}
_DOCUMENT: Final = {"id": "d", "text": "water"}

ENVELOPE: Final = ((names.CONTENT_TYPE, names.ENVELOPE.encode()),)
"""The header of an event in an envelope."""

Make = Callable[[int], Any]


class Kinds(Mapping[str, bytes]):
    """The values of messages by their kind, each made when it is first looked up."""

    def __init__(self, kinds: Mapping[str, bytes | Callable[[], bytes]]) -> None:
        self._kinds = dict(kinds)

    def __getitem__(self, kind: str) -> bytes:
        value = self._kinds[kind]
        if not isinstance(value, bytes):
            value = self._kinds[kind] = value()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def fill(event: Mapping[str, Any], make: Make, most: int) -> bytes:
    """The event with the fields that `make` gives for a count, the greatest of those with which it has `most` bytes."""

    def fits(count: int) -> bool:
        return len(orjson.dumps({**event, **make(count)})) <= most

    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return orjson.dumps({**event, **make(low)})


def filled(event: Mapping[str, Any], make: Make, most: int) -> Callable[[], bytes]:
    """The same, later."""
    return partial(fill, event, make, most)


def nested(levels: int, inside: Any) -> Any:
    """The value in so many arrays."""
    for _ in range(levels):
        inside = [inside]
    return inside


def _unknown(count: int) -> dict[str, Any]:
    return {f"field_{at}": at for at in range(count)}


def _filter(**changes: Any) -> dict[str, Any]:
    return {"field": "kind", "op": "eq", "value": "a", **changes}


QUERIES: Final = Kinds(
    {
        "20,000 unknown fields": filled(_QUERY, lambda count: _unknown(min(count, 20_000)), QUERY_BYTES),
        "64 filters of 300 unknown fields": filled(
            _QUERY, lambda count: {"filters": [_filter(**_unknown(min(count, 300)))] * 64}, QUERY_BYTES
        ),
        "62 filters of 1,000 empty objects": filled(
            _QUERY, lambda count: {"filters": [_filter(op="any_of", value=[{}] * min(count, 1000))] * 62}, QUERY_BYTES
        ),
        "26,000 unknown parameters": filled(
            _QUERY,
            lambda count: {"overrides": {"score": {f"p{at}": 1 for at in range(min(count, 26_000))}}},
            QUERY_BYTES,
        ),
        "a vector of 43,000 nulls": filled(_QUERY, lambda count: {"vector": [None] * min(count, 43_000)}, QUERY_BYTES),
        "nothing but empty filters": filled(_QUERY, lambda count: {"filters": [{}] * count}, QUERY_BYTES),
        "filters that are empty lists": filled(_QUERY, lambda count: {"filters": [[]] * count}, QUERY_BYTES),
        "long names of unknown fields": filled(
            _QUERY, lambda count: {f"{at:03}{'text_' * count}": 1 for at in range(100)}, QUERY_BYTES
        ),
        "unknown stages": filled(
            _QUERY, lambda count: {"overrides": {f"s{at}": {"k": 1} for at in range(count)}}, QUERY_BYTES
        ),
        "a parameter of many lists": filled(
            _QUERY, lambda count: {"overrides": {"score": {"alpha": [[]] * count}}}, QUERY_BYTES
        ),
        "a parameter of many numbers": filled(
            _QUERY, lambda count: {"overrides": {"score": {"alpha": [1] * count}}}, QUERY_BYTES
        ),
        "metadata of many keys": filled(_QUERY, lambda count: {"metadata": _unknown(count)}, QUERY_BYTES),
        "a large object for every field": filled(
            {}, lambda count: {name: [["x"] * count] for name in ("query_id", "text", "namespace", "now")}, QUERY_BYTES
        ),
        "lists in lists": filled(_QUERY, lambda count: {"metadata": {"a": [nested(90, "x")] * count}}, QUERY_BYTES),
        "a vector of texts": filled(_QUERY, lambda count: {"vector": ["1.5"] * count}, QUERY_BYTES),
        "a long vector": filled(_QUERY, lambda count: {"vector": [0] * count}, QUERY_BYTES),
        "many values of one filter": filled(
            _QUERY, lambda count: {"filters": [_filter(op="any_of", value=[1] * count)]}, QUERY_BYTES
        ),
        "values of every filter": filled(
            _QUERY, lambda count: {"filters": [_filter(op="any_of", value=[1] * min(count, 1000))] * 64}, QUERY_BYTES
        ),
        "a key twice, and many colons": orjson.dumps({**_QUERY, "metadata": {"a": ":" * 250_000}})[:-1]
        + b',"query_id":"q"}',
        "nothing but colons": orjson.dumps({**_QUERY, "source": ":" * 250_000}),
        "nothing but escapes": b'{"query_id":"q","text":"t","source":":' + rb"\"" * 125_000 + b'"}',
        "an integer of 250,000 digits": b'{"query_id":"q","text":"t","now":' + b"9" * 250_000 + b"}",
        "half of a surrogate pair, at the end": b'{"query_id":"q","text":"' + rb"\ud83d\ude00" * 20_000 + rb'\ud800"}',
        "a list that breaks off": b'{"query_id":"q","text":"t","vector":[' + b"1.25," * 50_000,
        "lists to the deepest that is read": b'{"query_id":"q","text":"t","metadata":' + b"[" * 900 + b"]" * 900 + b"}",
    }
)
"""Kind -> the value of a query's message."""

ENVELOPES: Final = Kinds(
    {
        "attributes of a CloudEvent": filled(
            {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": _QUERY},
            lambda count: {f"x{at}": "v" for at in range(count)},
            QUERY_BYTES,
        ),
        "a long source of a CloudEvent": filled(
            {"specversion": "1.0", "id": "1", "type": "t", "data": _QUERY},
            lambda count: {"source": "%41" * count},
            QUERY_BYTES,
        ),
        "unknown fields in base64": lambda: orjson.dumps(
            {
                "specversion": "1.0",
                "id": "1",
                "source": "/s",
                "type": "t",
                "data_base64": base64.b64encode(fill(_QUERY, _unknown, 190_000)).decode(),
            }
        ),
        "no data, but many objects": filled(
            {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"},
            lambda count: {"data": [{}] * count},
            QUERY_BYTES,
        ),
    }
)
"""Kind -> the value of a message in an envelope."""

DOCUMENTS: Final = Kinds(
    {
        "unknown fields, and a wrong one": filled({**_DOCUMENT, "cycle": "x"}, _unknown, DOCUMENT_BYTES),
        "unknown fields": filled(_DOCUMENT, _unknown, DOCUMENT_BYTES),
        "reserved fields": filled(_DOCUMENT, lambda count: {f"_{at}": 1 for at in range(count)}, DOCUMENT_BYTES),
        "edges that are empty objects": filled(_DOCUMENT, lambda count: {"edges": [{}] * count}, DOCUMENT_BYTES),
        "edges of unknown fields": filled(
            _DOCUMENT, lambda count: {"edges": [{"to": "d", **_unknown(50)}] * count}, DOCUMENT_BYTES
        ),
        "edges": filled(_DOCUMENT, lambda count: {"edges": [{"to": "d"}] * count}, DOCUMENT_BYTES),
        "labels that are null": filled(_DOCUMENT, lambda count: {"labels": [None] * count}, DOCUMENT_BYTES),
        "labels": filled(_DOCUMENT, lambda count: {"labels": [""] * count}, DOCUMENT_BYTES),
        "a vector of nulls": filled(_DOCUMENT, lambda count: {"vector": [None] * count}, DOCUMENT_BYTES),
        "a vector too long": filled(_DOCUMENT, lambda count: {"vector": [0] * count}, DOCUMENT_BYTES),
        "objects of one key": filled(
            {**_DOCUMENT, "cycle": "x"}, lambda count: {"a": [{"b": 1}] * count}, DOCUMENT_BYTES
        ),
        "empty lists": filled(_DOCUMENT, lambda count: {"a": [[]] * count}, DOCUMENT_BYTES),
        "lists in lists": filled(_DOCUMENT, lambda count: {"a": [nested(95, 1)] * count}, DOCUMENT_BYTES),
        "long names": filled(
            _DOCUMENT, lambda count: {f"{at}{'text_' * count}": at for at in range(100)}, DOCUMENT_BYTES
        ),
        "a text of colons": filled(_DOCUMENT, lambda count: {"text": "a: " * count}, DOCUMENT_BYTES),
        "a text of quotes": filled(_DOCUMENT, lambda count: {"text": ':"' * count}, DOCUMENT_BYTES),
        "an integer of 990,000 digits": b'{"id":"d","text":"t","cycle":' + b"9" * 990_000 + b"}",
        "large wrong values": filled(
            {},
            lambda count: {name: [[1.5] * count] for name in ("id", "op", "text", "title", "cycle", "edges")},
            DOCUMENT_BYTES,
        ),
    }
)
"""Kind -> the value of a document's message."""

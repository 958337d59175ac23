"""Queries as an adversary writes them: headers by the thousand, a second identity, headers of ours, and Avro.

An attack is refused, or changes nothing: the query is then answered as the same one in plain JSON.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas import headers as names
from schemas.headers import MAX_HEADERS
from tests.integration.conversation import HEADER, Asked, Message
from tests.kafka.registry import Registry, framed
from tests.operators.delivery.test_avro import BOMBS, record, written

FLOOD: Final = 100_001
"""librdkafka gives no headers of a record with so many, and no error."""

REFUSED: Final[Mapping[str, str]] = {
    "many headers": "invalid",
    "a flood of headers": "invalid",
    "two identities": "invalid",
    "an Avro bomb": "too_large",
}
"""Attack -> the class of its dead letter."""

HARMLESS: Final = ("headers of ours", "as many headers as there may be", "in Avro")

_FORGED: Final = [
    (names.REPLAYED, b"1"),
    (names.CLASS, b"internal"),
    (names.STAGE, b"send"),
    (names.TOPIC, b"queries"),
    ("traceparent", b"00-" + b"f" * 32 + b"-" + b"f" * 16 + b"-01"),
    ("rankstream.source", b"somebody"),
    (f"{HEADER}-", b"somebody"),
]


class Attacks:
    """Writes queries as an attack has them; `sources` are those that may be claimed."""

    def __init__(self, registry: Registry, sources: Sequence[str]) -> None:
        self._registry = registry
        self._sources = sources

    def write(self, attack: str, query: Asked, plain: Message, draw: random.Random) -> Message:
        """The headers and the value of a query under this attack, which are `plain` without it."""
        headers, value = plain
        match attack:
            case "many headers":
                return [*headers, *self._filled(MAX_HEADERS + 1 - len(headers), draw)], value
            case "a flood of headers":
                return [*headers, *self._filled(FLOOD, draw)], value
            case "two identities":
                return [*headers, (HEADER, b"a"), (HEADER.upper(), draw.choice(self._sources).encode())], value
            case "an Avro bomb":
                schema, payload = BOMBS["a symbol"]
                return headers, framed(self._registry.register(json.dumps(schema)), payload)
            case "headers of ours":
                return [*headers, *draw.sample(_FORGED, len(_FORGED))], value
            case "as many headers as there may be":
                return [*self._filled(MAX_HEADERS - len(headers), draw), *headers], value
            case "in Avro":
                schema = record(**{name: _type(each) for name, each in query.event.items()})
                return headers, framed(self._registry.register(json.dumps(schema)), written(schema, query.event))
        raise ValueError(attack)

    def _filled(self, count: int, draw: random.Random) -> list[tuple[str, bytes]]:
        name = draw.choice(["x", "X-Sourc", "source"])
        return [(name, b"")] * count


def fits(attack: str, query: Asked) -> bool:
    """True if the attack can be made with this query: not every event has an Avro schema here."""
    return attack != "in Avro" or all(_type(each) is not None for each in query.event.values())


def _type(value: Any) -> Any:
    """The value's type in an Avro schema, None if it has none here."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "long"
        case float():
            return "double"
        case str():
            return "string"
        case list() if value and all(isinstance(each, float) for each in value):
            return {"type": "array", "items": "double"}
        case dict() if all(isinstance(each, str) for each in value.values()):
            return {"type": "map", "values": "string"}
    return None

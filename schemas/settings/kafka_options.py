"""Options of the Kafka client library by name: which may be given, and why the others may not.

Names are librdkafka's, with dots. kafka-python has some of them, with underscores.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

_SWITCHES: Final = {"yes": True, "on": True, "no": False, "off": False}


def _switch(value: object) -> object:
    """The value; a boolean for the words that other settings take for one, too. The libraries do not know all words."""
    return _SWITCHES.get(value.lower(), value) if isinstance(value, str) else value


Options = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9]+(\.[a-z0-9]+)*$")],
    Annotated[str | bool | int | float, BeforeValidator(_switch)],
]

_GUARANTEE: Final = "the guarantee of delivery depends on it"
_OWN: Final = "a key of the section kafka sets it"

_REFUSED: Final = {
    _GUARANTEE: (
        *("acks", "allow.auto.create.topics", "auto.commit.enable", "auto.commit.interval.ms", "auto.offset.reset"),
        *("batch.size", "debug", "delivery.timeout.ms", "enable.auto.commit", "enable.auto.offset.store"),
        *("enable.gapless.guarantee", "enable.idempotence", "enable.partition.eof", "group.instance.id"),
        *("group.protocol", "group.remote.assignor", "isolation.level", "log.connection.close", "log.level"),
        *("log.queue", "max.in.flight", "max.in.flight.requests.per.connection", "max.request.size"),
        *("message.max.bytes", "message.send.max.retries", "message.timeout.ms", "offset.store.method"),
        *("partition.assignment.strategy", "request.required.acks", "request.timeout.ms", "retries"),
        *("statistics.interval.ms", "transactional.id"),
    ),
    _OWN: (
        *("bootstrap.servers", "client.rack", "compression.codec", "compression.type", "group.id"),
        *("heartbeat.interval.ms", "max.poll.interval.ms", "metadata.broker.list", "session.timeout.ms"),
        *("socket.timeout.ms", "transaction.timeout.ms"),
    ),
}
_REASONS: Final = {name: reason for reason, names in _REFUSED.items() for name in names}

_BEGINNINGS: Final = {
    r"(ssl|sasl|security|https)\.": "kafka.security_protocol, kafka.tls and kafka.sasl are for that",
    r"plugin\.": "it loads code",
    r"test\.": "it is for tests of the library",
    r".*\.(cb|class|classes|serializer|deserializer|client)$": "it is no value",
}


def refusals(key: str, names: Iterable[str]) -> list[str]:
    """A problem for each option that `key` may not give, with the reason."""
    return [f"{key}: {name}: {why}" for name in names if (why := _why(name)) is not None]


def _why(name: str) -> str | None:
    found = next((why for pattern, why in _BEGINNINGS.items() if re.match(pattern, name)), None)
    return _REASONS.get(name, found)

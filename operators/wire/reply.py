"""Replies: the place that a query chooses for its result, and its headers, which return on it.

Rules:
- The topic is that of the field `reply_to`, or of a header that the settings name. A header without a value counts as
  absent. Two that differ are an error, as is a topic that no query may choose.
- The partition is that of a header: four bytes, big-endian and signed, as Spring writes it, or digits, as NestJS does.
  Four digits are digits: no topic has as many partitions as they would be in binary.
- Headers return as they came, in their order, ahead of ours. Those stay behind that we write ourselves, those that
  describe the value, which is another one, the one by which sources are known, and those that the settings withhold.
- More headers, or larger ones, than MAX_RETURNED and MAX_RETURNED_BYTES do not return, except those that hold the
  correlation id by a usual name, of at most MAX_CORRELATION_BYTES each.
- A refused query has a result, too: without results, and with the reason.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from operators.access.policy import identify
from operators.wire.message import Cause, Headers, Origin, result_id
from operators.wire.parsing import ParsedMessage
from schemas import headers as names
from schemas.errors import DeadLetterClass, InputError, problem
from schemas.headers import fold_name
from schemas.result import VERSION, Status, TotalRelation
from schemas.settings.delivery import ReplySettings
from schemas.settings.policies import PolicySettings
from schemas.settings.section import matches

MAX_RETURNED: Final = 64
MAX_RETURNED_BYTES: Final = 16_384
"""Bounds of the headers that return on a result: their number, and the bytes of their names and values."""

MAX_CORRELATION_BYTES: Final = 512

_FIELD: Final = "reply_to"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

_OWN: Final = ("traceparent", "tracestate", "baggage", names.CONTENT_TYPE)
_OF_VALUE: Final = ("__typeid__", "__contenttypeid__", "contenttype", "content-encoding", "__value_schema_id")
"""Headers of Spring and Confluent, which name the class, the form or the schema of the value, as Apicurio's do."""

_PREFIXES: Final = (names.HEADER_PREFIX, names.ERROR_PREFIX, names.OWN_PREFIX, "apicurio.value.")

_IDS: Final = ("kafka_correlationid", "reply_correlation_id", "correlation-id", "correlation_id", "correlationid")
_CORRELATION: Final = frozenset((*_IDS, "x-correlation-id", "x-request-id"))


class ReplyTo(NamedTuple):
    """The place of a result: no topic is the results topic, no partition that of the key."""

    topic: str | None = None
    partition: int | None = None


def _error(name: str, what: str, value: str | bytes) -> InputError:
    label = name if name == _FIELD else f"header {name}"
    return InputError(DeadLetterClass.INVALID, problem(label, what, value), name)


@dataclass(frozen=True, slots=True)
class Replies:
    """Chooses places and headers; queries may choose the `topics`, names and patterns, that their policies allow."""

    topics: Sequence[str]
    settings: ReplySettings
    policies: PolicySettings = field(default_factory=PolicySettings)

    def choose(self, named: str | None, headers: Headers, source: str | None = None, read_from: str = "") -> ReplyTo:
        """The place that a query names by its field or headers. Raises InputError `invalid`."""
        if named is None and not headers:
            return ReplyTo()
        topic, named_by = named, _FIELD
        if (header := _find(headers, self.settings.topic_headers)) is not None:
            name, value = header
            given = _read_topic(name, value)
            if named is not None and given != named:
                raise _error(name, f"another topic than the field {_FIELD} names", given)
            if named is None:
                topic, named_by = given, name
        if topic is not None and not self._admits(topic):
            raise _error(named_by, "not a topic that a query may choose", topic)
        number = _find(headers, self.settings.partition_headers)
        place = ReplyTo(topic, _read_partition(*number) if number is not None else None)
        if topic is not None:
            identity = identify(self.policies.identity, source, headers, read_from)
            allowed = self.policies.policy_for(identity).reply_to
            if allowed and not matches(topic, allowed):
                raise _error(named_by, "not a topic that this source may choose", topic)
        return place

    def returning(self, headers: Headers, written: Headers) -> Headers:
        """The headers of a query that return together with those that are `written` on its result."""
        if not headers:
            return ()
        stays = {*_OWN, *_OF_VALUE, *(fold_name(name) for name, _ in written)}
        if (identity := self.policies.identity.header) is not None:
            stays.add(fold_name(identity))
        withheld = [*map(fold_name, self.settings.withheld_headers)]
        own = tuple(
            header
            for header in headers
            if (name := fold_name(header[0])) not in stays
            and not name.startswith(_PREFIXES)
            and not matches(name, withheld)
        )
        return own if headers_fit(own) else correlating(own)

    def _admits(self, topic: str) -> bool:
        if topic in self.topics:
            return True
        # To Kafka's own topics, which begin so, a broker lets no client write.
        name = _TOPIC.fullmatch(topic) is not None and topic not in {".", ".."} and not topic.startswith("__")
        return name and matches(topic, self.topics)


def headers_fit(headers: Headers) -> bool:
    """True if the headers are few and small enough to return."""
    bytes_ = sum(len(name.encode()) + len(content) for name, content in headers)
    return len(headers) <= MAX_RETURNED and bytes_ <= MAX_RETURNED_BYTES


def correlating(headers: Headers) -> Headers:
    """The headers that hold a correlation id, within the bounds."""
    small = tuple(
        (name, content)
        for name, content in headers
        if fold_name(name) in _CORRELATION and len(name) + len(content) <= MAX_CORRELATION_BYTES
    )
    return small if headers_fit(small) else ()


def refused_result(parsed: ParsedMessage, origin: Origin, config_hash: str, cause: Cause) -> dict[str, Any]:
    """The result event of a refused query."""
    return {
        "schema_version": 1,
        "query_id": parsed.query_id,
        "result_id": result_id(origin),
        "status": Status.INVALID,
        "profile": None,
        "retrieval_stage": None,
        "results": [],
        "total": 0,
        "total_relation": TotalRelation.EQ,
        "has_more": False,
        "next_cursor": None,
        "backends_used": [],
        "semantic_unavailable": False,
        "legs": [],
        "degraded": [],
        "warnings": [],
        "removed_by_firewall": 0,
        "provenance": {
            "version": VERSION,
            "config_hash": config_hash,
            "recipe": None,
            "recipe_hash": None,
            "models": {"embedder": None, "reranker": None},
            "index_watermark": None,
            "now": None,
            "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        },
        "metadata": parsed.metadata,
        "error": {"class": cause.kind, "field": cause.field, "reason": cause.reason},
    }


def _find(headers: Headers, wanted: Sequence[str]) -> tuple[str, bytes] | None:
    """The header of one of these names that has a value. Raises InputError for two that differ."""
    folded = {fold_name(name) for name in wanted}
    found = [header for header in headers if header[1] and fold_name(header[0]) in folded]
    for name, value in found[1:]:
        if value != found[0][1]:
            raise _error(name, f"another value than header {found[0][0]} has", value)
    return found[0] if found else None


def _read_topic(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _error(name, "not UTF-8", value) from None


def _read_partition(name: str, value: bytes) -> int:
    number = -1
    if value.isdigit() and len(value) <= 10:
        number = int(value)
    elif len(value) == 4:
        number = int.from_bytes(value, signed=True)
    if not 0 <= number < 2**31:
        raise _error(name, "not a partition's number, in four bytes or in digits", value)
    return number

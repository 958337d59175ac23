"""Filters: Qdrant's JSON form, read into the engine's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from qdrant_edge import (
    FieldCondition,
    Filter,
    HasIdCondition,
    HasVectorCondition,
    IsEmptyCondition,
    IsNullCondition,
    MatchAny,
    MatchExcept,
    MatchPhrase,
    MatchPrefix,
    MatchText,
    MatchTextAny,
    MatchValue,
    MinShould,
    NestedCondition,
    RangeDateTime,
    RangeFloat,
    ValuesCount,
)

from operators.clients.qdrant_edge.conversions import make_filter
from tests.qdrant_server.refusals import bad_request

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import ConditionType, MatchType, PointId, RangeType

UINT64_MAX = 2**64 - 1
CLAUSES = frozenset({"must", "should", "must_not", "min_should"})


def parse_id(value: object) -> PointId:
    """A point's id, an unsigned integer or a UUID; raises Refusal for anything else."""
    if type(value) is int and 0 <= value <= UINT64_MAX:
        return value
    if isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            pass
    message = f"value {value} is not a valid point ID, valid values are either an unsigned integer or a UUID"
    raise bad_request(message)


def read_filter(body: Mapping[str, Any] | None) -> Filter | None:
    """The filter, or None where the request has none; raises Refusal, TypeError, ValueError or KeyError."""
    return None if body is None else _filter(body)


def _filter(body: Mapping[str, Any]) -> Filter:
    if unknown := set(body) - CLAUSES:
        raise bad_request(f"unknown field `{min(unknown)}`, expected one of `should`, `min_should`, `must`, `must_not`")
    minimum = body.get("min_should")
    return Filter(
        must=_conditions(body.get("must")),
        should=_conditions(body.get("should")),
        must_not=_conditions(body.get("must_not")),
        min_should=minimum and MinShould([_condition(each) for each in minimum["conditions"]], minimum["min_count"]),
    )


def _conditions(clause: object) -> list[ConditionType] | None:
    if clause is None:
        return None
    return [_condition(each) for each in clause] if isinstance(clause, list) else [_condition(clause)]


def _condition(body: Any) -> ConditionType:
    match body:
        case {"key": str(), "geo_radius": _} | {"key": str(), "geo_bounding_box": _} | {"key": str(), "geo_polygon": _}:
            return make_filter({"must": [body]})
        case {"key": str(key)}:
            return _field(key, body)
        case {"has_id": list(ids)}:
            return HasIdCondition({parse_id(each) for each in ids})
        case {"is_empty": {"key": str(key)}}:
            return IsEmptyCondition(key)
        case {"is_null": {"key": str(key)}}:
            return IsNullCondition(key)
        case {"has_vector": str(name)}:
            return HasVectorCondition(name)
        case {"nested": {"key": str(key), "filter": dict(inner)}}:
            return NestedCondition(key, _filter(inner))
        case dict() if body and set(body) <= CLAUSES:
            return _filter(body)
    raise bad_request("data did not match any variant of untagged enum Condition")


def _field(key: str, body: Mapping[str, Any]) -> FieldCondition:
    match {name: value for name, value in body.items() if name != "key" and value is not None}:
        case {"match": dict(match)}:
            return FieldCondition(key, match=_match(match))
        case {"range": dict(bounds)}:
            return FieldCondition(key, range=_range(bounds))
        case {"values_count": dict(bounds)}:
            return FieldCondition(key, values_count=ValuesCount(**bounds))
        case {"is_empty": bool(wanted)}:
            return FieldCondition(key, is_empty=wanted)
        case {"is_null": bool(wanted)}:
            return FieldCondition(key, is_null=wanted)
    raise bad_request("the engine has match, range, values_count, is_empty and is_null for a field")


def _match(body: Mapping[str, Any]) -> MatchType:
    match body:
        case {"value": bool(value)}:
            # The engine's binding takes Python's bool for an integer, and numpy's for what it is.
            flag: Any = np.bool_(value)
            return MatchValue(flag)
        case {"value": value}:
            return MatchValue(value)
        case {"any": list(values)}:
            return MatchAny(values)
        case {"except": list(values)}:
            return MatchExcept(values)
        case {"text": str(text)}:
            return MatchText(text)
        case {"text_any": str(text)}:
            return MatchTextAny(text)
        case {"phrase": str(phrase)}:
            return MatchPhrase(phrase)
        case {"prefix": str(prefix)}:
            return MatchPrefix(prefix)
    raise bad_request("data did not match any variant of untagged enum Match")


def _range(bounds: Mapping[str, Any]) -> RangeType:
    if any(isinstance(bound, str) for bound in bounds.values()):
        return RangeDateTime(**bounds)
    return RangeFloat(**bounds)

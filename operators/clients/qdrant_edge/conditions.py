"""Filters: Qdrant's JSON form, as rankstream writes it, as the engine's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from qdrant_edge import (
    FieldCondition,
    Filter,
    HasIdCondition,
    HasVectorCondition,
    IsEmptyCondition,
    MatchAny,
    MatchPhrase,
    MatchPrefix,
    MatchText,
    MatchValue,
    NestedCondition,
    RangeDateTime,
    RangeFloat,
    ValuesCount,
)

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import ConditionType, MatchType, RangeType

_CLAUSES: Final = frozenset({"must", "should", "must_not"})

_MATCHES: Final[Mapping[str, Any]] = {
    "any": MatchAny,
    "phrase": MatchPhrase,
    "prefix": MatchPrefix,
    "text": MatchText,
    "value": MatchValue,
}


def read_filter(body: Mapping[str, Any] | None) -> Filter | None:
    """The filter, or None where the request has none; raises what `make_filter` raises."""
    return None if body is None else make_filter(body)


def make_filter(body: Mapping[str, Any]) -> Filter:
    """The filter; raises TypeError, KeyError or ValueError for a condition that rankstream does not write."""
    if not body.keys() <= _CLAUSES:
        raise ValueError("the engine has no such condition")
    clauses: dict[str, Any] = {clause: list(map(_condition, conditions)) for clause, conditions in body.items()}
    return Filter(**clauses)


def _condition(body: Mapping[str, Any]) -> ConditionType:
    match body:
        case {"key": str(key), "match": match}:
            return FieldCondition(key, match=_match(match))
        case {"key": str(key), "range": bounds}:
            return FieldCondition(key, range=_range(bounds))
        case {"key": str(key), "values_count": bounds}:
            return FieldCondition(key, values_count=ValuesCount(**bounds))
        case {"has_id": ids}:
            return HasIdCondition(set(ids))
        case {"is_empty": {"key": key}}:
            return IsEmptyCondition(key)
        case {"has_vector": name}:
            return HasVectorCondition(name)
        case {"nested": {"key": key, "filter": inner}}:
            return NestedCondition(key, make_filter(inner))
    return make_filter(body)


def _match(body: Mapping[str, Any]) -> MatchType:
    ((kind, value),) = body.items()
    # The engine's binding takes Python's bool for an integer, and numpy's for what it is.
    made: MatchType = _MATCHES[kind](np.bool_(value) if isinstance(value, bool) else value)
    return made


def _range(bounds: Mapping[str, Any]) -> RangeType:
    if any(isinstance(bound, str) for bound in bounds.values()):
        return RangeDateTime(**bounds)
    return RangeFloat(**bounds)

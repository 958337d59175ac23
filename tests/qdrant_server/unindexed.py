"""Which field of a filter has no index that its condition can use: strict mode refuses such a filter."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

Schema = str | Mapping[str, Any]

PREFIX = "keyword (with prefix: true)"
PHRASE = "text (with phrase_matching: true)"

# What a condition can need: the name that the refusal gives it, and the capability of an index.
Need = tuple[str, str]

# Any index tells whether a field is there.
ANY: list[Need] = [
    ("integer", "integer match"),
    ("integer", "integer range"),
    ("keyword", "keyword"),
    (PREFIX, "prefix"),
    ("float", "float"),
    ("text", "text"),
    (PHRASE, "phrase"),
    ("bool", "bool"),
    ("uuid", "uuid"),
    ("datetime", "datetime"),
    ("geo", "geo"),
]


def one_unindexed(filter_: Mapping[str, Any], indexes: Mapping[str, Schema]) -> tuple[str, list[str]] | None:
    """The first field that needs an index which is not there, and the names of those that would do, sorted."""
    for key, wanted in _needs("", filter_):
        held = _capabilities(indexes[key]) if key in indexes else set()
        if not held & {capability for _, capability in wanted}:
            return key, sorted({name for name, _ in wanted})
    return None


def conditions(filter_: Mapping[str, Any]) -> Iterator[Any]:
    """The conditions of one level of a filter, in the order in which the server looks at them."""
    for clause in ("must", "must_not", "should"):
        value = filter_.get(clause)
        yield from value if isinstance(value, list) else [] if value is None else [value]
    yield from (filter_.get("min_should") or {}).get("conditions", [])


def _needs(prefix: str, filter_: Mapping[str, Any]) -> Iterator[tuple[str, list[Need]]]:
    for condition in conditions(filter_):
        match condition:
            case {"nested": {"key": str(key), "filter": dict(inner)}}:
                yield from _needs(f"{prefix}{key.removesuffix('[]')}[].", inner)
            case {"is_empty": {"key": str(key)}} | {"is_null": {"key": str(key)}}:
                yield prefix + key, ANY
            case {"key": str(key)}:
                if wanted := _of_field(condition):
                    yield prefix + key, wanted
            case dict() if not {"has_id", "has_vector"} & condition.keys():
                yield from _needs(prefix, condition)


def _of_field(condition: Mapping[str, Any]) -> list[Need]:
    wanted: list[Need] = []
    match condition.get("match"):
        case {"value": value}:
            wanted += _of_values([value])
        case {"any": list(values)} | {"except": list(values)}:
            wanted += _of_values(values)
        case {"text": _} | {"text_any": _}:
            wanted.append(("text", "text"))
        case {"phrase": _}:
            wanted.append((PHRASE, "phrase"))
        case {"prefix": _}:
            wanted.append((PREFIX, "prefix"))
    match condition.get("range"):
        case dict(bounds) if any(isinstance(bound, str) for bound in bounds.values()):
            wanted.append(("datetime", "datetime"))
        case dict():
            wanted += [("float", "float"), ("integer", "integer range")]
    if {"geo_bounding_box", "geo_radius", "geo_polygon"} & condition.keys():
        wanted.append(("geo", "geo"))
    if {"values_count", "is_empty", "is_null"} & condition.keys():
        wanted += ANY
    return wanted


def _of_values(values: list[Any]) -> list[Need]:
    match values:
        case []:
            # Matches nothing or everything, whatever the field holds.
            return []
        case [bool(), *_]:
            return [("bool", "bool")]
        case [int(), *_]:
            return [("integer", "integer match")]
    uuids = [("uuid", "uuid")] if all(map(_is_uuid, values)) else []
    return [*uuids, ("keyword", "keyword")]


def _is_uuid(value: Any) -> bool:
    try:
        UUID(value)
    except (ValueError, AttributeError):
        return False
    return True


def _capabilities(schema: Schema) -> set[str]:
    options: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind = options["type"]
    if kind == "integer":
        asked = (("integer match", "lookup"), ("integer range", "range"))
        return {capability for capability, option in asked if options.get(option) is not False}
    optional = {"keyword": ("prefix", "prefix"), "text": ("phrase_matching", "phrase")}
    option, capability = optional.get(kind, ("", ""))
    return {kind, capability} if options.get(option) else {kind}

"""The events that JSON Schema of one version allows and that of another doesn't."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

Schema = Mapping[str, Any]

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


class Difference(NamedTuple):
    """Something that is allowed at a path of one schema only: a field, an absence, a type, a value, or a bound."""

    path: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.path or 'the event'}: {self.kind} {self.what}"


def difference(one: Schema, other: Schema) -> list[Difference]:
    """The events that the first schema allows and the second does not."""
    return list(_Comparison(one, other).of(one, other, ""))


class _Comparison:
    def __init__(self, one: Schema, other: Schema) -> None:
        self._one = one
        self._other = other

    def of(self, one: Schema, other: Schema, path: str) -> Iterator[Difference]:
        """The differences below a path, where these schemas apply."""
        theirs = _alternatives(other, self._other)
        for mine in _alternatives(one, self._one):
            compared = [list(self._alternative(mine, each, path)) for each in theirs if _comparable(mine, each)]
            yield from min(compared, key=len) if compared else [Difference(path, "type", _named(mine))]

    def _alternative(self, one: Schema, other: Schema, path: str) -> Iterator[Difference]:
        yield from _values(one, other, path)
        yield from _bounds(one, other, path)
        if one.get("type") == "array":
            yield from self.of(one.get("items", {}), other.get("items", {}), f"{path}[]")
        if one.get("type") == "object":
            yield from self._object(one, other, path)

    def _object(self, one: Schema, other: Schema, path: str) -> Iterator[Difference]:
        mine, theirs = one.get("properties", {}), other.get("properties", {})
        for name in mine:
            at = f"{path}.{name}" if path else name
            if name in theirs:
                yield from self.of(mine[name], theirs[name], at)
            else:
                yield Difference(at, "field", name)
        for name in sorted(set(other.get("required", ())) - set(one.get("required", ()))):
            yield Difference(path, "absence of", name)
        more, others = one.get("additionalProperties", True), other.get("additionalProperties", True)
        if more is not False and others is False:
            yield Difference(path, "field", "of any other name")
        elif isinstance(more, Mapping) and isinstance(others, Mapping):
            yield from self.of(more, others, f"{path}.*")


def _alternatives(schema: Schema, whole: Schema) -> list[Schema]:
    """The schemas of which one applies, without references."""
    if "$ref" in schema:
        return _alternatives(whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        return [each for branch in branches for each in _alternatives(branch, whole)]
    return [schema]


def _comparable(one: Schema, other: Schema) -> bool:
    # A schema without a type takes any.
    return "type" not in other or one.get("type") == other["type"]


def _named(schema: Schema) -> str:
    return str(schema.get("title", "any")) if schema.get("type") == "object" else str(schema.get("type", "any"))


def _values(one: Schema, other: Schema, path: str) -> Iterator[Difference]:
    mine, theirs = _listed(one), _listed(other)
    if theirs is None:
        return
    for value in ["beside the list"] if mine is None else [value for value in mine if value not in theirs]:
        yield Difference(path, "value", str(value))


def _listed(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _bounds(one: Schema, other: Schema, path: str) -> Iterator[Difference]:
    for bound in _LOWER:
        if bound in other and one.get(bound, float("-inf")) < other[bound]:
            yield Difference(path, "values below the", f"{bound} {other[bound]}")
    for bound in _UPPER:
        if bound in other and one.get(bound, float("inf")) > other[bound]:
            yield Difference(path, "values above the", f"{bound} {other[bound]}")
    for keyword in ("pattern", "format"):
        if keyword in other and one.get(keyword) != other[keyword]:
            yield Difference(path, "values beside the", f"{keyword} {other[keyword]}")

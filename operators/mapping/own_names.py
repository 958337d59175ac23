"""Own names: queries, results and errors name the fields of documents as their senders do.

`documents.columns` gives the fields of the index; settings and recipes speak of these. Names change at the border
alone: those of a query when it is decoded, those of a result or an error when it is written.

Rules:
- A name in a query is a sender's own, or else the index's. Where titles are called `headline`, both find them; where
  another field is called `title`, `title` is that one.
- A field from inside of an object returns inside of it, and whoever asks for the object gets the field, too.
- Names in the objects of an array, which a nested filter has, are always the objects' own.
- `id` and `text` of a result are parts of its form, and stay. Pools and explanations have the index's names.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from operators.mapping.rows import change_values, nest
from schemas.errors import FieldError
from schemas.fields import merge_objects
from schemas.filters import KEY, names_of, rename, value_at
from schemas.result import NO_DOCUMENT

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_WHOLE: Final = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)

_OPAQUE: Final = frozenset({"metadata", "overrides", "value", "vector"})
"""Parts of a query that name no field of a document."""

_NAMES: Final = re.compile(r"(?:^|(?<=\); )|(?<=missing; ))[^\s:;()`]+(?=: )|(?<=`)\w[\w.]*(?=`)")
"""The names in a problem of a document, `path: problem (value)`: its path, and those in backticks."""


_NAMED: Final = re.compile(r"(\.field: [^()]*\(')([^']+)(?='\))")
"""The value of a part that names a field, such as `filters.0.field`, in a problem."""


@dataclass(frozen=True)
class OwnNames:
    """`columns` maps fields of the index to their names in documents; `whole_ids`: ids of digits return as numbers."""

    columns: Mapping[str, str]
    whole_ids: bool = False

    @cached_property
    def _own(self) -> Mapping[str, str]:
        """The own path of each field; a name that needs quotes in a path is no path."""
        return {name: own if KEY.fullmatch(own) else f'"{own}"' for name, own in self.columns.items()}

    @cached_property
    def _plain(self) -> Mapping[str, str]:
        """The index's field by its own name as documents have it, which needs no quotes."""
        return {own: name for name, own in reversed([*self.columns.items()])}

    @cached_property
    def _ours(self) -> Mapping[str, str]:
        """The index's field by its own path: of several the first."""
        return {own: name for name, own in reversed([*self._own.items()])}

    def own(self, name: str) -> str:
        """The sender's name of a field of the index."""
        return rename(name, self._own)

    def read(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """A query, or the deletion of many documents, with the index's names."""
        return {key: self._read(key, value) for key, value in event.items()}

    def _read(self, key: str, value: Any) -> Any:
        match value:
            case _ if key in _OPAQUE:
                return value
            case str() if key in {"field", "group_by"}:
                return self._plain.get(value) or rename(value, self._ours)
            case list() if key == "fields":
                return [name for each in value for name in self._every(each)]
            case list():
                return [self._read("", each) for each in value]
            case dict():
                return self.read(value)
        return value

    def _every(self, path: Any) -> list[Any]:
        """The fields that a path names: those with this path, and those from inside of it."""
        if not isinstance(path, str):
            return [path]
        inside = [name for name, own in self._own.items() if f"{own}.".startswith(f"{path}.")]
        return list(dict.fromkeys([self._plain.get(path) or rename(path, self._ours), *inside]))

    def write(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """A result event with the senders' names and ids."""
        own = {**event, "results": [self._write_hit(hit) for hit in event["results"]]}
        for part in ("understood", "facets"):
            if part in event:
                own[part] = [self._write_field(each) for each in event[part]]
        said = event["warnings"]
        return {**own, "warnings": [self.reword(each) if each.startswith(NO_DOCUMENT) else each for each in said]}

    def _write_hit(self, hit: Mapping[str, Any]) -> dict[str, Any]:
        own = {**hit, "id": int(hit["id"]) if self.whole_ids and _WHOLE.fullmatch(hit["id"]) else hit["id"]}
        if "payload" in hit:
            own["payload"] = self._write_payload(hit["payload"])
        if "neighbours" in hit:
            own["neighbours"] = {side: [*map(self._write_hit, around)] for side, around in hit["neighbours"].items()}
        if "group" in hit:
            own["group"] = {**hit["group"], "results": [*map(self._write_hit, hit["group"]["results"])]}
        return own

    def _write_payload(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in payload.items() if name not in self._own}
        for name, path in self._own.items():
            if name in payload:
                rest = merge_objects(rest, nest(path, payload[name]))
            elif "." in name and (value := value_at(payload, name)) is not None:
                rest = merge_objects(change_values(rest, names_of(name), lambda _: None), nest(path, value))
        return rest

    def _write_field(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """A wish or a facet, whose field is the sender's."""
        return {**part, "field": self.own(part["field"])} if part.get("field") is not None else part

    def reword(self, reason: str) -> str:
        """The reason why an event is refused, or nothing found, with own names of what is wrong, named or missing."""
        named = _NAMED.sub(lambda found: found[1] + self.own(found[2]), reason)
        return _NAMES.sub(lambda found: self.own(found[0]), named)

    def around(self, step: Callable[[Item], Outcome]) -> Callable[[Item], Outcome]:
        """The same step, whose errors say own names."""

        def run(item: Item) -> Outcome:
            try:
                return step(item)
            except FieldError as error:
                raise error.rename(self.own) from None

        return run

"""Inspection: what a collection lacks of what the configuration wants of it.

Rules
-----
- Parameters are compared, not only types: a text index without phrases finds no phrase, and says nothing.
- A parameter that Qdrant doesn't describe has Qdrant's default.
- More than is wanted is as good: an integer index that can do ranges, too; a parameter that changes no answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from operators.clients.qdrant.answers import CollectionInfo

Schema = Mapping[str, Any]

_DEFAULTS: Final[Mapping[str, Schema]] = {
    "keyword": {"prefix": False},
    "integer": {"lookup": True, "range": True},
    "text": {
        "tokenizer": "word",
        "lowercase": True,
        "phrase_matching": False,
        "ascii_folding": False,
        "min_token_len": None,
        "max_token_len": None,
        "stopwords": None,
        "stemmer": None,
    },
}
"""The parameters of an index that change what a filter finds, or whether it may be asked, with Qdrant's defaults."""

_ASKED: Final = frozenset({"prefix", "lookup", "range"})
"""Those without which Qdrant answers more slowly, or refuses in strict mode."""

_ENOUGH: Final = _ASKED | {"phrase_matching"}
"""Those that only add to what can be asked."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that should have one value and has another; `index` is the field, None for the collection's own."""

    index: str | None
    name: str
    wanted: Any
    found: Any

    @property
    def grave(self) -> bool:
        """Whether it changes answers on any server, and not only what strict mode lets be asked."""
        return self.name not in _ASKED

    def __str__(self) -> str:
        of = "" if self.index is None else f"the index of {self.index}: "
        return f"{of}{self.name} is {self.found}, and should be {self.wanted}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one collection lacks: the indexes that aren't there, those that differ, and vectors that don't fit."""

    missing: Mapping[str, Schema]
    indexes: tuple[Difference, ...]
    vectors: tuple[Difference, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Everything that only a new index, or a new collection, can mend."""
        return (*self.vectors, *self.indexes)


def inspect(
    info: CollectionInfo, indexes: Mapping[str, Schema], vectors: Mapping[str, Schema], sparse: str | None
) -> Inspection:
    """Compare a collection with the payload indexes, the dense vectors and the sparse vector that are wanted of it."""
    missing = {field: schema for field, schema in indexes.items() if field not in info.indexes}
    differing = [
        difference
        for field, schema in indexes.items()
        if field in info.indexes
        for difference in _index(field, schema, info.indexes[field])
    ]
    fitting = [each for name, params in vectors.items() for each in _vector(name, params, info.vectors.get(name))]
    if sparse is not None:
        fitting += _sparse(sparse, info.sparse_vectors.get(sparse))
    return Inspection(missing, tuple(differing), tuple(fitting))


def _index(field: str, wanted: Schema, described: Mapping[str, Any]) -> list[Difference]:
    kind = described.get("data_type")
    if kind != wanted["type"]:
        return [Difference(field, "type", wanted["type"], kind)]
    found = described.get("params") or {}
    differences = []
    for name, default in _DEFAULTS.get(kind, {}).items():
        asked, has = _value(wanted, name, default), _value(found, name, default)
        if has != asked and not (name in _ENOUGH and has):
            differences.append(Difference(field, name, asked, has))
    return differences


def _value(schema: Mapping[str, Any], name: str, default: Any) -> Any:
    value = schema.get(name)
    return default if value is None else value


def _vector(name: str, wanted: Schema, found: Mapping[str, Any] | None) -> list[Difference]:
    called = f"the vector {name!r}" if name else "the unnamed vector"
    if found is None:
        return [Difference(None, called, f"of {wanted['size']} components", "not there")]
    properties = ("size", "distance")
    return [
        Difference(None, f"{called}: {key}", wanted[key], found.get(key))
        for key in properties
        if found.get(key) != wanted[key]
    ]


def _sparse(name: str, found: Mapping[str, Any] | None) -> list[Difference]:
    if found is None:
        return [Difference(None, f"the sparse vector {name!r}", "there", "not there")]
    modifier = found.get("modifier")
    return [] if modifier == "idf" else [Difference(None, f"the sparse vector {name!r}: modifier", "idf", modifier)]

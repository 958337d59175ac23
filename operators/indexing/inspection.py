"""Inspection: the needs of rankstream that a collection lacks. Nothing here asks or changes anything.

Rules
-----
- An index may do more than is needed of it. One that does less is a difference, and so is one that makes other terms.
- A field that Qdrant leaves out of a description has Qdrant's default.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from operators.clients.qdrant.answers import WHOLE_NUMBERS, CollectionInfo

Schema = Mapping[str, Any]
"""An index as Qdrant's JSON has it: its `type`, and its parameters."""

Owner = Literal["metadata", "configuration"]
"""The evidence that a collection is rankstream's own."""

_CAPABILITIES: Final[Mapping[str, Mapping[str, bool]]] = {
    "keyword": {"prefix": False, "is_tenant": False},
    "integer": {"lookup": True, "range": True},
    "text": {"phrase_matching": False},
}
"""Type of an index -> its options, and whether each is on by default."""

_ANALYSIS: Final[Mapping[str, Any]] = {
    "tokenizer": "word",
    "lowercase": True,
    "ascii_folding": False,
    "stopwords": None,
    "stemmer": None,
    "min_token_len": None,
    "max_token_len": None,
}
"""The default analysis of a text index."""

_PRODUCTS: Final = frozenset({"Cosine", "Dot"})
_ONLY_FASTER: Final = frozenset({"is_tenant", "prefix", "lookup", "range"})
_NO_STEMMER: Final = {"type": "none"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The needs of rankstream in a collection, as Qdrant's JSON has it; `tokens` is None where nothing reads them.

    `context` names the dense and the sparse vector of documents with their neighbours, `learned` the one of a sparse
    encoder, `fuzzy` that of trigrams, None where there are none. `searched` are the fields of the keyword leg, with
    their weights; None: another tool made them.
    """

    dense: str
    sparse: str | None
    tokens: str | None
    vectors: Mapping[str, Schema]
    sparse_vectors: Mapping[str, Schema]
    indexes: Mapping[str, Schema]
    context: tuple[str, str] | None = None
    learned: str | None = None
    fuzzy: str | None = None
    searched: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is there and is not as it is needed; `mild`: what matches is found, later or in another order.

    `field` is that of the index; None for a vector. A vector that isn't there differs, too: none can be added.
    `refused`: Qdrant refuses every search by this vector.
    """

    what: str
    field: str | None = None
    mild: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Lack:
    """The lacks of a collection that exists: indexes that can be added, and differences that need a new collection."""

    dense: list[Difference]
    sparse: list[Difference]
    tokens: list[Difference]
    context: list[Difference]
    learned: list[Difference]
    fuzzy: list[Difference]
    indexes: list[Difference]
    missing: Mapping[str, Schema]

    @property
    def differences(self) -> list[Difference]:
        """All that can't be added."""
        return [*self.vectors, *self.indexes]

    @property
    def vectors(self) -> list[Difference]:
        """The differences of vectors."""
        return [*self.dense, *self.sparse, *self.tokens, *self.context, *self.learned, *self.fuzzy]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to make: an index in a collection, or, without a `field`, the collection itself."""

    collection: str
    field: str | None = None
    schema: Schema | None = None

    def __str__(self) -> str:
        if self.field is None or self.schema is None:
            return f"collection {self.collection}"
        return f"index {self.field} ({format_schema(self.schema)}) in collection {self.collection}"


def lack(wanted: Wanted, info: CollectionInfo) -> Lack:
    """The lacks of the collection."""
    tokens = [] if wanted.tokens is None else _vector(wanted.tokens, wanted.vectors[wanted.tokens], info.vectors)
    context = []
    if wanted.context is not None:
        dense, sparse = wanted.context
        context += _vector(dense, wanted.vectors[dense], info.vectors)
        context += _sparse(sparse, wanted.sparse_vectors, info.sparse_vectors)
    return Lack(
        dense=_vector(wanted.dense, wanted.vectors[wanted.dense], info.vectors),
        sparse=[] if wanted.sparse is None else _sparse(wanted.sparse, wanted.sparse_vectors, info.sparse_vectors),
        tokens=tokens,
        context=context,
        learned=_unmodified_sparse(wanted.learned, wanted, info),
        fuzzy=_unmodified_sparse(wanted.fuzzy, wanted, info),
        indexes=[
            difference
            for field, schema in wanted.indexes.items()
            if field in info.indexes
            for difference in _index(field, schema, parse_schema(info.indexes[field]))
        ],
        missing={field: schema for field, schema in wanted.indexes.items() if field not in info.indexes},
    )


def _unmodified_sparse(name: str | None, wanted: Wanted, info: CollectionInfo) -> list[Difference]:
    """An IDF on top of other weights is no mild difference: a leg does without such a vector."""
    found = [] if name is None else _sparse(name, wanted.sparse_vectors, info.sparse_vectors)
    return [replace(each, mild=False) for each in found]


def creation(collection: str, wanted: Wanted) -> Iterator[Step]:
    """The steps that make a collection."""
    yield Step(collection)
    yield from additions(collection, wanted.indexes)


def additions(collection: str, missing: Mapping[str, Schema]) -> Iterator[Step]:
    """The steps that add indexes to a collection."""
    for field, schema in missing.items():
        yield Step(collection, field, schema)


def parse_schema(index: Mapping[str, Any]) -> Schema:
    """The schema of an index that a collection describes as {data_type, params, points}."""
    return {"type": index.get("data_type"), **(index.get("params") or {})}


def format_schema(schema: Schema) -> str:
    """A schema in one line: `text, tokenizer word, lowercase`; options that are off or not set are left out."""
    options = ((name, value) for name, value in schema.items() if name != "type" and value not in (None, False))
    return ", ".join([str(schema["type"]), *(name if value is True else f"{name} {value}" for name, value in options)])


def describe(differences: Iterable[Difference]) -> str:
    """The difference, in one line."""
    return "; ".join(difference.what for difference in differences)


def _index(field: str, wanted: Schema, there: Schema) -> Iterator[Difference]:
    kind = wanted["type"]
    if there["type"] != kind:
        yield Difference(f"the index of {field} is of type {there['type']}, and should be {kind}", field)
        return
    for name, default in _CAPABILITIES.get(kind, {}).items():
        if _value(wanted, name, default) and not _value(there, name, default):
            yield Difference(f"the index of {field} is without {name}", field, name in _ONLY_FASTER)
    for name, default in _ANALYSIS.items() if kind == "text" else ():
        needed, has = _value(wanted, name, default), _value(there, name, default)
        if needed != has:
            yield Difference(f"the index of {field} has {name} {_word(has)}, and should have {_word(needed)}", field)


def _value(schema: Schema, name: str, default: object) -> object:
    value = schema.get(name)
    return default if value is None or value == _NO_STEMMER else value


def _word(value: object) -> str:
    return "none" if value is None else str(value).lower()


def _vector(name: str, wanted: Schema, there: Mapping[str, Schema]) -> list[Difference]:
    if name not in there:
        return [Difference(f"{_vector_name(name)} isn't there", refused=True)]
    has = there[name]
    found = [
        Difference(
            f"{_vector_name(name)} has {parameter} {has.get(parameter)}, and should have {wanted[parameter]}",
            # An inner product is searched and ranked like a cosine, though it is none: more is nearer.
            mild=has.get(parameter) in _PRODUCTS,
            refused=parameter == "size",
        )
        for parameter in ("size", "distance")
        if has.get(parameter) != wanted[parameter]
    ]
    if has.get("datatype") == WHOLE_NUMBERS:
        found.append(Difference(f"{_vector_name(name)} has the datatype {WHOLE_NUMBERS}, which keeps no fractions"))
    if ("multivector_config" in wanted) != bool(has.get("multivector_config")):
        expected = "a multivector" if "multivector_config" in wanted else "a single vector"
        found.append(Difference(f"{_vector_name(name)} should be {expected}"))
    return found


def _sparse(name: str, wanted: Mapping[str, Schema], there: Mapping[str, Schema]) -> list[Difference]:
    if name not in there:
        return [Difference(f"the sparse vector {name} isn't there", refused=True)]
    has, needed = there[name].get("modifier") or "none", wanted[name].get("modifier") or "none"
    if has == needed:
        return []
    return [Difference(f"the sparse vector {name} has the modifier {has}, and should have {needed}", mild=True)]


def _vector_name(name: str) -> str:
    return f"the vector {name}" if name else "the unnamed vector"

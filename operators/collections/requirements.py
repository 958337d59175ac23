"""Requirements: the needs of a configuration in a collection and its server, and gaps, those that are not met.

A collection is made by the same list that an existing one is compared with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple

from operators.clients.qdrant.answers import CollectionInfo
from schemas import document as keys
from schemas.errors import BackendError
from schemas.result import FUZZY, LEARNED
from schemas.settings import QdrantSettings

Schema = Mapping[str, Any]
"""An index or a vector as Qdrant's JSON has it: an index has its `type`, and its parameters."""

Owner = Literal["metadata", "configuration"]
"""The evidence that a collection is rankstream's own."""

MINIMUM: Final = (1, 19)
"""The oldest version of a Qdrant server that rankstream promises to work with."""

VECTORS: Final = frozenset({"dense", "sparse", "learned", "fuzzy", "context", "tokens", "unread"})
"""Kinds of requirements of vectors; a reranker reads `tokens`, and nothing reads those that are `unread`."""

INDEXES: Final = frozenset({"index", "configured index"})
"""Kinds of requirements of indexes: those that rankstream needs by itself, and those of qdrant.indexes."""

SEARCHED: Final = VECTORS | {"presence", "alias", "prompts", "terms", "contexts"}
"""Kinds by which searches find less or otherwise than configured."""

STORED: Final = VECTORS | INDEXES
MADE: Final = STORED | {"prompts", "terms", "contexts"}
"""Kinds in which a collection is not as it would be made today."""

CORRECT: Final = "Correct qdrant.dimension or qdrant.vectors, or name another collection."

STOPPED: Final = "rankstream index does not start"


_TYPES: Final[Mapping[str, Schema]] = {
    **{kind: {"type": kind} for kind in ("integer", "float", "bool", "datetime", "geo")},
    "keyword": {"type": "keyword", "prefix": True},
}
"""The configuration's names of indexes."""

# Qdrant links the points of each value, and of each frequent word of a text, in the graph of the dense vectors. It can
# cost many times the graph. A field needs no links if few points have a value, or few searches by vector filter by it.
_UNLINKED: Final[Schema] = {"enable_hnsw": False}
_INTEGER: Final[Schema] = {**_TYPES["integer"], **_UNLINKED}
_UNLINKED_PREFIXED: Final[Schema] = {**_TYPES["keyword"], **_UNLINKED}
_KEYWORD: Final[Schema] = {"type": "keyword"}
_TENANT: Final[Schema] = {"type": "keyword", "is_tenant": True}
_LOOKUP: Final[Schema] = {"type": "integer", "lookup": True, "range": False, **_UNLINKED}
# Words as they are, in lower case, whatever the language: an expression is taken literally.
_TEXT: Final[Schema] = {"type": "text", "tokenizer": "word", "lowercase": True, "phrase_matching": True, **_UNLINKED}
_CONTEXT_INDEXES: Final = {
    keys.GROUP: _KEYWORD,
    keys.ORDER: _TYPES["float"],
    keys.NEIGHBOURS: _KEYWORD,
    keys.LEFT: _KEYWORD,
}
"""The payload indexes by which the indexing flow finds the neighbours of a document."""


class Severity(IntEnum):
    """The loss by a gap: nothing; time or the order; a part of what is configured; a leg or a flow; every search."""

    NONE = 0
    SLIGHT = 1
    PARTIAL = 2
    ERROR = 3
    FATAL = 4


class Requirement(NamedTuple):
    """One need of the configuration: of a vector or an index its schema, otherwise a setting, a hash or a number."""

    kind: str
    wanted: Any = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A requirement that is not met: `what` differs, the `effect` of it, and the `cure` of an operator.

    `stops`: no document is written to the collection, which is rankstream's own or is to be.
    """

    need: Requirement
    severity: Severity
    what: str
    cure: str
    effect: str = ""
    stops: bool = False

    @property
    def kind(self) -> str:
        return self.need.kind

    def __str__(self) -> str:
        return f"{self.effect}: {self.what}" if self.effect else self.what


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One collection, by the name that the configuration has for it, which may be an alias of the `physical` one.

    `alias` is the name to ask by, where the key may not ask by its own. `target` is the collection that the name's
    alias has, where this one is used all the same. `info` is None where the collection isn't there, or there was an
    `error`. Without an `owner` it is another program's, or isn't there.
    """

    name: str
    physical: str
    info: CollectionInfo | None = None
    owner: Owner | None = None
    alias: str | None = None
    target: str | None = None
    gaps: Sequence[Gap] = ()
    error: BackendError | None = None

    @property
    def foreign(self) -> bool:
        """True if it is another program's: rankstream only reads it."""
        return self.info is not None and self.owner is None


def merge_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """The gaps with one line for those of the same effect and cure."""
    alike: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        alike.setdefault((gap.effect or gap.what, gap.cure), []).append(gap)
    return [
        replace(some[-1], what="; ".join(gap.what for gap in some), severity=max(gap.severity for gap in some))
        for some in alike.values()
    ]


def vectors(settings: QdrantSettings, *, late_interaction: bool = True) -> list[Requirement]:
    """The vectors that a collection needs: cosine, BM25, token vectors, others; `late_interaction` reads tokens."""
    names = settings.vectors
    dense: Schema = {"size": settings.dimension, "distance": "Cosine"}
    tokens: Schema = {**dense, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}
    context = settings.context.on
    listed: tuple[tuple[str, Schema, str | None], ...] = (
        ("dense", dense, names.dense),
        ("sparse", {"modifier": "idf"}, names.sparse),
        (LEARNED, {}, names.learned),
        (FUZZY, {}, names.fuzzy),
        ("context", dense, names.dense_context if context else None),
        ("context", {"modifier": "idf"}, names.sparse_context if context else None),
        ("tokens" if late_interaction else "unread", tokens, names.tokens),
    )
    return [Requirement(kind, wanted, name) for kind, wanted, name in listed if name is not None]


def indexes(columns: Iterable[str] = keys.COLUMNS) -> dict[str, Schema]:
    """The payload indexes that filters, ordered lookups, counts, and keyword expressions over these columns need."""
    columns = tuple(columns)
    return {
        keys.NAMESPACE: _TENANT,
        keys.VERSION: _INTEGER,
        keys.CREATED: _INTEGER,
        keys.EXPIRES: {"type": "integer", "lookup": False, "range": True},
        keys.PATCHED: _LOOKUP,
        keys.TOKEN_IDS: _LOOKUP,
        **dict.fromkeys(keys.TIMES, _TYPES["datetime"]),
        # Queries may filter by how a value begins.
        **dict.fromkeys(sorted(keys.INDEXED - {"id", keys.NAMESPACE, *keys.TIMES, *keys.COLUMNS}), _TYPES["keyword"]),
        **dict.fromkeys(["id", keys.WHOLE_TITLE, *map(keys.words_key, columns)], _UNLINKED_PREFIXED),
        **{keys.text_key(column): _TEXT for column in columns},
    }


def index_needs(settings: QdrantSettings) -> list[Requirement]:
    """The indexes that a collection needs; in another tool's, by its names, those that all queries filter by."""
    own: dict[str, Schema] = {}
    if not settings.of_another_tool:
        own = indexes(settings.search_fields) | (_CONTEXT_INDEXES if settings.context.on else {})
    elif settings.namespaces != "none":
        own = {settings.payload_path(keys.NAMESPACE): _TENANT}
    configured = {settings.payload_path(field): _TYPES[kind] for field, kind in settings.indexes.items()}
    needed = (configured | own).items()
    return [Requirement("index" if field in own else "configured index", schema, field) for field, schema in needed]


def parse_schema(index: Mapping[str, Any]) -> Schema:
    """The schema of an index that a collection describes as {data_type, params, points}."""
    return {"type": index.get("data_type"), **(index.get("params") or {})}


def format_schema(schema: Schema) -> str:
    """A schema in one line: `text, tokenizer word, lowercase`; options that are off or not set are left out."""
    options = ((name, value) for name, value in schema.items() if name != "type" and value not in (None, False))
    return ", ".join([str(schema["type"]), *(name if value is True else f"{name} {value}" for name, value in options)])

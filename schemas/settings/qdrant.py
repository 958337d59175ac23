"""Section `qdrant`: the index, what its collections are called and made of, and how they are created and searched."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from schemas.document import COLUMNS, FILTERED, INDEXED
from schemas.errors import unknown
from schemas.fields import Answer, Index, Point
from schemas.filters import FIELD, INDEXABLE, KEY, rename
from schemas.settings.section import DESTINATIONS, Backend, Count, Reference, Seconds, Section, Url

NeighbourCount = Annotated[int, Field(ge=0, le=16)]


_PHYSICAL: Final = Reference(
    "not a Qdrant collection of destinations or collections", lambda root, name: name in root.qdrant.physical
)
_GROUPING: Final = frozenset({"keyword", "integer", "bool"})
"""Types of indexes that tell values apart, by which results can be grouped."""


class ContextSettings(Section):
    """Neighbours of documents. Part of the index: after a change, index again."""

    order_by: str | None = None
    """Payload field, a number or a time, that orders the documents of a group, such as turn or created_at; null: no
    document is indexed with its neighbours."""
    group_by: str | None = None
    """Payload field that the documents of a group have in common, such as session; null: those of a namespace and
    destination are one group."""
    before: NeighbourCount = 2
    """Neighbours before a document that are indexed with it."""
    after: NeighbourCount = 2
    """Neighbours after a document that are indexed with it."""

    @property
    def on(self) -> bool:
        """True if documents are indexed with their neighbours."""
        return self.order_by is not None

    def contradictions(self) -> Iterator[str]:
        for key, name in (("order_by", self.order_by), ("group_by", self.group_by)):
            if name is not None and (not FIELD.fullmatch(name) or name.startswith("_")):
                yield f"{key}: {name}: no name of a field"
        if not self.on:
            if self.group_by is not None:
                yield "group_by: order_by says nothing of the order within a group"
            yield from self.find_unused(("before", "after"), "without order_by; remove, or set order_by")


class CreateSettings(Section):
    """The creation of collections. One that exists keeps what it has."""

    shards: Answer[Count] = 1
    """Shards of the collection. The rarity of a term is counted in each: more than one changes keyword rankings."""
    replication_factor: Count | None = None
    """Copies of each shard; null: the server's default, mostly 1."""
    write_consistency_factor: Count | None = None
    """Copies that must confirm a write, at most `replication_factor`; null: the server's default, mostly 1."""
    on_disk_payload: bool | None = None
    """true: payloads are read from disk; false: from memory; null: the server's default, mostly true."""
    on_disk: bool | None = None
    """true: dense and token vectors are read from disk; null: from memory as far as it suffices."""
    m: Answer[Annotated[int, Field(ge=4, le=128)] | None] = None
    """Links of a point in the HNSW index of the dense vector; null: the server's default, mostly 16."""
    ef_construct: Answer[Annotated[int, Field(ge=4, le=10_000)] | None] = None
    """Candidates for each point while the HNSW index is built; null: the server's default, mostly 100."""
    quantization: Answer[Literal["none", "scalar", "binary", "turbo"]] = "none"
    """Compressed copy of the dense vectors in memory, which searches read first: scalar, 8 bits a component; turbo, 4
    bits, from Qdrant 1.19; binary, 1 bit, for 1024 components or more."""

    def contradictions(self) -> Iterator[str]:
        copies, confirmed = self.replication_factor, self.write_consistency_factor
        if copies is not None and confirmed is not None and confirmed > copies:
            yield "write_consistency_factor: more than replication_factor, so that no write would succeed"

    def server_only(self) -> Iterator[str]:
        """The keys that ask for what only a server can do."""
        copies = ("shards", "replication_factor", "write_consistency_factor")
        yield from (name for name in copies if (getattr(self, name) or 1) > 1)
        if self.on_disk_payload is False:
            yield "on_disk_payload"
        if self.quantization != "none":
            yield "quantization"


PATH: Final = re.compile(rf"{KEY.pattern}(?:#{KEY.pattern})?")
"""A field of a payload, or of the JSON in a string of it."""


class Vectors(Section):
    """The names of the vectors in a collection."""

    dense: str = "dense"
    """Dense vector, searched by the leg vector; "": the vector without a name."""
    sparse: str | None = "bm25"
    """Sparse vector of BM25 terms, searched by the leg keyword; null: the leg is skipped."""
    tokens: str | None = "tokens"
    """Multivector of token vectors, read by late interaction; null: not stored."""
    tokens_datatype: Literal["turbo4", "float16"] = "turbo4"
    """Token vectors of new collections: turbo4, 4 bits a component, from Qdrant 1.19; float16, 16 bits."""
    dense_context: str = "dense_context"
    """Dense vector of a document with its neighbours, searched by the leg vector_context."""
    sparse_context: str = "bm25_context"
    """BM25 terms of a document with its neighbours, searched by the leg keyword_context."""
    learned: str | None = None
    """Sparse vector of `sparse_encoder`, searched by the leg learned; null: none."""

    fuzzy: str | None = None
    """Sparse vector of trigrams, searched by the leg fuzzy for misspelt words; null: none. Name it, say fuzzy, where
    people write the queries."""

    def contradictions(self) -> Iterator[str]:
        roles: dict[str, str] = {}
        for key, name in self:
            if key == "tokens_datatype" or name is None:
                continue
            if not name and key != "dense":
                yield f"{key}: only a dense vector may have no name"
            elif roles.setdefault(name, key) != key:
                yield f"{key}: {name}: another vector has this name"
        if self.tokens is None:
            yield from self.find_unused(["tokens_datatype"], "without tokens; remove, or name the vector of tokens")


_TABLE: Final = (
    "arabic ar; azerbaijani az; basque eu; bengali bn; catalan ca; danish da dansk; dutch nl nederlands; english en;"
    "finnish fi suomi; french fr français francais; german de deutsch; greek el; hebrew he; hungarian hu magyar;"
    "indonesian id; italian it italiano; kazakh kk; nepali ne; norwegian no nb nn norsk; portuguese pt português;"
    "romanian ro română; russian ru русский; slovene sl; spanish es español; swedish sv svenska; tajik tg;"
    "turkish tr türkçe"
)
_NAMES: Final = [*map(str.split, _TABLE.split(";"))]
LANGUAGE_OF: Final = {written: names[0] for names in _NAMES for written in names}
"""Name or code of a language -> the name of its analyser."""
LANGUAGES: Final = (
    *sorted(["chinese", "hinglish", "japanese", *(names[0] for names in _NAMES)]),
    *sorted(["jp", "zh", *(names[1] for names in _NAMES)]),
)
"""The languages that Qdrant's engine knows, by their names and by their codes."""


def _known(language: str) -> str:
    if language in (known := (*LANGUAGES, "none")):
        return language
    if (named := LANGUAGE_OF.get(language.strip().lower())) is None:
        raise ValueError(unknown(language, known, "language"))
    return named


Language = Annotated[str, AfterValidator(_known)]


def language_tag(written: str) -> str:
    """A language as other programs write it, such as `de_AT`, in small letters and with hyphens: `de-at`."""
    return written.strip().lower().replace("_", "-")


class Bm25Settings(Section):
    """The analyser and the BM25 formula. Part of the index: after a change, index again."""

    k: float = Field(default=1.2, ge=0, description="BM25's k: how much a repeated term adds; 0: nothing.")
    b: float = Field(default=0.75, ge=0, le=1, description="BM25's b: how much long documents lose, from 0 to 1.")
    avg_len: float = Field(default=256.0, gt=0, description="Expected length of a document, in terms.")
    language: Language = "english"
    """Language of stemming and stop words; none: neither."""
    languages: dict[str, Language] = Field(default={}, max_length=8)
    """A document's field `lang` -> its language, such as {de: german, fr: french}; `de` is de-AT, too. Others are in
    `language`. Queries are searched in each."""
    accents: Literal["keep", "fold"] = "keep"
    """fold: `cafe` finds `café`. German umlauts always have two-letter forms."""

    @field_validator("languages")
    @classmethod
    def _by_tag(cls, languages: dict[str, str]) -> dict[str, str]:
        by_tag = {language_tag(written): language for written, language in languages.items()}
        if len(by_tag) < len(languages):
            raise ValueError("two of the names are one language, such as de_AT and de-at")
        return by_tag


MOST_FIELDS: Final = 10
"""Fields that are searched, or read, at most: keyword expressions look each word up in each of them."""

FieldWeight = Annotated[float, Field(gt=0, le=100)]
DEFAULT_FIELDS: Final = dict.fromkeys(COLUMNS, 1.0)


class SearchSettings(Section):
    """The search of Qdrant's vector index."""

    hnsw_ef: Answer[Count | None] = 384
    """Candidates that a vector search looks at in the HNSW index: more find more of the nearest documents and take
    longer (docs/why/quality.md). null: Qdrant's default, the index's ef_construct, mostly 100."""


class QdrantSettings(Backend):
    """The index: a Qdrant server at `url`, or its engine in this process on the directory `path`."""

    url: Url | None = Field(default=None, description="Address of a Qdrant server. Set this or `path`.")
    path: Path | None = Field(default=None, description="Directory of Qdrant's engine in this process.")
    timeout: Seconds = Field(default=2.0, description="Seconds for a search, its wait in the replica included.")
    max_batch: Count = Field(default=64, description="Searches in one request.")
    max_concurrency: Count = Field(default=8, description="Requests in flight for one leg of one collection.")
    dimension: Point[int] = Field(default=384, ge=1, le=65_536, description="Length of the embedder's vectors.")
    destinations: Index[dict[str, str]] = Field(default={"default": "documents"}, min_length=1)
    """Destination -> Qdrant collection."""
    collections: Index[Annotated[dict[str, dict[str, str]], DESTINATIONS]] = Field(default={})
    """Destination -> a query's `collection` -> Qdrant collection, to keep parts separate."""
    fields: Index[dict[str, str]] = Field(default={})
    """Field -> its path in payloads that another tool wrote, such as text: page_content or namespace:
    metadata.tenant."""
    ids: Index[Literal["payload", "uuid", "integer"]] = "payload"
    """Place of a document's id: its payload, or the point's own id, a UUID or an integer."""
    namespaces: Index[Literal["payload", "none"]] = "payload"
    """Place of a document's namespace: its payload; none: all are in defaults.namespace."""
    indexes: Index[dict[str, Literal["keyword", "integer", "float", "bool", "datetime", "geo"]]] = Field(default={})
    """Payload field -> type of its index, for fields that queries filter or order by. A document whose geo field is no
    point is refused."""
    owned: Annotated[list[str], _PHYSICAL] = Field(default=[])
    """Collections that rankstream may write to although it did not create them: those of `destinations` or
    `collections` that no other program writes to."""
    create: CreateSettings = CreateSettings()
    vectors: Point[Vectors] = Vectors()
    context: Point[ContextSettings] = ContextSettings()
    search: SearchSettings = SearchSettings()
    bm25: Index[Bm25Settings] = Bm25Settings()
    analysers: Index[Annotated[dict[str, Bm25Settings], _PHYSICAL]] = Field(default={})
    """Qdrant collection -> its own keys, in place of those of `bm25`."""
    search_fields: Point[dict[str, FieldWeight]] = Field(default=DEFAULT_FIELDS, min_length=1, max_length=MOST_FIELDS)
    """Field that keywords are searched in -> its weight, such as {title: 2, text: 1, sku: 2}; attributes.colour is
    inside an object, of an array each element counts. Part of the index: after a change, index again."""
    read_fields: Point[list[str]] = Field(default=["title", "text"], min_length=1, max_length=MOST_FIELDS)
    """Fields whose texts the embedder and the reranker read, in this order; put descriptions before a long text. Part
    of the index: after a change, index again."""
    columns: Index[dict[str, str]] = Field(
        default={"title": "title", "text": "text", "content": "text", "essence": "title"},
        description="Column in keyword expressions (title:pasta), in any case -> one of search_fields, beside these.",
    )
    idf: Index[Literal["namespace", "collection"]] = "namespace"
    """Documents over which a term's rarity (IDF) is counted."""

    def contradictions(self) -> Iterator[str]:
        # The first alone: one mistake is often the cause of the next.
        places, collections = self._find_misplaced(), self._find_wrong_collections()
        yield from islice(chain(places, collections, self._find_wrong_columns(), self._find_wrong_fields()), 1)

    def _find_misplaced(self) -> Iterator[str]:
        if (self.url is None) == (self.path is None):
            yield f"set one of url and path{', not both' if self.url is not None else ''}"
        if self.path is not None and (keys := list(self.create.server_only())):
            yield f"create: {', '.join(keys)}: only a Qdrant server can do this; set url in place of path"
        if self.path is not None:
            names = (each for each in Backend.model_fields if each != "url")
            yield from self.find_unused(names, "with path, which asks no server; remove, or set url in place of path")
        if self.of_another_tool:
            unused = self.create.find_unused(
                CreateSettings.model_fields, "on collections that another tool makes; remove"
            )
            yield from (f"create: {each}" for each in unused)

    def _find_wrong_collections(self) -> Iterator[str]:
        for destination, parts in self.collections.items():
            held = [self.destinations.get(destination), *parts.values()]
            if len(set(held)) < len(held):
                # A point's id tells destinations apart, and not their parts.
                yield f"collections: {destination}: two parts in one Qdrant collection"
        if reserved := sorted(name for name in self.indexes if name.startswith("_")):
            yield f"indexes: {', '.join(reserved)}: names that start with an underscore are the index's own"
        # Another tool's collections have no index but their own.
        if (present := sorted(self.indexes.keys() & INDEXED)) and not self.of_another_tool:
            yield f"indexes: {', '.join(present)}: these have an index of their own"
        if unwritable := sorted(name for name in self.indexes if not INDEXABLE.fullmatch(name)):
            yield f"indexes: {', '.join(unwritable)}: no filter can name this field"

    def _find_wrong_columns(self) -> Iterator[str]:
        if unknown := sorted(
            name for name, field in self.columns.items() if field not in {*self.search_fields, *COLUMNS}
        ):
            yield f"columns: {', '.join(unknown)}: not one of search_fields"
        for key, names in (("search_fields", self.search_fields), ("read_fields", self.read_fields)):
            if wrong := sorted(name for name in names if not FIELD.fullmatch(name) or name.startswith("_")):
                plain = wrong[0].replace("[]", "")
                hint = f"; of the objects in a list it is {plain}" if "[]" in wrong[0] else ""
                yield f"{key}: {', '.join(wrong)}: no name of a field{hint}"
        if len({name.replace(".", "_") for name in self.search_fields}) < len(self.search_fields):
            yield "search_fields: two names differ in points and underscores only"
        if self.of_another_tool and self.search_fields != DEFAULT_FIELDS:
            yield "search_fields: the terms of collections that another tool filled are its own"
        if unwritable := sorted(name for name in self.columns if not name.isalnum()):
            yield f"columns: {', '.join(unwritable)}: a name is one word"
        if len({name.casefold() for name in self.column_names}) < len(self.column_names):
            yield "columns: two names differ in their case only"

    def _find_wrong_fields(self) -> Iterator[str]:
        for name, path in self.fields.items():
            if not FIELD.fullmatch(name) or name.startswith("_"):
                yield f"fields: {name}: no name of a field"
            if not PATH.fullmatch(path):
                yield f"fields.{name}: a path such as metadata.tenant or _node_content#text is expected"
        if len(set(self.fields.values())) < len(self.fields):
            yield "fields: two names of one path"
        if self.ids != "payload" and "id" in self.fields:
            yield "fields.id: ids says that the point's id is the document's"
        if self.namespaces == "none" and "namespace" in self.fields:
            yield "fields.namespace: namespaces says that there are none"
        if self.owned and self.of_another_tool:
            yield "owned: fields, ids, namespaces and vectors describe collections that are only read"
        if hidden := sorted(name for name in FILTERED if "#" in self.fields.get(name, "")):
            yield f"fields.{hidden[0]}: Qdrant cannot filter by what is in a string"

    @property
    def column_names(self) -> dict[str, str]:
        """The names of columns in keyword expressions -> the searched fields."""
        own = {name: name for name in self.search_fields if name.isalnum()}
        known = {column.casefold() for column in self.columns}
        return self.columns | {name: field for name, field in own.items() if name.casefold() not in known}

    def payload_path(self, name: str) -> str:
        """The payload's name of a field."""
        return rename(name, self.fields).partition("#")[0]

    @property
    def grouping_fields(self) -> frozenset[str]:
        """The fields of rankstream's own collections by which results can be grouped."""
        return FILTERED.union(("title",), (name for name, kind in self.indexes.items() if kind in _GROUPING))

    @property
    def of_another_tool(self) -> bool:
        """True if the collections are described as another tool's, which rankstream only reads."""
        mapped = self.fields or self.ids != "payload" or self.namespaces == "none"
        return bool(mapped) or not self.vectors.dense or self.vectors.sparse is None

    def bm25_settings(self, collection: str) -> Bm25Settings:
        return self.analysers.get(collection, self.bm25)

    @property
    def physical(self) -> list[str]:
        """Every Qdrant collection, each once."""
        parts = (collection for parts in self.collections.values() for collection in parts.values())
        return list(dict.fromkeys([*self.destinations.values(), *parts]))

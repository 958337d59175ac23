"""Sections `qdrant`, `embedder`, `rerank` and `chat`: what the flow calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from schemas.document import COLUMNS, INDEXED
from schemas.filters import FIELD
from schemas.settings.section import Backend, Concurrency, Count, Seconds, Section, Url


class Vectors(Section):
    """The names of the vectors in a collection."""

    dense: str = "dense"
    sparse: str = "bm25"
    tokens: str | None = "tokens"


class Bm25Settings(Section):
    """The analyser and the formula of the keyword leg; part of the index, so changing them means indexing anew."""

    k: Annotated[float, Field(ge=0)] = 1.2
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    avg_len: Annotated[float, Field(gt=0)] = 256.0
    language: str = "english"


class QdrantSettings(Backend):
    """The index: a server at `url`, or the engine in this process on the directory `path`."""

    url: Url | None = None
    path: Path | None = None
    timeout: Seconds = 2.0
    max_batch: Count = 64
    max_concurrency: Count = 8
    dimension: Annotated[int, Field(ge=1, le=65_536)] = 384
    destinations: dict[str, str] = Field(
        default={"default": "documents"}, min_length=1, description="Destination -> Qdrant collection."
    )
    collections: dict[str, dict[str, str]] = Field(
        default={}, description="Destination -> a query's collection -> Qdrant collection."
    )
    indexes: dict[str, Literal["keyword", "integer", "float", "bool", "datetime"]] = Field(
        default={}, description="Payload field -> its index, beside those that every collection has."
    )
    vectors: Vectors = Vectors()
    bm25: Bm25Settings = Bm25Settings()
    analysers: dict[str, Bm25Settings] = Field(
        default={}, description="Qdrant collection -> its analyser and formula, in place of bm25."
    )
    columns: dict[str, str] = Field(
        default={"title": "title", "text": "text", "content": "text"},
        description="Name of a column in queries, in any case -> title or text.",
    )
    idf: Literal["namespace", "collection"] = "namespace"

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.url is None) == (self.path is None):
            raise ValueError("set one of url and path")
        return self

    @model_validator(mode="after")
    def _places(self) -> Self:
        if unknown := sorted(self.collections.keys() - self.destinations.keys()):
            raise ValueError(f"collections: {', '.join(unknown)}: not in destinations")
        for destination, parts in self.collections.items():
            held = [self.destinations[destination], *parts.values()]
            if len(set(held)) < len(held):
                # A point's id tells destinations apart, and not their parts.
                raise ValueError(f"collections: {destination}: two parts in one Qdrant collection")
        if reserved := sorted(name for name in self.indexes if name.startswith("_")):
            raise ValueError(f"indexes: {', '.join(reserved)}: names that start with an underscore are the index's own")
        if present := sorted(self.indexes.keys() & INDEXED):
            raise ValueError(f"indexes: {', '.join(present)}: these have an index of their own")
        if unwritable := sorted(name for name in self.indexes if not FIELD.fullmatch(name)):
            raise ValueError(f"indexes: {', '.join(unwritable)}: no filter can name this field")
        return self

    @model_validator(mode="after")
    def _columns(self) -> Self:
        if unknown := sorted(name for name, field in self.columns.items() if field not in COLUMNS):
            raise ValueError(f"columns: {', '.join(unknown)}: not title or text")
        if unwritable := sorted(name for name in self.columns if not name.isalnum()):
            raise ValueError(f"columns: {', '.join(unwritable)}: a name is one word")
        if len({name.lower() for name in self.columns}) < len(self.columns):
            raise ValueError("columns: two names differ in their case only")
        if unknown := sorted(self.analysers.keys() - {*self.held}):
            raise ValueError(f"analysers: {', '.join(unknown)}: not a Qdrant collection of destinations or collections")
        return self

    def analyser(self, collection: str) -> Bm25Settings:
        """The analyser that is configured for a Qdrant collection."""
        return self.analysers.get(collection, self.bm25)

    @property
    def held(self) -> list[str]:
        """Every Qdrant collection, each once."""
        parts = (collection for parts in self.collections.values() for collection in parts.values())
        return list(dict.fromkeys([*self.destinations.values(), *parts]))


class EmbedderSettings(Backend):
    """Who embeds: MiniLM in this process, a server, or nobody (queries then need their own vector)."""

    kind: Literal["minilm", "openai", "tei", "none"] = "minilm"
    url: Url | None = None
    model: str = "all-MiniLM-L6-v2"
    timeout: Seconds = 2.0
    max_batch: Count = 32
    max_concurrency: Concurrency = 8
    cache_mib: Annotated[int, Field(ge=0)] = Field(
        default=64, description="MiB of queries' embeddings that are kept, by text; 0: none."
    )

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind in {"openai", "tei"} and self.url is None:
            raise ValueError(f"{self.kind} needs url")
        return self


class RerankSettings(Backend):
    """Who reranks: late interaction over token vectors, a cross-encoder in this process or behind a server, a chat
    model, or nobody.
    """

    kind: Literal[
        "late_interaction", "onnx", "cohere", "voyage", "tei", "vllm_score", "tei_predict", "chat", "none"
    ] = "late_interaction"
    url: Url | None = Field(default=None, description="What comes before /rerank, /score or /predict.")
    path: Path | None = Field(default=None, description="Of onnx: the model's directory.")
    model: str = ""
    mode: Literal["order", "pick"] = Field(
        default="order", description="Of chat: all candidates in order, or the one best put first."
    )
    idf: bool = Field(default=True, description="Of late_interaction: rare tokens of a query weigh more.")
    weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="The reranker's say in the score; the rest is the fused score's."
    )
    timeout: Seconds = 2.0
    max_batch: Count | None = Field(
        default=None, description="Documents of a call, of late_interaction queries; missing: what suits the kind."
    )
    max_concurrency: Concurrency | None = Field(
        default=None, description="Calls in flight at a time; 0 or less: no bound; missing: what suits the kind."
    )
    max_doc_chars: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Code points of a document that are read; 0: all."
    )
    max_batch_chars: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Code points of query and documents in one call, just under the model's context; 0: any."
    )
    trusted: bool = Field(
        default=False, description="Of vllm_score and tei_predict: one call may hold several namespaces' documents."
    )
    cache: Annotated[int, Field(ge=0)] = Field(
        default=50_000, description="Scores of cross-encoders that are kept, by query and text; 0: none."
    )

    @property
    def documents(self) -> int:
        """Documents of a call, of late interaction queries."""
        return self.max_batch if self.max_batch is not None else _DOCUMENTS.get(self.kind, 1000)

    @property
    def calls(self) -> int:
        """Calls in flight at a time; 0 or less: no bound."""
        return self.max_concurrency if self.max_concurrency is not None else _CALLS.get(self.kind, 16)

    @model_validator(mode="after")
    def _has_place(self) -> Self:
        if self.kind in {"cohere", "voyage", "tei", "vllm_score", "tei_predict"} and self.url is None:
            raise ValueError(f"{self.kind} needs url")
        if self.kind == "onnx" and self.path is None:
            raise ValueError("onnx needs path")
        if self.kind == "onnx" and self.calls != 1:
            raise ValueError("onnx: the model in this process makes one call at a time (max_concurrency: 1)")
        return self


_DOCUMENTS: Final[Mapping[str, int]] = {
    # The event loop writes their token vectors: many more at once hold up everything else.
    "late_interaction": 16,
    # A call is answered whole: more, and urgent queries wait longer behind it; fewer, and padding costs more.
    "onnx": 256,
    # TEI's max-client-batch-size unless it is told otherwise.
    "tei": 32,
    "tei_predict": 32,
    "vllm_score": 512,
}
_CALLS: Final[Mapping[str, int]] = {
    "onnx": 1,
    # A second call waits at the server while it works on the first; the others gather here, into fuller ones.
    "vllm_score": 2,
}


class ChatSettings(Backend):
    """The chat model of recipes that ask one: who reads times in queries, or picks the best result."""

    kind: Literal["openai", "anthropic", "none"] = "none"
    url: Url | None = Field(default=None, description="With the version, such as https://host/v1.")
    model: str = ""
    max_tokens: Count = 1024
    timeout: Seconds = 5.0
    max_concurrency: Concurrency = 16

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind != "none" and (self.url is None or not self.model):
            raise ValueError(f"{self.kind} needs url and model")
        return self

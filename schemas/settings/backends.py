"""Sections `qdrant`, `embedder`, `rerank` and `chat`: the backends that the flows call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from schemas.document import COLUMNS, INDEXED
from schemas.filters import FIELD
from schemas.settings.creation import CreateSettings
from schemas.settings.section import Backend, Concurrency, Count, Seconds, Section, Url


class Vectors(Section):
    """The names of the vectors in a collection, and how token vectors are stored."""

    dense: str = Field(default="dense", description="Dense vector, searched by the vector leg.")
    sparse: str = Field(default="bm25", description="Sparse vector, searched by the keyword leg.")
    tokens: str | None = Field(
        default="tokens", description="Multivector of token vectors, read by late interaction; null: not stored."
    )
    tokens_datatype: Literal["turbo4", "float16"] = Field(
        default="turbo4",
        description="How a collection that rankstream creates stores token vectors: turbo4, 4 bits a component;"
        " float16, 16 bits. Default: turbo4. Set float16 for a Qdrant server before 1.19. A collection that exists"
        " keeps its own.",
    )


class Bm25Settings(Section):
    """The analyser and the BM25 formula of the keyword leg. They are part of the index: after a change, index again."""

    k: float = Field(default=1.2, ge=0, description="BM25's k: how much a repeated term adds; 0: nothing.")
    b: float = Field(default=0.75, ge=0, le=1, description="BM25's b: how much long documents lose, from 0 to 1.")
    avg_len: float = Field(default=256.0, gt=0, description="Expected length of a document, in terms.")
    language: str = Field(
        default="english", description="Language of stemming and stop words; none: neither, for mixed languages."
    )


class SearchSettings(Section):
    """How Qdrant searches its vector index."""

    hnsw_ef: Count | None = Field(
        default=384,
        description="Candidates that a search of the vector leg looks at in Qdrant's HNSW index: more find more of the"
        " nearest documents, and take longer. Default: 384; null: Qdrant's own, ef_construct of the index, mostly 100."
        " Raise it if documents are missed; docs/quality.md has figures.",
    )


class QdrantSettings(Backend):
    """The index: a Qdrant server at `url`, or Qdrant's engine in this process on the directory `path`."""

    url: Url | None = Field(default=None, description="Address of a Qdrant server. Set this or `path`.")
    path: Path | None = Field(default=None, description="Directory of Qdrant's engine in this process.")
    timeout: Seconds = Field(default=2.0, description="Seconds for a search, its wait in the queue included.")
    max_batch: Count = Field(default=64, description="Searches in one request.")
    max_concurrency: Count = Field(default=8, description="Requests in flight for one leg of one collection.")
    dimension: int = Field(default=384, ge=1, le=65_536, description="Length of the embedder's vectors.")
    destinations: dict[str, str] = Field(
        default={"default": "documents"}, min_length=1, description="Destination -> Qdrant collection."
    )
    collections: dict[str, dict[str, str]] = Field(
        default={}, description="Destination -> a query's `collection` -> Qdrant collection, to keep parts separate."
    )
    indexes: dict[str, Literal["keyword", "integer", "float", "bool", "datetime"]] = Field(
        default={}, description="Payload field -> type of its index; add the fields that queries filter or order by."
    )
    owned: list[str] = Field(
        default=[],
        description="Qdrant collections that rankstream may write to although their metadata do not say that it created"
        " them. Default: none; every other collection that exists is only read. Name a collection of `destinations` or"
        " `collections` here if no other program writes to it.",
    )
    create: CreateSettings = CreateSettings()
    vectors: Vectors = Vectors()
    search: SearchSettings = SearchSettings()
    bm25: Bm25Settings = Bm25Settings()
    analysers: dict[str, Bm25Settings] = Field(
        default={}, description="Qdrant collection -> its own analyser and formula, in place of `bm25`."
    )
    columns: dict[str, str] = Field(
        default={"title": "title", "text": "text", "content": "text"},
        description="Column name in keyword expressions (title:pasta), in any case -> title or text.",
    )
    idf: Literal["namespace", "collection"] = Field(
        default="namespace", description="Documents over which a term's rarity (IDF) is counted."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.url is None) == (self.path is None):
            raise ValueError("set one of url and path")
        if self.path is not None and (keys := list(self.create.server_only())):
            raise ValueError(f"create: {', '.join(keys)}: only a Qdrant server can do this; set url in place of path")
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
        if unknown := sorted({*self.owned} - {*self.held}):
            raise ValueError(f"owned: {', '.join(unknown)}: not a Qdrant collection of destinations or collections")
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
    """The embedder: MiniLM in this process, a server, or none (queries and documents then bring their own vectors)."""

    kind: Literal["minilm", "openai", "tei", "none"] = Field(
        default="minilm", description="minilm: in this process; openai, tei: a server at `url`; none: no embedder."
    )
    url: Url | None = Field(default=None, description="Address of the server, for openai and tei.")
    model: str = Field(default="all-MiniLM-L6-v2", description="Model name; sent to openai, recorded in results.")
    timeout: Seconds = Field(default=2.0, description="Seconds to embed a query, its wait in the queue included.")
    max_batch: Count = Field(default=32, description="Texts in one request.")
    max_concurrency: Concurrency = 8
    cache_mib: int = Field(default=64, ge=0, description="MiB of query embeddings to cache, by text; 0: no cache.")

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind in {"openai", "tei"} and self.url is None:
            raise ValueError(f"{self.kind} needs url")
        return self


class RerankSettings(Backend):
    """The reranker: late interaction, a cross-encoder in this process or behind a server, a chat model, or none."""

    kind: Literal[
        "late_interaction", "onnx", "cohere", "voyage", "tei", "vllm_score", "tei_predict", "chat", "none"
    ] = Field(default="late_interaction", description="Reranker; docs/reranking.md compares them.")
    url: Url | None = Field(default=None, description="Server address, without /rerank, /score or /predict.")
    path: Path | None = Field(default=None, description="For onnx: directory of the exported model.")
    model: str = Field(default="", description="Model name that the server is asked for.")
    mode: Literal["order", "pick"] = Field(
        default="order", description="For chat: order all relevant candidates, or pick one and put it first."
    )
    idf: bool = Field(default=True, description="For late_interaction: rare tokens of a query weigh more.")
    on_the_fly: bool = Field(
        default=False,
        description="For late_interaction: compute the token vectors of candidates that the index keeps none of, within"
        " the query's time. Default: false, such a query is not reranked. Set it if few documents bring own vectors.",
    )
    timeout: Seconds = Field(default=2.0, description="Seconds to rerank a query; for chat, chat.timeout applies.")
    max_batch: Count | None = Field(
        default=None,
        description="Documents in a call. Default: onnx 256, tei and tei_predict 32, vllm_score 512, cohere and voyage"
        " 1000; for late_interaction the number of queries, 16. For chat: not used.",
    )
    max_concurrency: Concurrency | None = Field(
        default=None, description="Calls in flight; 0 or less: no bound. Default: onnx 1, vllm_score 2, others 16."
    )
    max_doc_chars: int = Field(default=0, ge=0, description="Code points read of a document; 0: all of them.")
    max_batch_chars: int = Field(
        default=0, ge=0, description="Code points of query and documents in a call; 0: no bound. Stay in the context."
    )
    trusted: bool = Field(
        default=False, description="For vllm_score and tei_predict: one call may mix documents of several namespaces."
    )
    cache: int = Field(
        default=50_000, ge=0, description="Scores of rerankers and chat models to cache, by query and texts; 0: none."
    )

    @property
    def documents(self) -> int:
        """How many documents a call carries; for late interaction, how many queries."""
        return self.max_batch if self.max_batch is not None else _DOCUMENTS.get(self.kind, 1000)

    @property
    def calls(self) -> int:
        """How many calls are in flight at a time; 0 or less is no bound."""
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
    # The event loop serialises the token vectors: a larger call would delay everything else on it.
    "late_interaction": 16,
    # A call is answered as a whole: urgent queries wait for a larger one, and a smaller one wastes more on padding.
    "onnx": 256,
    # TEI's default for its option max-client-batch-size.
    "tei": 32,
    "tei_predict": 32,
    "vllm_score": 512,
}
_CALLS: Final[Mapping[str, int]] = {
    "onnx": 1,
    # The second call waits at the server while the first is computed; further requests are batched here meanwhile.
    "vllm_score": 2,
}


class ChatSettings(Backend):
    """The chat model: it reranks, or recipes ask it to read the time in a query or to pick the best result."""

    kind: Literal["openai", "anthropic", "none"] = Field(
        default="none", description="API of the server; openai: any server with /chat/completions."
    )
    url: Url | None = Field(default=None, description="Address with the API's version, such as https://host/v1.")
    model: str = Field(default="", description="Model name that the server is asked for.")
    max_tokens: Count = Field(default=1024, description="Most tokens of an answer; an order that is cut is rejected.")
    timeout: Seconds = Field(default=5.0, description="Seconds for a completion, its wait in the queue included.")
    max_concurrency: Concurrency = Field(default=16, description="Completions in flight, for each stage that asks.")

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind != "none" and (self.url is None or not self.model):
            raise ValueError(f"{self.kind} needs url and model")
        return self

"""Sections `qdrant`, `embedder`, `rerank` and `chat`: what the flow calls."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.settings.section import Backend, Count, Seconds, Section, Url


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
    vectors: Vectors = Vectors()
    bm25: Bm25Settings = Bm25Settings()
    idf: Literal["namespace", "collection"] = "namespace"

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.url is None) == (self.path is None):
            raise ValueError("set one of url and path")
        return self


class EmbedderSettings(Backend):
    """Who embeds: MiniLM in this process, a server, or nobody (queries then need their own vector)."""

    kind: Literal["minilm", "openai", "tei", "none"] = "minilm"
    url: Url | None = None
    model: str = "all-MiniLM-L6-v2"
    timeout: Seconds = 2.0
    max_batch: Count = 32
    max_concurrency: Count = 8

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind in {"openai", "tei"} and self.url is None:
            raise ValueError(f"{self.kind} needs url")
        return self


class RerankSettings(Backend):
    """Who reranks: late interaction over the token vectors in the index, a cross-encoder server, or nobody."""

    kind: Literal["late_interaction", "cohere", "tei", "none"] = "late_interaction"
    url: Url | None = None
    model: str = ""
    weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="The reranker's say in the score; the rest is the fused score's."
    )
    timeout: Seconds = 2.0
    max_batch: Count = 32
    max_concurrency: Count = 16

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind in {"cohere", "tei"} and self.url is None:
            raise ValueError(f"{self.kind} needs url")
        return self


class ChatSettings(Backend):
    """The chat model of recipes that ask one: who reads times in queries, or picks the best result."""

    kind: Literal["openai", "anthropic", "none"] = "none"
    url: Url | None = Field(default=None, description="With the version, such as https://host/v1.")
    model: str = ""
    max_tokens: Count = 256
    timeout: Seconds = 5.0
    max_concurrency: Count = 16

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.kind != "none" and (self.url is None or not self.model):
            raise ValueError(f"{self.kind} needs url and model")
        return self

"""The result event: what a query is answered with, one JSON object a message on the results topic.

The flow writes these objects as plain dictionaries, since building models costs a query more than ranking it; this
model is what they are held to.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.errors import Reason


class Status(StrEnum):
    """What became of the query; of several that apply, the first in this order."""

    EXPIRED = "expired"
    FAILED = "failed"
    PARTIAL = "partial"
    UNRANKED = "unranked"
    OK = "ok"


class LegStatus(StrEnum):
    """What became of one leg: `skipped` was not asked on purpose, `failed` and `timeout` were lost."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


Score = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LegRank(_Strict):
    """Where one leg had a result: rank from 0, and the leg's own score."""

    rank: Annotated[int, Field(ge=0)]
    score: Score


class LegExplanation(LegRank):
    """What became of one leg's hit: its score on the legs' common scale, and what it contributed."""

    normalised: Score | None = None
    weight: Score | None = None
    contribution: Score | None = None


class StageExplanation(_Strict):
    """What one stage made of the score, by which parameters and of which values; a fusion has no input."""

    stage: str
    input: Score | None
    output: Score
    parameters: dict[str, JsonValue]
    values: dict[str, JsonValue]


class Explained(_Strict):
    """How a result came to its score: its legs, then every stage in order. The last output is the score."""

    legs: dict[str, LegExplanation]
    stages: list[StageExplanation]


class Hit(_Strict):
    """One ranked document."""

    id: str
    rank: Annotated[int, Field(ge=1)]
    score: Score
    text: str | None = None
    payload: dict[str, JsonValue] = {}
    legs: dict[str, LegRank]
    explanation: Explained | None = Field(default=None, description="Only with `explain`.")


class LegReport(_Strict):
    """What one leg did for this query."""

    name: str
    status: LegStatus
    reason: Reason | None = None
    candidates: Annotated[int, Field(ge=0)]


class Degradation(_Strict):
    """A part of the answer that was lost, and why."""

    stage: Literal["queue", "embed", "anchor", "vector", "keyword", "structured", "fetch", "rerank", "result"]
    reason: Reason


class Models(_Strict):
    """The models that took part."""

    embedder: str | None = None
    reranker: str | None = None


class Offset(_Strict):
    """The query's place in Kafka."""

    topic: str
    partition: int
    offset: int


class Provenance(_Strict):
    """What the answer was computed from."""

    config_hash: str | None
    recipe: str
    recipe_hash: str = Field(description="Of what the recipe does, overrides included.")
    models: Models
    now: str | None
    source: Offset | None = Field(description="null: ranked offline.")


class ResultEvent(_Strict):
    """The answer to one query."""

    schema_version: Literal[1] = 1
    query_id: str
    result_id: str = Field(description="A hash of the query's topic, partition and offset: the same on re-delivery.")
    status: Status
    profile: str
    results: list[Hit]
    total: Annotated[int, Field(ge=0)] = Field(description="Candidates after fusion and dedupe.")
    has_more: bool
    backends_used: list[str]
    reranked: Literal[True] | None = Field(
        default=None, description="Present if a stage ran that `rerank: false` would have skipped."
    )
    semantic_unavailable: bool
    legs: list[LegReport]
    degraded: list[Degradation]
    warnings: list[str]
    provenance: Provenance
    metadata: dict[str, Any] | None = None
    pool: dict[str, Any] | None = Field(default=None, description="Only with `record`: a candidate pool.")

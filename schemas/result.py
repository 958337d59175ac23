"""The result event: what a query is answered with, one JSON object a message on the results topic.

The flow writes these objects as plain dictionaries, since building models costs a query more than ranking it; this
model is what they are held to.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.denial import DenialCode
from schemas.errors import Reason


class Status(StrEnum):
    """What became of the query; of several that apply, the first in this order."""

    DENIED = "denied"
    EXPIRED = "expired"
    FAILED = "failed"
    PARTIAL = "partial"
    UNRANKED = "unranked"
    OK = "ok"


class RetrievalStage(StrEnum):
    """Where an answer came from."""

    POLICY = "policy"
    FAST_PATH = "fast_path"
    EXACT_CACHE = "exact_cache"
    SEMANTIC_CACHE = "semantic_cache"
    STRUCTURED = "structured"
    SEMANTIC = "semantic"
    HYBRID_MERGE = "hybrid_merge"


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

    stage: Literal[
        "queue", "embed", "temporal_expression", "vector", "keyword", "structured", "fetch", "rerank", "result"
    ]
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
    index_watermark: list[str] | None = Field(
        description="`partition:offset` of the last documents that the namespace is known to hold; null: not known."
    )
    source: Offset | None = Field(description="Of the query that it was computed for; null: ranked offline.")


class Denied(_Strict):
    """Why a query is refused."""

    code: DenialCode
    reason: str


class DecayInForce(_Strict):
    """The decay that this query's recipe applied."""

    mode: Literal["none", "exponential", "step"]
    half_life_days: Annotated[float, Field(ge=0)] | None
    over_sample_factor: Annotated[float, Field(ge=0)] = Field(
        description="Candidates asked of a leg, in pages of this query."
    )


class Debug(_Strict):
    """What became of the query on its way; the stages by the names of the flow's steps and of the legs."""

    stages_hit: list[str] = Field(description="In the order in which they were done.")
    candidates_per_stage: dict[str, Annotated[int, Field(ge=0)]]
    per_stage_latency_ms: dict[str, Annotated[float, Field(ge=0)]]
    cache_hit: bool
    cache_type: Literal["exact", "semantic"] | None
    decay: DecayInForce
    total_latency_ms: Annotated[float, Field(ge=0)]


class ResultEvent(_Strict):
    """The answer to one query."""

    schema_version: Literal[1] = 1
    query_id: str
    result_id: str = Field(description="A hash of the query's topic, partition and offset: the same on re-delivery.")
    status: Status
    profile: str
    retrieval_stage: RetrievalStage | None = Field(description="null: the query ended before any.")
    results: list[Hit]
    total: Annotated[int, Field(ge=0)] = Field(
        description="Candidates after fusion and dedupe; of a lookup those on this page."
    )
    has_more: bool
    next_cursor: str | None = Field(description="For the next page, sent with this query as it was.")
    backends_used: list[str]
    reranked: Literal[True] | None = Field(
        default=None, description="Present if a stage ran that `rerank: false` would have skipped."
    )
    semantic_unavailable: bool
    legs: list[LegReport]
    degraded: list[Degradation]
    warnings: list[str]
    removed_by_firewall: Annotated[int, Field(ge=0)] = Field(
        description="Records that passed the index's filter and not the check behind it: 0 in health."
    )
    denied: Denied | None = Field(default=None, description="Only with the status `denied`.")
    provenance: Provenance
    debug: Debug | None = Field(default=None, description="Only with `debug`.")
    metadata: dict[str, Any] | None = None
    pool: dict[str, Any] | None = Field(default=None, description="Only with `record`: a candidate pool.")

"""The result event, one JSON object per message of the results topic: with the names of legs, and denials by policies.

The flow writes results as plain dictionaries, since building models would cost more than the ranking. Tests hold those
dictionaries to this model. A denied query gets a result, never a dead letter.
"""

from enum import StrEnum
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from schemas.errors import DeadLetterClass, Reason
from schemas.facets import FacetCounts
from schemas.fields import Documented
from schemas.headers import MAX_MESSAGE_CHARS
from schemas.query import Wish

VERSION: Final = version("rankstream")
"""The version of rankstream that runs."""

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"
STRUCTURED: Final = "structured"
VECTOR_CONTEXT: Final = "vector_context"
KEYWORD_CONTEXT: Final = "keyword_context"
LEARNED: Final = "learned"
FUZZY: Final = "fuzzy"
FACETS: Final = "facets"
PINNED: Final = "pinned"

LEGS: Final = (VECTOR, KEYWORD, STRUCTURED)
"""In the order that breaks ties; other legs follow, by name."""

CONTEXT_LEGS: Final = (KEYWORD_CONTEXT, VECTOR_CONTEXT)
"""The legs that read each document together with its neighbours."""

WEIGHED_LEGS: Final = (FUZZY, KEYWORD_CONTEXT, LEARNED, VECTOR_CONTEXT)
"""The legs that are asked only where a recipe gives them weight, by name."""

BY_WORDS: Final = frozenset({FUZZY, KEYWORD, KEYWORD_CONTEXT, LEARNED})
"""The legs whose scores are sums over the query's words or parts of words: a document with none of them has 0."""

NO_DOCUMENT: Final = "no results: no document "
"""The beginning of a warning that may name fields of documents, in backticks."""


class DenialCode(StrEnum):
    """The reasons for a refusal: a closed list. If several apply, the first in this order is reported."""

    SOURCE_NOT_PERMITTED_TO_READ = "source_not_permitted_to_read"
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    OPERATION_NOT_ALLOWED = "operation_not_allowed"
    RETRIEVAL_MODE_NOT_ALLOWED = "retrieval_mode_not_allowed"
    POLICY_DENIED = "policy_denied"
    RETRIEVAL_FIREWALL_DENIED = "retrieval_firewall_denied"


class Denial(NamedTuple):
    """A refusal. Its reason is one sentence; it names what the query asked for, and nothing that is allowed."""

    code: DenialCode
    reason: str


class Status(StrEnum):
    """The outcome of a query. If several apply, the first in this order is reported."""

    INVALID = "invalid"
    DENIED = "denied"
    EXPIRED = "expired"
    FAILED = "failed"
    PARTIAL = "partial"
    UNRANKED = "unranked"
    OK = "ok"


class RetrievalStage(StrEnum):
    """Which stage produced the answer."""

    POLICY = "policy"
    FAST_PATH = "fast_path"
    EXACT_CACHE = "exact_cache"
    SEMANTIC_CACHE = "semantic_cache"
    STRUCTURED = "structured"
    SEMANTIC = "semantic"
    HYBRID_MERGE = "hybrid_merge"


class LegStatus(StrEnum):
    """The outcome of one leg. A `skipped` leg was not asked on purpose; `failed` and `timeout` are failures."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


class TotalRelation(StrEnum):
    """The relation of `total` to the number of documents that match: equal to it, or a lower bound of it.

    nearest: nothing says which match, for the query has no words, or none could be searched: `total` counts the nearest
    documents, which were ranked.
    """

    EQ = "eq"
    GTE = "gte"
    NEAREST = "nearest"


Score = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(Documented):
    model_config = ConfigDict(extra="forbid")


class LegRank(_Strict):
    """A result's rank in one leg, from 0, and the leg's own score."""

    rank: Annotated[int, Field(ge=0)]
    score: Score


class LegExplanation(LegRank):
    """The contribution of one leg: its score normalised to the common scale, the weight, and their product."""

    normalised: Score | None = None
    weight: Score | None = None
    contribution: Score | None = None


class StageExplanation(_Strict):
    """The change of the score by one stage: its parameters and the values that it used. A fusion has no input."""

    stage: str
    input: Score | None
    output: Score
    parameters: dict[str, JsonValue]
    values: dict[str, JsonValue]


class Explained(_Strict):
    """A score explanation: the legs, then every stage in order. The last output is the score."""

    legs: dict[str, LegExplanation]
    stages: list[StageExplanation]


class Passage(_Strict):
    """A part of a document's text that the query matched. Offsets count code points."""

    text: str
    start: Annotated[int, Field(ge=0, description="Its place in the document's text.")]
    highlights: list[Annotated[list[int], Field(min_length=2, max_length=2)]]
    """The query's words, each as from and to in the passage; in order, none within another."""


class Neighbour(_Strict):
    """A document near a result, in the order of qdrant.context."""

    id: str | int
    text: str | None


class Neighbours(_Strict):
    """The documents before and behind a result, each in their order."""

    before: list[Neighbour]
    after: list[Neighbour]


class Member(_Strict):
    """One document of a group, or the best one, which stands for it."""

    id: str | int
    """A whole number only with `documents.ids: integer`."""
    score: Score
    relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fit to the query, comparable between queries of one configuration; missing: not known."""
    distance_m: Annotated[float, Field(ge=0)] | None = None
    """Metres from the point that the query orders by, or else that of its first filter geo_radius."""
    text: str | None = None
    payload: dict[str, JsonValue] = Field(default={})
    passages: list[Passage] | None = None
    """Only with `return.passages`: the best parts of the text, the best first."""
    neighbours: Neighbours | None = Field(default=None, description="Only with `return.neighbours`.")
    legs: dict[str, LegRank]
    explanation: Explained | None = Field(default=None, description="Only with `explain`.")


class GroupedHits(_Strict):
    """The group of a result."""

    key: str | int | bool | None
    """Value that its documents have in the field `group_by`; null: the document has none, and is a group of its own."""
    count: Annotated[int, Field(ge=1)]
    """Candidates in the group, the result itself included; the index may hold more documents of it."""
    results: list[Member] = Field(description="Further candidates of the group, best first, up to `group_size` - 1.")


class Hit(Member):
    """One ranked document; with `group_by` the best one of a group, with the group's score."""

    rank: Annotated[int, Field(ge=1)]
    group: GroupedHits | None = Field(default=None, description="Only with `group_by`.")
    token: str | None = None
    """Only in an experiment that mixes two rankings: names this result in feedback, and is opaque."""


class LegReport(_Strict):
    """The outcome of one leg for this query."""

    name: str
    status: LegStatus
    reason: Reason | None = None
    candidates: Annotated[int, Field(ge=0)]


_BeforeLegs = Literal["queue", "embed", "encode", "temporal_expression"]
_Leg = Literal[
    "vector", "keyword", "structured", "fuzzy", "keyword_context", "learned", "vector_context", "pinned", "facets"
]
_BehindLegs = Literal["similarity", "fetch", "rerank", "neighbours", "result"]


class Degradation(_Strict):
    """A part of the answer that is missing, and the reason."""

    stage: Literal[_BeforeLegs, _Leg, _BehindLegs]
    reason: Reason


class Models(_Strict):
    """The models that were used."""

    embedder: str | None = None
    sparse_encoder: str | None = Field(default=None, description="Missing where none is configured.")
    reranker: str | None = None


class Offset(_Strict):
    """The position of the query in Kafka."""

    topic: str
    partition: int
    offset: int


class Provenance(_Strict):
    """Configuration, models, index and query from which the answer was computed."""

    version: str | None = Field(default=None, description="Version of rankstream that answered.")
    config_hash: str | None
    recipe: str | None = Field(description="Name of the recipe; null: the query was refused.")
    recipe_hash: str | None
    """Hash of the recipe with the overrides of the query; null: the query was refused."""
    models: Models
    now: str | None
    index_watermark: list[str] | None
    """Watermark of the namespace: `partition:offset` of the last applied documents; null: unknown."""
    source: Offset | None = Field(description="Position of the query for which it was computed; null: ranked offline.")
    rules: str | None = Field(default=None, description="Version of the rules; missing: the namespace has none.")
    experiment: str | None = Field(default=None, description="The experiment; missing: the query is in none.")
    asked: str | None = None
    """Only with `semantic_cache`: text of the query for which it was computed; null: a vector only."""


class Denied(_Strict):
    """Why a policy denied the query."""

    code: DenialCode
    reason: str


class Refused(Documented):
    """Why the query was refused, as its dead letter says it."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    class_: DeadLetterClass = Field(alias="class", description="Class of the dead letter.")
    field: str | None = Field(description="First field that is wrong; null: the message as a whole is.")
    reason: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)]
    """Problem, with the field and its value, which are cut if they are long."""


class DecayInForce(_Strict):
    """The decay that was applied to this query."""

    mode: Literal["none", "exponential", "step"]
    half_life_days: Annotated[float, Field(ge=0)] | None
    over_sample_factor: Annotated[float, Field(ge=0)]
    """Candidates that each leg was asked for, divided by the page size and rounded up."""


class Debug(_Strict):
    """The way of the query through the flow. Stages have the names of the flow's steps and of the legs."""

    stages_hit: list[str] = Field(description="The stages, in order.")
    candidates_per_stage: dict[str, Annotated[int, Field(ge=0)]]
    per_stage_latency_ms: dict[str, Annotated[float, Field(ge=0)]]
    cache_hit: bool
    cache_type: Literal["exact", "semantic"] | None
    decay: DecayInForce
    total_latency_ms: Annotated[float, Field(ge=0)]


class ResultEvent(_Strict):
    """The result of one query."""

    schema_version: Literal[1] = 1
    query_id: str
    result_id: str = Field(description="Hash of the query's topic, partition and offset: the same on re-delivery.")
    status: Status
    profile: str | None = Field(description="Profile that was used; null: the query was refused before.")
    retrieval_stage: RetrievalStage | None
    """Stage that produced the answer; null: the query ended before any did."""
    results: list[Hit]
    total: Annotated[int, Field(ge=0)]
    """Documents, or groups with `group_by`, that match: with `min_relevance` those that have it, else those that hold a
    word of the query. Results behind them are near by meaning. For a lookup without `facets`, the results on this page.
    """
    total_relation: TotalRelation
    """eq: all that match; gte: more may match than were looked at; nearest: nothing says which match, and `total` has
    the number of the nearest documents, which were ranked."""
    facets: list[FacetCounts] | None = None
    """Counts of the facets that were asked for, in their order; missing: none were, or they were lost."""
    has_more: bool
    next_cursor: str | None = Field(description="Cursor of the next page; send it with the same query.")
    backends_used: list[str]
    reranked: Literal[True] | None = None
    """Present if a model judged candidates, or a stage of the distance pipeline ran."""
    reranked_candidates: Annotated[int, Field(ge=0)] | None = None
    """Candidates that the model read, the first in the order before it; missing: it read none."""
    unscored_candidates: Annotated[int, Field(ge=1)] | None = None
    """Candidates among these without a score: blank, or refused by the model; missing: none."""
    rules: list[str] | None = Field(default=None, description="Ids of the rules that worked; missing: none did.")
    understood: list[Wish] | None = None
    """Wishes of the query, with the fields that decided; a query may send them back changed. Missing: none."""
    semantic_unavailable: bool
    semantic_unavailable_reason: str | None = None
    """Why, in a sentence: present where semantic_unavailable is true."""
    legs: list[LegReport]
    degraded: list[Degradation]
    warnings: list[str]
    removed_by_firewall: Annotated[int, Field(ge=0)]
    """Records that the post-filter check removed: 0 unless something is wrong."""
    denied: Denied | None = Field(default=None, description="Only with the status `denied`.")
    error: Refused | None = Field(default=None, description="Only with the status `invalid`.")
    provenance: Provenance
    debug: Debug | None = Field(default=None, description="Only with `debug`.")
    metadata: dict[str, Any] | None = None
    pool: dict[str, Any] | None = Field(default=None, description="Only with `record`: a candidate pool.")

    @model_validator(mode="after")
    def _refused_or_ranked(self) -> Self:
        refused = self.status is Status.INVALID
        if refused != (self.error is not None):
            raise ValueError("error is given with the status invalid, and with no other")
        ranked = (self.profile, self.provenance.recipe, self.provenance.recipe_hash)
        if any((each is None) != refused for each in ranked):
            raise ValueError("profile, recipe and recipe_hash are null for a refused query, and for no other")
        return self

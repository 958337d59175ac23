"""The stages of a recipe: their base, the types of parameters, and every stage after fusion."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from schemas.document import COLUMNS, CONTENT, FIELDS, MARKS, NEIGHBOURS, TIMES
from schemas.fields import Strict
from schemas.filters import FieldName, spellings
from schemas.geo import Latitude, Longitude
from schemas.query import GeoDistance
from schemas.result import KEYWORD, VECTOR

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Span = Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)]
"""Days or cycles: a divisor, and so never 0."""
Shape = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=-(2**31), lt=2**31, description="Candidates that the stage keeps; 0 or less: all.")]
Legs = tuple[str, ...]

NOTHING: frozenset[str] = frozenset()


class RecipeStage(Strict):
    """A stage's parameters. An unknown one, or one out of its bounds, raises pydantic's ValidationError."""

    name: ClassVar[str]
    FIELDS: ClassVar[frozenset[str]] = NOTHING
    """Payload fields of the stage, whatever its parameters are."""
    SEARCHED: ClassVar[bool] = False
    """True: it reads the fields that words are searched in, too."""

    @property
    def reads(self) -> frozenset[str]:
        return self.FIELDS


class FusionStage(RecipeStage):
    """A stage that fuses the hits of the legs into one list. Every recipe begins with one."""

    unasked: ClassVar[Legs] = ()
    """The legs of a query that has nothing to search by. None: such a query finds nothing."""

    limit: Limit = 0

    @cached_property
    def legs(self) -> Legs:
        return VECTOR, KEYWORD


class DistanceStage(RecipeStage):
    """A stage that works on distance = max(0, 1 - score)."""

    enabled: bool = Field(default=False, description="Whether the stage runs.")


class SimilarityStage(RecipeStage):
    """A stage that reads the dense vectors of the first candidates; the others follow in their order."""

    candidates: Annotated[int, Field(ge=2, le=200)] = 50
    """Candidates whose dense vectors are read."""


class Feedback(SimilarityStage):
    """Pseudo-relevance feedback: what is like the best candidates gets a higher score."""

    name: ClassVar = "feedback"
    weight: Share = Field(default=0.4, description="Share of the similarity to the best candidates.")
    top: Annotated[int, Field(ge=1, le=50)] = 3
    """Candidates that are taken for the best: the others are compared with their mean."""


class Smoothing(SimilarityStage):
    """Score regularisation: a candidate's score moves towards those of the candidates that are like it."""

    name: ClassVar = "smoothing"
    weight: Share = Field(default=0.4, description="Share of the mean score of the nearest candidates.")
    neighbours: Annotated[int, Field(ge=1, le=50)] = Field(default=10, description="Nearest candidates that count.")
    temperature: Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)] = 0.05
    """Fall of their weight with the cosine: exp(cosine / temperature)."""


TEXTS: Final = frozenset(COLUMNS)
MOST_BOOST: Final = 1e6
CREATED_AT: Final = frozenset({"created_at"})
IMPORTANCE: Final = frozenset({"importance", "emotional_weight"})


def _no_truth(value: object) -> object:
    # True equals 1.
    if isinstance(value, bool):
        raise ValueError("Input should be 1 or 5")
    return value


Scale = Annotated[
    Literal[1, 5], BeforeValidator(_no_truth), Field(description="Divisor of `importance`: its greatest value.")
]


class Dedupe(RecipeStage):
    """Deduplication: of candidates with the same content the newest one stays, or else the one with most fields."""

    name: ClassVar = "dedupe"
    FIELDS: ClassVar = frozenset({CONTENT, FIELDS, *TIMES})
    limit: Limit = 0


class Coverage(RecipeStage):
    """Exact words first: a document's score grows by the evidence of the query's words that it has."""

    name: ClassVar = "coverage"
    FIELDS: ClassVar = frozenset({MARKS})
    weight: Weight = Field(default=0.5, description="Greatest gain.")
    rarity: Shape = Field(default=3.0, description="Exponent of a word's rarity: how much more the rare words say.")


class Rerank(RecipeStage):
    """The model reranker: weight * its score + (1 - weight) * the score before, of the candidates that it reads."""

    name: ClassVar = "rerank"
    weight: Share = 1.0
    """Share of the model's score. 1: it replaces the order of the candidates that the model reads."""
    context: Share = 0.0
    """Share, of the model's score, of the mean score of the document and its neighbours; only late interaction reads
    it, where the collection has context. 0: neighbours are not read."""
    words: Annotated[int, Field(ge=1, le=100)] = 1
    """Words of a query from which late interaction has the whole weight; fewer have weight * their number / words."""


class Reflections(RecipeStage):
    """The ranking of documents of the type `reflection`."""

    name: ClassVar = "reflections"
    FIELDS: ClassVar = frozenset({"type"})
    include_reflections: bool = Field(default=True, description="false: drop them; a query's own field overrides it.")
    reflection_boost: Annotated[
        float, Field(ge=0, le=MOST_BOOST, allow_inf_nan=False, description="Factor for the score of each reflection.")
    ] = 1.0
    recency_weight: Share | None = None
    """Weight of recency with `reflections_only`; null: that of `weighted` with `current_cycle`, else 0."""
    half_life_days: Span = Field(default=7.0, description="Days in which recency halves.")
    half_life_cycles: Span = Field(default=50.0, description="Cycles in which it halves, with `current_cycle`.")


class Composite(RecipeStage):
    """A weighted sum of relevance, recency, importance and quality. The weights need not sum to 1."""

    name: ClassVar = "composite"
    relevance: Weight = Field(default=0.80, description="Weight of score / greatest score.")
    recency: Weight = Field(default=0.0, description="Weight of the time since the last use.")
    importance: Weight = Field(default=0.0, description="Weight of the document's importance.")
    quality: Weight = Field(default=0.20, description="Weight of quality / greatest quality.")
    importance_scale: Scale = 5
    confidence_decay: Literal["linear", "weibull"] = "linear"
    """Fall of confidence with the time since it was confirmed."""
    confidence_k: Shape = Field(default=1.2, description="weibull: shape of the curve.")
    confidence_lambda: Span = Field(default=180.0, description="weibull: scale of the curve, in days.")
    confidence_floor: Share = Field(default=0.5, description="weibull: share of the confidence that never falls.")

    @property
    def reads(self) -> frozenset[str]:
        fields: set[str] = set()
        if self.recency or self.quality:
            fields |= {"accessed_at", "updated_at", "created_at"}
        if self.importance or self.quality:
            fields |= IMPORTANCE
        if self.quality:
            fields |= {"salience", "memory_tier", "confidence", "confirmed_at", "access_count"}
        return frozenset(fields)


class Temporal(RecipeStage):
    """A bonus for documents of the time that the query names (its temporal expression)."""

    name: ClassVar = "temporal"
    FIELDS: ClassVar = CREATED_AT
    boost: float = Field(default=0.40, ge=-1e6, le=1e6, allow_inf_nan=False)
    """Greatest bonus; 0 or less: none."""
    extractor: Literal["rules", "chat"] = "rules"
    """rules: English phrases and ISO dates; chat: the chat model, in any language."""


class AnswersFirst(RecipeStage):
    """Answers before questions, for a query that asks: what asks gives a part of its score to the next document."""

    name: ClassVar = "answers"
    FIELDS: ClassVar = TEXTS | {NEIGHBOURS}
    weight: Share = Field(
        default=0.7, description="Share of its score that a document loses if all of it is questions."
    )
    passed: Share = Field(default=0.3, description="Share of that score that the next document of its context gains.")


class SpeakersFirst(RecipeStage):
    """Messages of a speaker whom the query names before those of others."""

    name: ClassVar = "speakers"
    FIELDS: ClassVar = TEXTS
    SEARCHED: ClassVar = True
    weight: Share = Field(default=0.3, description="Share of its score that a message of another speaker loses.")


class Proximity(RecipeStage):
    """Near documents get a higher score: (1 - weight) * score / greatest score + weight * nearness, which falls with
    the distance.
    """

    name: ClassVar = "near"
    field: FieldName = Field(default="location", description="Payload field with a document's points.")
    lat: Latitude | None = Field(default=None, description="Degrees north of the point; null: the stage does nothing.")
    lon: Longitude | None = Field(default=None, description="Degrees east of it; null: the stage does nothing.")
    weight: Share = Field(default=0.3, description="Share of the nearness.")
    mode: Literal["exponential", "step"] = "exponential"
    """exponential: nearness halves with each half_distance_m; step: it is 1 within that distance, else 0.1."""
    half_distance_m: Annotated[float, Field(ge=1, le=1e8, allow_inf_nan=False)] = 1000.0
    """Metres in which nearness halves, or of the step."""

    @cached_property
    def origin(self) -> GeoDistance | None:
        """The distances that count."""
        if self.lat is None or self.lon is None:
            return None
        return GeoDistance(field=self.field, lat=self.lat, lon=self.lon)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(spellings(self.field)) if self.origin is not None else NOTHING


class Wishes(RecipeStage):
    """Wishes in words: score - weight * the wishes of the query's text that a document fails."""

    name: ClassVar = "wishes"
    limits: bool = Field(default=True, description="Whether limits are read from the text: `under 100 euro`.")
    exclusions: bool = Field(default=True, description="Whether exclusions are read: `without sugar`.")
    order: bool = Field(default=True, description="Whether an order is read: `cheapest`.")
    strict: bool = Field(default=False, description="true: what fails is left out; false: it goes behind.")
    weight: Weight = Field(default=1.0, description="What a failed wish takes from the score.")

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        switched = {"limit": self.limits, "exclusion": self.exclusions, "order": self.order}
        return tuple(kind for kind, on in switched.items() if on)


class Versions(RecipeStage):
    """Facts that change: of the first candidates, those that say the same and match alike exchange their scores."""

    name: ClassVar = "versions"
    FIELDS: ClassVar = CREATED_AT | {MARKS}
    similarity: Annotated[float, Field(ge=0.25, le=1)] = 0.57
    """Least similarity of the terms of two versions."""
    margin: Share = Field(default=0.06, description="Greatest difference of their scores, as a share of the greater.")
    candidates: Annotated[int, Field(ge=2, le=200)] = 10
    """Candidates that are compared; the others follow in their order."""


_PRESETS: Final[Mapping[str, Mapping[str, float]]] = {"identity": {"k": 1.2, "lambda": 365.0, "floor": 0.6}}


class WeibullDecay(DistanceStage):
    """Older documents get a greater distance: distance / (floor + (1 - floor) * exp(-(age / lambda)^k))."""

    name: ClassVar = "weibull_decay"
    FIELDS: ClassVar = CREATED_AT
    preset: Literal["identity"] | None = None
    """Parameters to use where none is given; identity: k 1.2, lambda 365, floor 0.6."""
    k: Shape = Field(default=1.5, description="Shape of the curve.")
    scale: Span = Field(default=90.0, alias="lambda", description="Scale of the curve, in days.")
    floor: float = Field(default=0.3, ge=0.01, le=1, allow_inf_nan=False)
    """Bounds the growth: distance / floor at most."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**_PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given


class KeywordBoost(DistanceStage):
    """Documents that contain words of the query get a smaller distance: distance * (1 - weight * overlap)."""

    name: ClassVar = "keyword_boost"
    FIELDS: ClassVar = TEXTS
    weight: Share = Field(default=0.30, description="Greatest reduction, as a share of the distance.")
    stop_words: list[Annotated[str, StringConstraints(min_length=1)]] | None = Field(default=None, max_length=10_000)
    """Words that do not count; null: a list for English."""


class ImportanceBoost(DistanceStage):
    """Important documents get a smaller distance: distance * (1 - weight * importance)."""

    name: ClassVar = "importance_boost"
    FIELDS: ClassVar = IMPORTANCE
    weight: Share = Field(default=0.15, description="Greatest reduction, as a share of the distance.")
    importance_scale: Scale = 5


class LlmRerank(DistanceStage):
    """The chat model selects the best of the first `top_k`; it moves to the front, at half of the smallest distance."""

    name: ClassVar = "llm_rerank"
    top_k: int = Field(default=10, ge=1, le=200, description="Candidates that the chat model reads.")


DISTANCE: tuple[type[DistanceStage], ...] = (WeibullDecay, KeywordBoost, ImportanceBoost, LlmRerank)
LATER: tuple[type[RecipeStage], ...] = (
    *(Coverage, Dedupe, Rerank, Feedback, Smoothing, AnswersFirst, SpeakersFirst),
    *(Reflections, Composite, Temporal, Proximity, Wishes, Versions),
    *DISTANCE,
)

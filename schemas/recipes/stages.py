"""The stages that follow a fusion: one list in, one list out."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from schemas.document import COLUMNS, CONTENT
from schemas.recipes.parameters import DistanceStage, Limit, RecipeStage, Share, Span, Weight

TEXTS: Final = frozenset(COLUMNS)
CREATED_AT: Final = frozenset({"created_at"})


def _no_truth(value: object) -> object:
    # True equals 1.
    if isinstance(value, bool):
        raise ValueError("Input should be 1 or 5")
    return value


Scale = Annotated[Literal[1, 5], BeforeValidator(_no_truth), Field(description="What an importance is divided by.")]


class Dedupe(RecipeStage):
    """Of results with the same content the first stays."""

    name: ClassVar = "dedupe"
    limit: Limit = 0

    @property
    def reads(self) -> frozenset[str]:
        """The fingerprint that the index keeps."""
        return frozenset({CONTENT})


class Reflections(RecipeStage):
    """What becomes of documents whose type is `reflection`."""

    name: ClassVar = "reflections"
    include_reflections: bool = True
    reflection_boost: Annotated[
        float, Field(ge=0, le=1e6, allow_inf_nan=False, description="Multiplies the score of each.")
    ] = 1.0
    recency_weight: Share = Field(default=0.0, description="Recency's share where only reflections are asked for.")
    half_life_days: Span = 7.0
    half_life_cycles: Span = 50.0

    @property
    def reads(self) -> frozenset[str]:
        """The type."""
        return frozenset({"type"})


class Composite(RecipeStage):
    """Relevance, recency, importance and quality, weighed; the weights need not sum to 1."""

    name: ClassVar = "composite"
    relevance: Weight = 0.80
    recency: Weight = 0.0
    importance: Weight = 0.0
    quality: Weight = 0.20
    importance_scale: Scale = 5
    confidence_decay: Literal["linear", "weibull"] = "linear"

    @property
    def reads(self) -> frozenset[str]:
        """What the terms with a weight are made of."""
        fields: set[str] = set()
        if self.recency or self.quality:
            fields |= {"accessed_at", "updated_at", "created_at"}
        if self.importance or self.quality:
            fields |= {"importance"}
        if self.quality:
            fields |= {"salience", "memory_tier", "confidence", "confirmed_at", "access_count"}
        return frozenset(fields)


class Temporal(RecipeStage):
    """A bonus for documents of the time that the query names."""

    name: ClassVar = "temporal"
    boost: Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, description="0 or less: none.")] = 0.40
    extractor: Literal["rules", "chat"] = Field(default="rules", description="Who reads the time in the query.")

    @property
    def reads(self) -> frozenset[str]:
        """The stamp."""
        return CREATED_AT


_PRESETS: Final[Mapping[str, Mapping[str, float]]] = {"identity": {"k": 1.2, "lambda": 365.0, "floor": 0.6}}


class WeibullDecay(DistanceStage):
    """Older documents move away: distance / (floor + (1 - floor) * exp(-(age / lambda)^k))."""

    name: ClassVar = "weibull_decay"
    preset: Literal["identity"] | None = Field(default=None, description="Gives what is not given beside it.")
    k: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.5
    scale: Span = Field(default=90.0, alias="lambda", description="In days.")
    floor: Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)] = 0.3

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**_PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given

    @property
    def reads(self) -> frozenset[str]:
        """The stamp."""
        return CREATED_AT


class KeywordBoost(DistanceStage):
    """Documents that hold the query's words come nearer: distance * (1 - weight * overlap)."""

    name: ClassVar = "keyword_boost"
    weight: Share = 0.30
    stop_words: list[Annotated[str, StringConstraints(min_length=1)]] | None = Field(
        default=None, max_length=10_000, description="Words that don't count; missing: the English ones."
    )

    @property
    def reads(self) -> frozenset[str]:
        """The text columns."""
        return TEXTS


class ImportanceBoost(DistanceStage):
    """Important documents come nearer: distance * (1 - weight * importance)."""

    name: ClassVar = "importance_boost"
    weight: Share = 0.15
    importance_scale: Scale = 5

    @property
    def reads(self) -> frozenset[str]:
        """The importance."""
        return frozenset({"importance"})


class LlmRerank(DistanceStage):
    """A chat model picks the best of the first `top_k`: it goes first, at half of the smallest distance."""

    name: ClassVar = "llm_rerank"
    top_k: Annotated[int, Field(ge=1, le=200)] = 10


DISTANCE: tuple[type[DistanceStage], ...] = (WeibullDecay, KeywordBoost, ImportanceBoost, LlmRerank)
LATER: tuple[type[RecipeStage], ...] = (Dedupe, Reflections, Composite, Temporal, *DISTANCE)

"""The stages that begin a recipe: the legs' lists in, one list out."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from schemas.leg import KEYWORD, STRUCTURED, VECTOR
from schemas.recipes.parameters import FusionStage, Legs, RecipeStage, Share, Span, Weight

LegName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Weights = dict[LegName, Weight]

DEFAULT_K = 5.0
DEFAULT_ALPHA = 0.5
SMALLEST_K = 1e-3


def _asked(weights: Weights) -> Legs:
    return (VECTOR, KEYWORD, STRUCTURED) if weights.get(STRUCTURED) else (VECTOR, KEYWORD)


class Rrf(FusionStage):
    """Reciprocal rank fusion: the sum over the legs of weight / (k + rank), ranks from 0."""

    name: ClassVar = "rrf"
    k: Annotated[float, Field(le=1e6, allow_inf_nan=False, description="0 or less means 5.")] = DEFAULT_K
    weights: Weights = Field(default={}, description="By leg; a missing one weighs 1, `structured` 0.")

    @field_validator("k")
    @classmethod
    def _no_vanishing_k(cls, k: float) -> float:
        if 0 < k < SMALLEST_K:
            raise ValueError(f"Input should be 0 or less, or {SMALLEST_K} or more")
        return k

    @property
    def legs(self) -> Legs:
        """Vector and keyword; `structured` if it has a weight."""
        return _asked(self.weights)


class Score(FusionStage):
    """Score fusion: each leg's scores on one scale, then their weighted combination."""

    name: ClassVar = "score"
    alpha: Share | None = Field(default=None, description="The vector leg's weight; the keyword leg's is 1 - alpha.")
    weights: Weights | None = Field(default=None, description="By leg; a missing one weighs 1, `structured` 0.")
    normaliser: Literal["min_max", "z_score", "l2"] = "min_max"
    combination: Literal["sum", "arithmetic", "geometric", "harmonic"] = "sum"

    @model_validator(mode="after")
    def _one_weighting(self) -> Self:
        if self.alpha is not None and self.weights is not None:
            raise ValueError("alpha and weights are both given")
        if self.normaliser == "z_score" and self.combination in {"geometric", "harmonic"}:
            raise ValueError(f"z_score gives negative values, which have no {self.combination} mean")
        return self

    @property
    def legs(self) -> Legs:
        """Vector and keyword; `structured` if it has a weight."""
        return _asked(self.weights or {})


class Dbsf(FusionStage):
    """Distribution-based score fusion: each leg's mean - 3 deviations becomes 0 and mean + 3 becomes 1; summed."""

    name: ClassVar = "dbsf"
    weights: Weights = Field(default={}, description="By leg; a missing one weighs 1, `structured` 0.")

    @property
    def legs(self) -> Legs:
        """Vector and keyword; `structured` if it has a weight."""
        return _asked(self.weights)


class OneLeg(FusionStage):
    """One leg's list and raw scores as they are."""

    @property
    def legs(self) -> Legs:
        """That leg alone."""
        return (self.name,)


class VectorLeg(OneLeg):
    """The vector leg alone."""

    name: ClassVar = VECTOR


class KeywordLeg(OneLeg):
    """The keyword leg alone."""

    name: ClassVar = KEYWORD


class Weighted(FusionStage):
    """The five-signal blend; the weights of the signals that could be computed are shared out to sum to 1."""

    name: ClassVar = "weighted"
    keyword_weight: Weight = 0.30
    vector_weight: Weight = 0.55
    recency_weight: Weight = 0.10
    priority_weight: Weight = 0.05
    graph_weight: Weight = 0.0
    half_life_days: Span = 7.0
    half_life_cycles: Span = 50.0
    graph_edge_decay: Weight = 0.5
    max_neighbors_per_candidate: Annotated[int, Field(ge=0, le=1000)] = 5

    @property
    def legs(self) -> Legs:
        """Those whose weight isn't 0; without any, the newest documents."""
        asked = (VECTOR,) * (self.vector_weight > 0) + (KEYWORD,) * (self.keyword_weight > 0)
        return asked or (STRUCTURED,)

    @property
    def reads(self) -> frozenset[str]:
        """Stamps and priority; edges only if they weigh."""
        fields = {"id", "created_at", "updated_at", "cycle", "priority"}
        return frozenset(fields | {"edges"} if self.graph_weight else fields)


DecayMode = Literal["exponential", "step"]
Unset = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, description="0: a less specific tier's.")]


class DecayTier(BaseModel):
    """What one tier says of decay: global, destination, collection or source policy. What it leaves out falls
    through to the less specific ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = False
    mode: DecayMode | None = None
    half_life_days: Unset = 0.0
    step_threshold_days: Unset = 0.0


class Decay(DecayTier, FusionStage):
    """Hybrid merge: 0.7 * cosine + 0.3 * a weight that falls with age. Its parameters are the global tier."""

    model_config = RecipeStage.model_config
    name: ClassVar = "decay"

    @property
    def legs(self) -> Legs:
        """All of them."""
        return VECTOR, KEYWORD, STRUCTURED

    @property
    def reads(self) -> frozenset[str]:
        """The stamp, and the id that ties go by."""
        return frozenset({"id", "created_at"})


FUSION: tuple[type[FusionStage], ...] = (Rrf, Score, Dbsf, Weighted, Decay, VectorLeg, KeywordLeg)

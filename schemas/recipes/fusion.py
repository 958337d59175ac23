"""Fusion, the first stage of a recipe: one list of hits per leg in, one list of candidates out."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from schemas.errors import likely
from schemas.fields import Documented
from schemas.recipes.stages import FusionStage, Legs, RecipeStage, Share, Span, Weight
from schemas.result import FUZZY, KEYWORD, STRUCTURED, VECTOR, WEIGHED_LEGS

LegName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
LegWeights = dict[LegName, Weight]

DEFAULT_K = 5.0
DEFAULT_ALPHA = 0.5
SMALLEST_K = 1e-3


class WeighingStage(FusionStage):
    """A fusion by weights of the legs."""

    fuzzy: Weight = 0.0
    """Weight of the leg fuzzy, times the query's share of words read for near ones. 0: it is not asked."""

    @cached_property
    def legs(self) -> Legs:
        """Vector and keyword; also structured, fuzzy, learned and the context legs if they have a weight."""
        given = {**self._weights, FUZZY: self.fuzzy}
        return (VECTOR, KEYWORD, *(leg for leg in (*WEIGHED_LEGS, STRUCTURED) if given.get(leg)))

    @property
    def _weights(self) -> LegWeights:
        """The key `weights`, which each fusion describes by itself."""
        return vars(self)["weights"] or {}

    def find_slips(self) -> Iterator[tuple[str, str]]:
        """The weights that cannot be meant, by their path below the stage, with what is wrong.

        A leg of another name is one of recorded pools, unless its name is nearly that of a leg of ours.
        """
        for name in self._weights:
            if name not in _WEIGHED and (near := likely(name, _WEIGHED)) is not None:
                yield f"weights.{name}", f"no such leg; did you mean {near}?"
        if self._weights and not self.fuzzy and not any({VECTOR: 1.0, KEYWORD: 1.0, **self._weights}.values()):
            yield "weights", "no leg has a weight above 0"


_WEIGHED: Final = (VECTOR, KEYWORD, STRUCTURED, *WEIGHED_LEGS)


class Rrf(WeighingStage):
    """Reciprocal rank fusion: the sum over the legs of weight / (k + rank), with ranks from 0."""

    name: ClassVar = "rrf"
    k: Annotated[float, Field(le=1e6, allow_inf_nan=False, description="Rank constant; 0 or less means 5.")] = DEFAULT_K
    weights: LegWeights = Field(default={})
    """Leg -> weight. Default: 1; structured, learned and context legs: 0."""

    @field_validator("k")
    @classmethod
    def _no_vanishing_k(cls, k: float) -> float:
        if 0 < k < SMALLEST_K:
            raise ValueError(f"Input should be 0 or less, or {SMALLEST_K} or more")
        return k


class Score(WeighingStage):
    """Score fusion: the scores of each leg are normalised to one scale, then combined with weights."""

    name: ClassVar = "score"
    alpha: Share | None = None
    """Weight of the vector leg; the keyword leg gets 1 - alpha; null: 0.5."""
    weights: LegWeights | None = None
    """Leg -> weight, in place of `alpha`. Default: 1; structured, learned and context legs: 0."""
    normaliser: Literal["min_max", "theoretical", "credited", "z_score", "l2"] = "min_max"
    """Normalisation of a leg's scores; theoretical: min-max, but 0 stays 0 in a leg by words that gave all it found;
    credited: the same up to the credit of the query's words."""
    combination: Literal["sum", "arithmetic", "geometric", "harmonic"] = "sum"
    """Weighted sum, or weighted mean, of a candidate's scores."""

    @model_validator(mode="after")
    def _one_weighting(self) -> Self:
        if self.alpha is not None and self.weights is not None:
            raise ValueError("alpha and weights are both given")
        if self.normaliser == "z_score" and self.combination in {"geometric", "harmonic"}:
            raise ValueError(f"z_score gives negative values, which have no {self.combination} mean")
        return self


class Linear(FusionStage):
    """Absolute similarity: alpha * cosine + (1 - alpha) * BM25 / the greatest BM25 of the pool.

    A candidate that the vector leg didn't return counts that leg's smallest cosine, for it cannot have more.
    """

    name: ClassVar = "linear"
    alpha: Share = Field(default=0.6, description="Weight of the cosine; BM25 gets 1 - alpha.")


class Dbsf(WeighingStage):
    """Distribution-based score fusion: a leg's mean - 3 deviations is 0, mean + 3 deviations is 1; the legs' sum."""

    name: ClassVar = "dbsf"
    weights: LegWeights = Field(default={})
    """Leg -> weight. Default: 1; structured, learned and context legs: 0."""


class OneLeg(FusionStage):
    """The hits of one leg, with their raw scores."""

    @cached_property
    def legs(self) -> Legs:
        return (self.name,)


class VectorLeg(OneLeg):
    """Only the vector leg, by cosine."""

    name: ClassVar = VECTOR


class KeywordLeg(OneLeg):
    """Only the keyword leg, by BM25 score."""

    name: ClassVar = KEYWORD


class Weighted(FusionStage):
    """The five-signal blend: a weighted sum of the signals that can be computed, their weights scaled to sum to 1."""

    name: ClassVar = "weighted"
    unasked: ClassVar[Legs] = (STRUCTURED,)
    keyword_weight: Weight = Field(default=0.30, description="Weight of the BM25 score; 0: the leg is not asked.")
    vector_weight: Weight = Field(default=0.55, description="Weight of the cosine; 0: the leg is not asked.")
    recency_weight: Weight = Field(default=0.10, description="Weight of the age.")
    priority_weight: Weight = Field(default=0.05, description="Weight of the document's priority, P1 to P4.")
    graph_weight: Weight = Field(default=0.0, description="Weight of matching neighbours; 0: edges are not read.")
    half_life_days: Span = Field(default=7.0, description="Days in which recency halves.")
    half_life_cycles: Span = Field(default=50.0, description="Cycles in which it halves, with `current_cycle`.")
    graph_edge_decay: Weight = Field(default=0.5, description="Factor for what a neighbour adds.")
    max_neighbors_per_candidate: int = Field(default=5, ge=0, le=1000, description="Heaviest edges that count.")

    @cached_property
    def legs(self) -> Legs:
        asked = (VECTOR,) * (self.vector_weight > 0) + (KEYWORD,) * (self.keyword_weight > 0)
        return asked or self.unasked

    @property
    def reads(self) -> frozenset[str]:
        fields = {"id", "created_at", "updated_at", "cycle", "priority"}
        return frozenset(fields | {"edges"} if self.graph_weight else fields)


DecayMode = Literal["exponential", "step"]
Unset = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, description="In days; 0: not set in this tier.")]


class DecayTier(Documented):
    """One tier of decay parameters: global, destination, collection or source policy. The most specific tier that sets
    a field wins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool | None = None
    """Turns decay on or off; null in all tiers: a half-life of any tier turns it on."""
    mode: DecayMode | None = Field(default=None, description="Shape of the decay; null in all tiers: exponential.")
    half_life_days: Unset = 0.0
    step_threshold_days: Unset = 0.0


class Decay(DecayTier, FusionStage):
    """Hybrid merge: 0.7 * cosine + 0.3 * weight, which falls with age. Its parameters are the global tier."""

    model_config = RecipeStage.model_config
    name: ClassVar = "decay"
    unasked: ClassVar[Legs] = (STRUCTURED,)
    FIELDS: ClassVar = frozenset({"id", "created_at"})
    neutral: Literal["bound"] | Share = "bound"
    """Cosine of a candidate without one; bound: the vector leg's smallest, .5 where it was not asked."""


FUSION: tuple[type[FusionStage], ...] = (Rrf, Score, Linear, Dbsf, Weighted, Decay, VectorLeg, KeywordLeg)

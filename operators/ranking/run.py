"""One ranking: what is known of the query, and what the stages note beside the candidates."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

from operators.ranking.candidate import Candidate, Leg
from operators.ranking.temporal_expressions import TemporalExpression
from schemas.errors import invalid
from schemas.recipes.fusion import DecayTier
from schemas.recipes.parameters import RecipeStage
from schemas.timestamp import unix_seconds

DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the stages may know of a query.

    `now` in Unix seconds; `cycle` is the caller's own clock, which goes before it in the blend. `decay` are the tiers
    below the recipe's, the least specific first, `decay_half_life` in days where no tier has one; None: no decay.
    `distance`: whether the distance stages run.
    """

    now: float | None = None
    cycle: int | None = None
    text: str | None = None
    temporal_expression: TemporalExpression | None = None
    include_reflections: bool = True
    reflections_only: bool = False
    distance: bool = True
    decay: tuple[DecayTier, ...] = ()
    decay_half_life: float | None = 7.0
    explain: bool = False


Steps = list[dict[str, Any]]


@dataclass(slots=True)
class ScoreExplanation:
    """How one candidate came to its score: its place in each leg, and what each stage did."""

    legs: dict[str, dict[str, Any]] = field(default_factory=dict)
    stages: Steps = field(default_factory=list)


class ScoreExplanations:
    """The candidates' explanations."""

    def __init__(self, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self.by_id: dict[str, ScoreExplanation] = {}
        self._parameters = parameters

    def leg(self, leg: Leg, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Note each id's rank and raw score in the leg, and what became of it there."""
        for id_, (rank, score) in leg.places().items():
            there = {"rank": rank, "score": score, **values.get(id_, {})}
            self.by_id.setdefault(id_, ScoreExplanation()).legs[leg.name] = there

    def step(
        self, stage: RecipeStage, candidate: Candidate, before: float | None, after: float, values: Mapping[str, Any]
    ) -> None:
        """Note what a stage made of a candidate's score, and of which values."""
        self.noted(candidate.id, stage.name, before, after, self._parameters.get(stage.name, {}), values)

    def noted(
        self,
        id_: str,
        name: str,
        before: float | None,
        after: float,
        parameters: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> None:
        """Note a step of whatever has a name and parameters."""
        step = {"stage": name, "input": before, "output": after, "parameters": parameters, "values": values}
        self.by_id.setdefault(id_, ScoreExplanation()).stages.append(step)


@dataclass(slots=True)
class Run:
    """What accumulates while one query's candidates are ranked. `explanations`: only of an explained one."""

    facts: Facts
    explanations: ScoreExplanations | None = None
    reranked: bool = False
    backends: list[str] = field(default_factory=list)
    ahead: set[str] = field(default_factory=set)

    def explain(
        self,
        stage: RecipeStage,
        candidates: Sequence[Candidate],
        before: Iterable[float] | None,
        columns: Mapping[str, Iterable[Any]],
        shared: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Note, where explanations are asked for, what a stage made of each candidate's score; else read nothing.

        `before` and each column have a value for each candidate, in their order; `shared` are values of all of them.
        """
        if self.explanations is None:
            return
        scores = repeat(None, len(candidates)) if before is None else before
        for candidate, score, *values in zip(candidates, scores, *columns.values(), strict=True):
            own = dict(zip(columns, values, strict=True))
            self.explanations.step(stage, candidate, score, candidate.score, {**own, **shared})

    def now(self, stage: RecipeStage) -> float:
        """The query's clock, in Unix seconds. Raises InputError `invalid` where there is none."""
        if self.facts.now is None:
            raise invalid("now", f"missing, and the stage {stage.name} needs it", None)
        return self.facts.now

    def ages(self, candidates: Sequence[Candidate], now: float, *names: str) -> list[float | None]:
        """Days since the first of each payload's stamps that is one, at least 0; None without. The future is noted."""
        found: list[float | None] = []
        for candidate in candidates:
            age = None
            for name in names:
                value = candidate.payload.get(name)
                if value is not None and (moment := stamp(value)) is not None:
                    age = (now - moment) / DAY
                    if age < 0:
                        self.ahead.add(candidate.id)
                        age = 0.0
                    break
            found.append(age)
        return found

    def age(self, candidate: Candidate, now: float, *names: str) -> float | None:
        """The same for one."""
        return self.ages((candidate,), now, *names)[0]

    def warnings(self) -> list[str]:
        """What the answer should say beside its results."""
        if not self.ahead:
            return []
        count = len(self.ahead)
        return [f"{count} candidate{'s' if count > 1 else ''} dated after the query's now: age counted as 0"]


def stamp(value: object) -> float | None:
    """A payload's time in Unix seconds; None for what isn't one."""
    if value is None:
        return None
    try:
        return unix_seconds(value)
    except ValueError:
        return None


def number(value: object, low: float, high: float) -> float | None:
    """A payload's number, at least `low` and at most `high`; None for what isn't a finite number."""
    if type(value) is not float and type(value) is not int:
        return None
    # Integers may be larger than any float; NaN equals nothing.
    return float(min(max(value, low), high)) if value == value and abs(value) != math.inf else None

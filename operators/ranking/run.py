"""One run of a ranking pipeline: the facts of the query, score explanations and warnings."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate, Leg, Payload
from operators.ranking.normalise import Scale
from operators.text.dates import DAY, TemporalExpression
from schemas.errors import invalid
from schemas.fields import unix_seconds
from schemas.pool import ScoreMeasure
from schemas.query import Wish
from schemas.recipes.fusion import DecayTier
from schemas.recipes.stages import RecipeStage


@dataclass(frozen=True, slots=True)
class Matches:
    """Which candidates have which words of a query.

    `fields` has for each word or form, by the id of each candidate that has it, the fields that have it. `atoms` has
    the number of a word's first atom, and how many atoms it covers.
    """

    fields: Mapping[str, Mapping[str, Sequence[str]]]
    atoms: Mapping[str, tuple[int, int]]

    @classmethod
    def of_words(cls, fields: Mapping[str, Mapping[str, Sequence[str]]]) -> Self:
        """The matches of words that stand side by side, each of one atom."""
        return cls(fields, {word: (place, 1) for place, word in enumerate(fields)})


Alike = Mapping[str, Mapping[str, float]]
"""Id of a candidate -> id of one behind it -> the similarity of their terms."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of documents as they were sent: their languages, and the name that a field has in them."""

    languages: frozenset[str] = frozenset()
    own_name: Callable[[str], str] = str


INDEX_WORDING: Final = Wording()
"""The names of the index, in no language that is known."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a query that stages read.

    `now` is in Unix seconds; `cycle` is the caller's own clock, which the blend prefers. `matches` is None where
    nothing is known of the candidates' words. `alike` is what a recorded pool says of candidates' similarities. `decay`
    are the tiers below the recipe's, the least specific first; `decay_half_life` is the default in days, None if the
    profile has no decay. `understood` are the query's wishes; `visible` leaves out the fields of a payload that the
    query may not see.
    """

    now: float | None = None
    cycle: int | None = None
    text: str | None = None
    temporal_expression: TemporalExpression | None = None
    matches: Matches | None = None
    alike: Alike | None = None
    include_reflections: bool = True
    reflections_only: bool = False
    decay: tuple[DecayTier, ...] = ()
    decay_half_life: float | None = 7.0
    explain: bool = False
    understood: tuple[Wish, ...] = ()
    visible: Callable[[Payload], Payload] = dict
    wording: Wording = INDEX_WORDING


class ModelScores(NamedTuple):
    """A model's scores of the first `top` candidates: point id -> relevance, higher is better.

    A candidate of these without a score is irrelevant to the model, unless it is `unscored`: the model was not asked.
    `selects`: the model only said which is the best. `measure`: what a score is; `similarity`: late
    interaction's; `order`: it says only who is better. `model` is its name.
    """

    scores: Mapping[str, float]
    top: int
    selects: bool = False
    unscored: frozenset[str] = frozenset()
    measure: ScoreMeasure = "share"
    model: str = ""


class QueryUnit(NamedTuple):
    """A part of a query, named `text`: an atom, or several that stand together as a word or form.

    `fields` has, by the id of each candidate that has it, the fields that do; `rarity` is 1 where one of them has it.
    """

    text: str
    first: int
    atoms: int
    fields: Mapping[str, Sequence[str]]
    rarity: float


class QueryWords(NamedTuple):
    """The words of a query among its candidates: its units, the credit of its words, and the share that is misspelt.

    The credit, from 0 to 1, is how much the words count; misspelt are words that were read for near ones.
    """

    units: Sequence[QueryUnit]
    credit: float
    misspelt: float


NO_WORDS: Final = QueryWords((), 1.0, 0.0)
"""Nothing is known of the query's words."""


class Evidence(NamedTuple):
    """The evidence of a query's words, worked out once: the sum for each candidate that has one of its units.

    Of the units that a candidate has, in their order, `information` has one value each, and `support` a row with a
    column for each candidate of `sums`.
    """

    sums: Mapping[str, float]
    information: NDArray[np.float64]
    support: NDArray[np.float64]


Steps = list[dict[str, Any]]


@dataclass(slots=True)
class ScoreExplanation:
    """The explanation of one candidate's score: its rank and score in each leg, and the step of each stage."""

    legs: dict[str, dict[str, Any]] = field(default_factory=dict)
    stages: Steps = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScoreExplanations:
    """The candidates' explanations, and for each dropped one the stage that dropped it, and the ids before that.

    `parameters` are those of each stage, by its name.
    """

    parameters: Mapping[str, Mapping[str, Any]]
    by_id: dict[str, ScoreExplanation] = field(default_factory=dict)
    dropped: dict[str, tuple[RecipeStage, Sequence[str]]] = field(default_factory=dict)

    def note_legs(
        self,
        legs: Sequence[Leg],
        candidates: Sequence[Candidate] = (),
        columns: Mapping[str, Sequence[float]] = MappingProxyType({}),
        weights: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Note the legs' hits, with the normalised scores and weights of the candidates by leg; 0 in other legs."""
        nothing = [0.0] * len(candidates)
        for leg in legs:
            column = columns.get(leg.name, nothing)
            by_id = {candidate.id: value for candidate, value in zip(candidates, column, strict=True)}
            self.note_leg(leg, by_id, weights.get(leg.name, 0.0))

    def note_leg(self, leg: Leg, normalised: Mapping[str, float], weight: float) -> None:
        """Note each id's rank and raw score in the leg, and its normalised score, where it has one, with the weight."""
        for id_, (rank, score) in leg.ranks().items():
            there: dict[str, Any] = {"rank": rank, "score": score}
            if id_ in normalised:
                value = normalised[id_]
                there |= {"normalised": value, "weight": weight, "contribution": weight * value}
            self.by_id.setdefault(id_, ScoreExplanation()).legs[leg.name] = there

    def note_dropped(self, stage: RecipeStage, before: Sequence[str], candidates: Iterable[Candidate]) -> None:
        """Note the ids that are not there behind a stage."""
        self.dropped.update(dict.fromkeys(set(before).difference(each.id for each in candidates), (stage, before)))


@dataclass(slots=True)
class Run:
    """The state of one query's ranking. `explanations` is None unless they are asked for.

    `model` is None where no model was asked, or its scores were lost; `vectors` are the dense ones of the candidates
    that are compared with each other, by point id, as far as they were read. `words` are those of the query, `evidence`
    is theirs, once it is known; `alike` has the similarities of the candidates whose terms a stage compared.
    `reranked`: a model judged candidates, or a stage of the distance pipeline ran. `aged`: a stage read how old
    candidates are. `off_scale`: an importance was outside its scale. `backends` are those other than the legs.
    `understood` are the wishes as they were judged; None before.
    """

    facts: Facts
    explanations: ScoreExplanations | None = None
    words: QueryWords = NO_WORDS
    model: ModelScores | None = None
    vectors: Mapping[str, NDArray[np.float16]] = field(default_factory=dict)
    evidence: Evidence | None = None
    alike: Alike = field(default_factory=dict)
    reranked: bool = False
    aged: bool = False
    off_scale: bool = False
    backends: list[str] = field(default_factory=list)
    ahead: set[str] = field(default_factory=set)
    understood: tuple[Wish, ...] | None = None

    def rescore(
        self,
        stage: RecipeStage,
        candidates: Sequence[Candidate],
        scores: Sequence[float],
        columns: Mapping[str, Iterable[Any]] = MappingProxyType({}),
        shared: Mapping[str, Any] = MappingProxyType({}),
        *,
        first: bool = False,
    ) -> Sequence[Candidate]:
        """Give each candidate the score that a stage has for it, and explain it by the values behind it.

        `scores` and each column have one value for each candidate, in their order; `shared` holds for all. Before the
        `first` stage there is no score. Without explanations no column is read. Returns the candidates.
        """
        if self.explanations is not None:
            by_id, parameters = self.explanations.by_id, self.explanations.parameters.get(stage.name, {})
            same = {name: each._asdict() if isinstance(each, Scale) else each for name, each in shared.items()}
            rows = zip(*columns.values(), strict=True) if columns else repeat((), len(candidates))
            for candidate, score, row in zip(candidates, scores, rows, strict=True):
                change = {"stage": stage.name, "input": None if first else candidate.score, "output": score}
                step = {**change, "parameters": parameters, "values": {**dict(zip(columns, row, strict=True)), **same}}
                by_id.setdefault(candidate.id, ScoreExplanation()).stages.append(step)
        for candidate, score in zip(candidates, scores, strict=True):
            candidate.score = score
        return candidates

    def now(self, stage: RecipeStage) -> float:
        """The query's clock, in Unix seconds. Raises InputError `invalid` where there is none."""
        if self.facts.now is None:
            raise invalid("now", f"required by the stage {stage.name}", None)
        return self.facts.now

    def ages(self, candidates: Sequence[Candidate], now: float, *names: str, ahead: bool = False) -> list[float | None]:
        """Each candidate's age in days by the first of the named stamps that is a time; None without one.

        The age of a stamp after `now` is 0, and is counted for the warnings; with `ahead` it is negative.
        """
        self.aged = True
        found: list[float | None] = []
        for candidate in candidates:
            age = None
            for name in names:
                value = candidate.payload.get(name)
                if value is not None and (moment := stamp(value)) is not None:
                    age = (now - moment) / DAY
                    if age < 0 and not ahead:
                        self.ahead.add(candidate.id)
                        age = 0.0
                    break
            found.append(age)
        return found

    def age(self, candidate: Candidate, now: float, *names: str) -> float | None:
        """The age of one candidate, as by `ages`."""
        return self.ages((candidate,), now, *names)[0]

    def warnings(self) -> list[str]:
        """The warnings of the result."""
        if not self.ahead:
            return []
        count = len(self.ahead)
        return [f"{count} candidate{'s' if count > 1 else ''} dated after the query's now: age counted as 0"]


def stamp(value: object) -> float | None:
    """A payload's time in Unix seconds; None for any other value."""
    if value is None:
        return None
    try:
        return unix_seconds(value)
    except ValueError:
        return None


def number(value: object, low: float, high: float) -> float | None:
    """A payload's finite number, moved into `low` to `high`; None for any other value."""
    if type(value) is not float and type(value) is not int:
        return None
    # Integers may be larger than any float; NaN equals nothing.
    return float(min(max(value, low), high)) if value == value and abs(value) != math.inf else None

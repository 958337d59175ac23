"""Outcomes: a query's ranked candidates become results, one for each group, the same in the flow and offline."""

import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

from operators.query.collection import ORDERED
from operators.query.cursor import After, result_digests
from operators.query.plan import RankingPlan
from operators.query.returned import Around
from operators.query.ruling import Ruling
from operators.query.search import Counts
from operators.ranking.candidate import Candidate, Leg, Payload
from operators.ranking.coverage import Relevance
from operators.ranking.distance import pick
from operators.ranking.grouping import CandidateGroup, Grouping, group
from operators.ranking.pipeline import Ranked, Vectors, second_phase
from operators.ranking.run import Facts, Matches, ModelScores, Run, Steps, stamp
from operators.text.passages import Hint
from schemas.errors import Reason
from schemas.filters import value_at
from schemas.query import OrderBy
from schemas.recipes.stages import LlmRerank
from schemas.result import PINNED, VECTOR, LegStatus


def sort_candidates(candidates: Sequence[Candidate], order_by: OrderBy) -> list[Candidate]:
    """The candidates by the values of a field: numbers, times as Unix seconds, or metres from points to another.

    Of several values the first in the order counts. Candidates of one value stay in the order of their ranks; those
    without a value come last.
    """
    descending = order_by.direction == "desc"
    first = max if descending else min
    values = [(first(_values(each.payload, order_by), default=None), each) for each in candidates]
    # Stable in reverse, too.
    valued = sorted((each for each in values if each[0] is not None), key=itemgetter(0), reverse=descending)
    return [each for _, each in valued] + [each for value, each in values if value is None]


def own_time(payload: Payload, order_by: OrderBy | None) -> int | float | None:
    """The index's own time of a candidate in ms, by which it is ordered; None without one, and in another order."""
    own = payload.get(ORDERED[order_by.field]) if order_by is not None and order_by.field in ORDERED else None
    return own if isinstance(own, int | float) else None


def _values(payload: Payload, order_by: OrderBy) -> list[int | float]:
    if order_by.geo_distance is not None:
        return [*order_by.geo_distance.of(payload)]
    own, name = own_time(payload, order_by), order_by.field
    if own is not None:
        return [own / 1000]
    value: Any = payload.get(name)
    if value is None:
        value = value_at(payload, name)
    values = map(_order_value, value if isinstance(value, list) else [value])
    return [each for each in values if each is not None]


def _order_value(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        # A time that says no offset is in UTC, and a date is its first moment.
        moments = (stamp(f"{value}{rest}") for rest in ("", "Z", "T00:00:00Z"))
        return next((moment for moment in moments if moment is not None), None)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def is_given(candidate: Candidate, given: Set[bytes]) -> bool:
    """True if a result was given that is this candidate: by its own id, or by the point's, as where texts are lost."""
    return not given.isdisjoint(result_digests(candidate.document, candidate.id))


@dataclass(frozen=True)
class Results:
    """The candidates as they are `ranked`, and what makes results of them; the same value gives the same results.

    `given` has digests of results of earlier pages, `gone` the ids of documents that are not there any more. `picked`
    are the results after a chat model's pick. By the `ruling` documents are pinned and buried, the last step.
    """

    ranked: Sequence[Candidate] = ()
    grouping: Grouping | None = None
    order_by: OrderBy | None = None
    given: Set[bytes] = frozenset()
    gone: Set[str] = frozenset()
    picked: Sequence[Candidate] = ()
    ruling: Ruling | None = None

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """The candidates that are results, in their order."""
        if self.picked:
            return self.picked if self.ruling is None else self.ruling.arrange(self.picked)
        best, before = self._grouped[0], self._before if self.given else ()
        if self.order_by is not None:
            best = sort_candidates(best, self.order_by)
        if self.ruling is not None:
            best = self.ruling.arrange(best)
        return sorted(best, key=lambda each: each.id not in before) if before else best

    @property
    def groups(self) -> Mapping[str, CandidateGroup]:
        """The group that a candidate stands for, by its id; none unless candidates are grouped."""
        return self._grouped[1]

    @property
    def passed(self) -> int:
        """The number of first candidates that are on earlier pages."""
        return sum(each.id in self._before for each in self.candidates)

    def first(self, count: int) -> list[Candidate]:
        """The first candidates, and behind them those that are returned within their groups."""
        first = list(self.candidates[:count])
        return first + [each for best in first for each in self.further(best)] if self.grouping is not None else first

    def further(self, candidate: Candidate) -> Sequence[Candidate]:
        """The candidates that are returned within a candidate's group."""
        return self.groups[candidate.id].candidates[1 : self.grouping.size] if self.grouping is not None else ()

    def lacks(self, given: Collection[bytes]) -> bool:
        """True if one of the results that were given is no candidate any more."""
        known = frozenset(given)
        return sum(is_given(each, known) for each in self.ranked) < len(known)

    def explain(self, id_: str, stages: Steps) -> Steps:
        """The steps of a candidate's score with the one of its group, which goes before a chat model's pick."""
        of = self.groups.get(id_)
        if of is None or self.grouping is None:
            return stages
        name, _, score = self.grouping
        values: dict[str, Any] = {"key": of.key, "count": len(of.candidates)}
        if score != "max":
            values["scores"] = [each.score for each in of.candidates]
        scores = {"input": of.candidates[0].score, "output": of.best(score).score}
        parameters = {"group_by": name, "group_score": score}
        at = len(stages) - any(each["stage"] == LlmRerank.name for each in stages)
        return [*stages[:at], {"stage": "group", **scores, "parameters": parameters, "values": values}, *stages[at:]]

    @cached_property
    def _grouped(self) -> tuple[Sequence[Candidate], Mapping[str, CandidateGroup]]:
        there = [each for each in self.ranked if each.id not in self.gone] if self.gone else self.ranked
        return group(there, self.grouping) if self.grouping is not None else (there, {})

    @cached_property
    def _before(self) -> Set[str]:
        """The ids of all candidates of the groups on earlier pages: a group is the same one, whichever is its best."""
        ranked, grouping = self.ranked, self.grouping
        of = [each.candidates for each in group(ranked, grouping)[1].values()] if grouping else zip(ranked)
        return {one.id for each in of if any(is_given(one, self.given) for one in each) for one in each}


class Counted(NamedTuple):
    """The outcome of the leg that counts facets; without counts it was lost, and `reason` says why."""

    status: LegStatus
    reason: Reason | None = None
    counts: Counts | None = None


@dataclass(slots=True)
class Outcome:
    """The outcome of a query, from which its result is written.

    `counted` is there if facets were asked for. `ranked`: the legs' candidates are, by `run`. `matches` says which
    candidates have which words of the query, None where that isn't known. `vectors` are the dense ones of the
    candidates that are compared with each other, `payloads` those of the fetched ones, `neighbours` those of the
    results that have some. `hints` says where texts without the query's words say what it asks. `degraded` lists the
    stages that were lost, and why; `removed` the documents that the post-filter check took out. `more`: an ordered
    lookup has a further page.
    """

    legs: dict[str, Leg] = field(default_factory=dict)
    counted: Counted | None = None
    ranked: bool = False
    run: Run = field(default_factory=partial(Run, Facts()))
    results: Results = field(default_factory=Results)
    matches: Matches | None = None
    rerank_scores: ModelScores | None = None
    vectors: Vectors = field(default_factory=dict)
    payloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    neighbours: dict[str, Around] = field(default_factory=dict)
    hints: dict[str, Sequence[Hint]] = field(default_factory=dict)
    relevance: Relevance | None = None
    degraded: list[tuple[str, Reason]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    more: bool = False
    expired: bool = False
    failed: bool = False

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The candidates that are results, best first, as far as the query is ranked."""
        return self.results.candidates

    def rank(self, ranked: Ranked) -> None:
        """Take over the order that the first phase of the ranking gave."""
        self.ranked = True
        self.results, self.run = Results(ranked.candidates), ranked.run

    def finish(
        self,
        plan: RankingPlan,
        order_by: OrderBy | None,
        given: Set[bytes] = frozenset(),
        ruling: Ruling | None = None,
    ) -> None:
        """Rank the candidates to the end; those that fit the query less than the plan wants are no results."""
        ranked, _ = second_phase(plan.recipe, Ranked([*self.candidates], self.run), self.rerank_scores, self.vectors)
        found, least, count = Relevance(self.legs.get(VECTOR), self.run), plan.min_relevance, len(ranked)
        # A relevance is no less than 0.
        if least > 0:
            ranked = [each for each in ranked if (fit := found.of(each.id)) is None or fit >= least]
        self.relevance = found
        if ruling is not None:
            ranked = ruling.rank(ranked, self.legs.get(PINNED), self.run)
        if count and not ranked:
            self.warnings.append(f"no results: min_relevance leaves none of {count} candidates ({least:g})")
        self.results = Results(ranked, plan.grouping, order_by, given, self.results.gone, ruling=ruling)

    def pick(self, stage: LlmRerank) -> None:
        """Put the candidate first that the chat model selected of those that it read."""
        if (model := self.rerank_scores) is not None:
            self.results = replace(self.results, picked=pick(self.candidates, model, stage, self.run))


@dataclass(frozen=True, slots=True)
class Answer:
    """A result event without the fields that are one query's own; other queries may be given it.

    `now` is the query's clock in Unix seconds. Of an ordered lookup, `ends` has for each result the position of a page
    that ends with it, and `end` the position of the whole page's end. `records` has the fields by which the firewall
    judges each document of an event that is to be cached: results may not have them.
    """

    event: Mapping[str, Any]
    now: float
    ends: Sequence[After] = ()
    end: After | None = None
    records: Sequence[Mapping[str, Any]] = ()

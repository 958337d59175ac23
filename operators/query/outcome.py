"""The outcome of a query, the same in the flow and offline; and answers, which other queries may be given."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from operators.query.backend_answers import RerankScores
from operators.query.cursor import After, result_digest
from operators.query.paging import sort_candidates
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.distance import pick
from operators.ranking.grouping import Group, Grouping, group
from operators.ranking.pipeline import Ranked, Vectors, second_phase
from operators.ranking.relevance import Relevance
from operators.ranking.run import Matches, ModelScores, ScoreExplanations
from operators.text.passages import Hint
from schemas.errors import Reason
from schemas.filters import OrderBy
from schemas.recipes import Recipe
from schemas.recipes.stages import LlmRerank
from schemas.result import VECTOR, RetrievalStage
from schemas.wishes import Wish

Around = tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""The payloads of a document's neighbours: of those before it, and of those behind it, each in their order."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page's cursors.

    `now` is the query's clock in Unix seconds. Of an ordered lookup, `ends` has for each result the position of a page
    that ends with it, and `end` the position of the whole page's end.
    """

    now: float
    ends: Sequence[After] = ()
    end: After | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A result event without the fields that are one query's own.

    `records` has the fields by which the firewall judges each document in it: results may not have them.
    """

    event: Mapping[str, Any]
    page: Page
    records: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer that was computed for another query, and the cache that had it; `asked` is the text of that query."""

    stage: RetrievalStage
    answer: Answer
    asked: str | None

    @property
    def served(self) -> Answer:
        """The answer as it is served now."""
        event = {**self.answer.event, "retrieval_stage": self.stage}
        if self.stage is RetrievalStage.SEMANTIC_CACHE:
            event["provenance"] = {**event["provenance"], "asked": self.asked}
        return replace(self.answer, event=event)


def is_given(candidate: Candidate, given: Set[bytes]) -> bool:
    """True if a result was given that is this candidate: by its own id, or by the point's, as where texts are lost."""
    return not given.isdisjoint({result_digest(candidate.document), result_digest(candidate.id)})


@dataclass(slots=True)
class Outcome:
    """The outcome of a query, from which its result is written.

    `matches` says which candidates have which words of the query, None where that isn't known. `vectors` are the dense
    ones of the candidates that are compared with each other, `payloads` those of the fetched ones, `neighbours` those
    of the results that have some. `hints` says where texts without the query's words say what it asks. `relevance`
    says how well each candidate fits, if that is known. `degraded` lists the stages that were lost, and why; `removed`
    the documents that the post-filter check took out. `gone`: some of the first candidates were not there any more.
    `more`: an ordered lookup has a further page. `groups`: the group that a candidate stands for, by its id, once
    candidates are grouped; `ungrouped` are all of them, as they were ranked. `order_by`: the order that the query
    asked for and has. `given`: the number of first candidates that are on earlier pages.
    """

    legs: dict[str, Leg] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    ranked: Ranked | None = None
    matches: Matches | None = None
    rerank_scores: RerankScores | None = None
    vectors: Vectors = field(default_factory=dict)
    payloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    neighbours: dict[str, Around] = field(default_factory=dict)
    hints: dict[str, Sequence[Hint]] = field(default_factory=dict)
    relevance: Relevance | None = None
    grouping: Grouping | None = None
    ungrouped: Sequence[Candidate] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    order_by: OrderBy | None = None
    given: int = 0
    degraded: list[tuple[str, Reason]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    gone: bool = False
    more: bool = False
    expired: bool = False
    failed: bool = False

    def rank(self, ranked: Ranked) -> None:
        """Take over the order that a phase of the ranking gave."""
        self.ranked = ranked
        self.candidates = ranked.candidates

    def rerank(self, recipe: Recipe) -> None:
        """Run the ranking's second phase, with the reranker's scores and the first candidates' vectors, if any."""
        if self.ranked is None:
            return
        said = self.rerank_scores
        model = ModelScores(*said[1:]) if said is not None else None
        self.rank(second_phase(recipe, Ranked(self.candidates, self.ranked.run), model, self.vectors))

    def judge(self, least: float) -> None:
        """Drop the candidates that fit the query less than that; results say how well they fit."""
        if self.ranked is None:
            return
        found = self.relevance = Relevance(self.legs.get(VECTOR), self.ranked.run)
        # A relevance is no less than 0.
        if least > 0:
            kept = ((each, found.of(each.id)) for each in self.candidates)
            self.candidates = [each for each, fit in kept if fit is None or fit >= least]

    def group(self, grouping: Grouping | None) -> None:
        """Let the best candidate of each group stand for it; None: each stands for itself."""
        if grouping is None:
            return
        self.grouping, self.ungrouped = grouping, self.candidates
        self.candidates, self.groups = group(self.ungrouped, grouping)
        if self.explanations is None:
            return
        parameters = {"group_by": grouping.field, "group_score": grouping.score}
        for best in self.candidates:
            of = self.groups[best.id]
            values: dict[str, Any] = {"key": of.key, "count": len(of.candidates)}
            if grouping.score != "max":
                values["scores"] = [each.score for each in of.candidates]
            self.explanations.note_step(best.id, "group", of.candidates[0].score, best.score, parameters, values)

    def drop(self, ids: Set[str]) -> None:
        """Drop candidates that are not there any more: groups are those of the others, in the order of these."""
        self.gone = True
        if self.grouping is None:
            self.candidates = [candidate for candidate in self.candidates if candidate.id not in ids]
            return
        if self.explanations is not None:
            for best in self.candidates:
                self.explanations.by_id[best.id].stages.pop()
        given = {each.id for best in self.candidates[: self.given] for each in self.groups[best.id].candidates}
        self.candidates = [candidate for candidate in self.ungrouped if candidate.id not in ids]
        self.group(self.grouping)
        self.order(self.order_by)
        # A group that was given stays before the page, whichever document is the best of it now.
        self.candidates.sort(key=lambda best: self.groups[best.id].candidates[0].id not in given)

    def first(self, count: int) -> list[Candidate]:
        """The first candidates, and behind them those that are returned within their groups."""
        first = self.candidates[:count]
        return first + [each for candidate in first for each in self.further(candidate)]

    def further(self, candidate: Candidate) -> Sequence[Candidate]:
        """The candidates that are returned within a candidate's group."""
        return self.groups[candidate.id].further(self.grouping.size) if self.grouping is not None else ()

    def order(self, order_by: OrderBy | None) -> None:
        """Put the candidates in the order that the query asks for, if it does."""
        self.order_by = order_by
        if order_by is not None:
            self.candidates = sort_candidates(self.candidates, order_by)

    def lacks(self, given: Collection[bytes]) -> bool:
        """True if one of the results that were given is no candidate any more."""
        known = frozenset(given)
        among = self.candidates if self.grouping is None else self.ungrouped
        return sum(is_given(each, known) for each in among) < len(known)

    def put_first(self, given: Set[bytes]) -> int:
        """Put those candidates first that were given before, and count them."""
        before: list[Candidate] = []
        others: list[Candidate] = []
        for each in self.candidates:
            # A group that was given is the same one, whichever document is the best of it now.
            of = self.groups[each.id].candidates if self.grouping is not None else (each,)
            (before if any(is_given(one, given) for one in of) else others).append(each)
        self.candidates = before + others
        self.given = len(before)
        return self.given

    def pick(self, stage: LlmRerank) -> None:
        """Put the candidate first that the chat model selected of those that it read."""
        said = self.rerank_scores
        if self.ranked is None or said is None:
            return
        model = ModelScores(said.scores, said.read, selects=True, unscored=said.unscored)
        self.candidates = pick(self.candidates, model, stage, self.ranked.run)

    @property
    def explanations(self) -> ScoreExplanations | None:
        """The explanations of the candidates' scores, if these are asked for."""
        return self.ranked.run.explanations if self.ranked is not None else None

    @property
    def understood(self) -> Sequence[Wish] | None:
        """The query's wishes with the fields that decided; None where none were judged."""
        return self.ranked.run.understood if self.ranked is not None else None

    @property
    def reranked(self) -> bool:
        """True if a model or a distance stage changed a score."""
        return self.ranked is not None and self.ranked.run.reranked

    @property
    def aged(self) -> bool:
        """True if a stage of the ranking read how old candidates are."""
        return self.ranked is not None and self.ranked.run.aged

    @property
    def off_scale(self) -> bool:
        """True if an importance was outside its scale."""
        return self.ranked is not None and self.ranked.run.off_scale

    @property
    def backends(self) -> Sequence[str]:
        """The backends other than the legs that had a part in the ranking."""
        return self.ranked.run.backends if self.ranked is not None else ()

    @property
    def ranking_warnings(self) -> Sequence[str]:
        """The warnings of the ranking."""
        return self.ranked.run.warnings() if self.ranked is not None else ()

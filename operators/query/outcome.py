"""The outcome of a query, the same in the flow and offline; and answers, which other queries may be given."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from operators.query.backend_answers import RerankScores
from operators.query.cursor import After
from operators.query.plan import RankingPlan
from operators.query.results import Results
from operators.query.returned import Around
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.coverage import Relevance
from operators.ranking.distance import pick
from operators.ranking.pipeline import Ranked, Vectors, second_phase
from operators.ranking.run import Facts, Matches, ModelScores, Run
from operators.text.passages import Hint
from schemas.errors import Reason
from schemas.filters import OrderBy
from schemas.recipes.stages import LlmRerank
from schemas.result import VECTOR, RetrievalStage


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


@dataclass(slots=True)
class Outcome:
    """The outcome of a query, from which its result is written.

    `ranked`: the legs' candidates are, by `run`. `matches` says which candidates have which words of the query, None
    where that isn't known. `vectors` are the dense ones of the candidates that are compared with each other, `payloads`
    those of the fetched ones, `neighbours` those of the results that have some. `hints` says where texts without the
    query's words say what it asks. `relevance` says how well each candidate fits, if that is known. `degraded` lists
    the stages that were lost, and why; `removed` the documents that the post-filter check took out. `more`: an ordered
    lookup has a further page.
    """

    legs: dict[str, Leg] = field(default_factory=dict)
    ranked: bool = False
    run: Run = field(default_factory=lambda: Run(Facts()))
    results: Results = field(default_factory=Results)
    matches: Matches | None = None
    rerank_scores: RerankScores | None = None
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

    def finish(self, plan: RankingPlan, order_by: OrderBy | None, given: Set[bytes] = frozenset()) -> None:
        """Rank the candidates to the end, with the reranker's scores and the first candidates' vectors, if any; those
        that fit the query less than the plan wants are no results.
        """
        said = self.rerank_scores
        model = ModelScores(*said[1:]) if said is not None else None
        ranked, _ = second_phase(plan.recipe, Ranked([*self.candidates], self.run), model, self.vectors)
        found, least = Relevance(self.legs.get(VECTOR), self.run), plan.min_relevance
        # A relevance is no less than 0.
        if least > 0:
            ranked = [each for each in ranked if (fit := found.of(each.id)) is None or fit >= least]
        self.relevance = found
        self.results = Results(ranked, plan.grouping, order_by, given, self.results.gone)

    def pick(self, stage: LlmRerank) -> None:
        """Put the candidate first that the chat model selected of those that it read."""
        if (said := self.rerank_scores) is not None:
            model = ModelScores(said.scores, said.read, selects=True, unscored=said.unscored)
            self.results = replace(self.results, picked=pick(self.candidates, model, stage, self.run))

"""The outcome of a query: what was found, how it was ranked, and what was lost. The same in the flow and offline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operators.query.rerank_scores import RerankScores
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.pipeline import Ranked
from operators.ranking.run import ScoreExplanations
from schemas.errors import Reason


@dataclass(slots=True)
class Outcome:
    """What a query's result is written from.

    `payloads` are those of the fetched candidates. `degraded` lists the stages that were lost, and why; `removed` the
    documents that the post-filter check took out. `more`: an ordered lookup has a further page.
    """

    legs: dict[str, Leg] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    ranked: Ranked | None = None
    rerank_scores: RerankScores | None = None
    payloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    degraded: list[tuple[str, Reason]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    more: bool = False
    expired: bool = False
    failed: bool = False
    reranked: bool = False

    def rank(self, ranked: Ranked) -> None:
        """Take over what the recipe made of the legs."""
        self.ranked = ranked
        self.candidates = ranked.candidates
        self.reranked = ranked.reranked
        self.warnings += ranked.warnings

    @property
    def explanations(self) -> ScoreExplanations | None:
        """How each candidate came to its score, if that is to be explained."""
        return self.ranked.explanations if self.ranked is not None else None

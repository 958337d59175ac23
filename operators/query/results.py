"""Results: a query's ranked candidates become results, by all that decides which are, and in which order.

One result stands for each group, in the order that the query asks for; those come first that earlier pages gave. The
same value gives the same results: where documents turn out to be gone, it is made again without them.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from operators.query.cursor import result_digest
from operators.query.paging import sort_candidates
from operators.ranking.candidate import Candidate
from operators.ranking.grouping import Group, Grouping, group
from operators.ranking.run import Steps
from schemas.filters import OrderBy
from schemas.recipes.stages import LlmRerank


def is_given(candidate: Candidate, given: Set[bytes]) -> bool:
    """True if a result was given that is this candidate: by its own id, or by the point's, as where texts are lost."""
    return not given.isdisjoint({result_digest(candidate.document), result_digest(candidate.id)})


@dataclass(frozen=True)
class Results:
    """The candidates as they are `ranked`, and what makes results of them.

    `given` has digests of results of earlier pages, `gone` the ids of documents that are not there any more. `picked`
    are the results after a chat model's pick, the last step.
    """

    ranked: Sequence[Candidate] = ()
    grouping: Grouping | None = None
    order_by: OrderBy | None = None
    given: Set[bytes] = frozenset()
    gone: Set[str] = frozenset()
    picked: Sequence[Candidate] = ()

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """The candidates that are results, in their order."""
        if self.picked:
            return self.picked
        best, before = self._grouped[0], self._before
        if self.order_by is not None:
            best = sort_candidates(best, self.order_by)
        return sorted(best, key=lambda each: each.id not in before) if before else best

    @property
    def groups(self) -> Mapping[str, Group]:
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
        return self.groups[candidate.id].further(self.grouping.size) if self.grouping is not None else ()

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
    def _grouped(self) -> tuple[Sequence[Candidate], Mapping[str, Group]]:
        there = [each for each in self.ranked if each.id not in self.gone] if self.gone else self.ranked
        return group(there, self.grouping) if self.grouping is not None else (there, {})

    @cached_property
    def _before(self) -> Set[str]:
        """The ids of all candidates of the groups on earlier pages: a group is the same one, whichever is its best."""
        if not self.given:
            return frozenset()
        ranked, grouping = self.ranked, self.grouping
        of = [each.candidates for each in group(ranked, grouping)[1].values()] if grouping else zip(ranked)
        return {one.id for each in of if any(is_given(one, self.given) for one in each) for one in each}

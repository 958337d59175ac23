"""The batching policy of rerankers: the candidates of many queries in calls of bounded size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from operators.clients.rerankers import Capacity, RerankRequest
from operators.query.backend_answers import PartialScores, Scores, SomeScores, refused_of
from operators.runtime.batching.policy import BatchingPolicy, Waiting
from schemas.errors import BackendError

FRAME: Final = 16
"""Code points of a model's context for its special tokens, apart from a query and a document."""


LEAST: Final = 2
"""Fewest candidates that are worth reranking: a single one keeps its rank."""


@dataclass(frozen=True)
class Candidates(BatchingPolicy[RerankRequest, Scores]):
    """The batching policy of rerankers: a call is filled to its capacity, with slices of queries if need be.

    A document costs its own length of `Capacity.chars` and, where a call carries pairs of many queries, its query's and
    the frame's; else these two count once. The first document goes in at any cost: the stage has truncated it to
    `room`. Where time is short, the first candidates of a query are reranked without the others, unless they are
    compared, or the policy does not shorten.
    """

    capacity: Capacity
    shortens: bool = True

    @cached_property
    def divides(self) -> bool:
        return not self.capacity.whole

    @cached_property
    def least(self) -> int | None:
        return LEAST if self.shortens and not self.capacity.compared else None

    def tenant(self, query: RerankRequest) -> str:
        return query.namespace

    def units(self, query: RerankRequest) -> int:
        return len(query.documents)

    def select(self, waiting: Iterable[Waiting[RerankRequest]]) -> Sequence[int]:
        most = self.capacity
        counts: list[int] = []
        queries = taken = chars = 0
        apart: str | None = None
        for each in waiting:
            request = each.query
            if most.apart is not None:
                if apart is None:
                    apart = self._apart(request)
                elif apart != self._apart(request):
                    counts.append(0)
                    continue
            left = each.stop - each.taken
            if most.whole:
                count = left if not taken or taken + left <= most.documents else 0
            else:
                count, cost = self._fitting(each, min(left, most.documents - taken), chars, first=not taken)
                chars += cost
            counts.append(count)
            taken += count
            queries += 1
            if count < left or queries >= most.queries or taken >= most.documents:
                break
        return counts

    def part(self, query: RerankRequest, start: int, stop: int) -> RerankRequest:
        return replace(query, documents=dict(islice(query.documents.items(), start, stop)))

    def combine(self, query: RerankRequest, outcomes: Sequence[Scores]) -> Scores:
        scores = dict(query.known)
        refused: frozenset[str] = frozenset()
        for outcome in outcomes:
            scores.update(outcome)
            refused |= refused_of(outcome)
        return SomeScores(scores, refused) if refused else scores

    def partial(
        self, query: RerankRequest, units: int, outcomes: Sequence[Scores], lost: BackendError
    ) -> PartialScores | None:
        scores = self.combine(query, outcomes)
        unread = next(islice(query.documents, units, None))
        return PartialScores(scores, unread, lost, refused_of(scores)) if scores else None

    def _apart(self, request: RerankRequest) -> str:
        return request.namespace if self.capacity.apart == "namespace" else request.collection

    def _fitting(self, waiting: Waiting[RerankRequest], most: int, chars: int, *, first: bool) -> tuple[int, int]:
        if not self.capacity.chars:
            return most, 0
        frame = len(waiting.query.query) + FRAME
        pairs = self.capacity.queries > 1
        count, cost = 0, 0 if pairs else frame
        for text in islice(waiting.query.documents.values(), waiting.taken, waiting.taken + most):
            own = len(text) + (frame if pairs else 0)
            if chars + cost + own > self.capacity.chars and not (first and not count):
                break
            count += 1
            cost += own
        return count, cost if count else 0


def room(query: str, max_chars: int, max_doc_chars: int) -> int | None:
    """Code points of each document that can be sent with `query`, so that any document fits into a call by itself.

    Each bound is off at 0; None: all of them. 0 or less: the query leaves no room.
    """
    bounds = [max_doc_chars] if max_doc_chars else []
    if max_chars:
        bounds.append(max_chars - len(query) - FRAME)
    return min(bounds, default=None)

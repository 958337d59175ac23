"""Searches that go apart: those that must have something counted first, lest the others of a batch wait for it."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from operators.query.in_flight import Found
from operators.query.search_bodies import Search, Unfinished
from operators.runtime.batching.policy import Waiting, Whole


@dataclass(frozen=True, slots=True)
class Apart:
    """A search that must have something counted first, for a namespace."""

    search: Search | Unfinished
    namespace: str


class Apartness(Whole[Search | Apart, Found]):
    """As many searches a call as go together; of those that go apart one, the namespaces by their shares."""

    def tenant(self, query: Search | Apart) -> Hashable:
        """The namespace of a search that goes apart."""
        return query.namespace if isinstance(query, Apart) else None

    def select(self, waiting: Iterable[Waiting[Search | Apart]]) -> Sequence[int]:
        """The first one, or the first `max_batch`."""
        counts = []
        for each in waiting:
            counts.append(1)
            if len(counts) == self.max_batch or isinstance(each.query, Apart):
                break
        return counts

"""Admit: whether the query may be asked, and by which keywords, decided before any backend is called."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from operators.access.filters import count_conditions
from operators.collections.catalogue import Catalogue
from operators.query.expression_conditions import exclusions
from operators.query.field_map import SAME, FieldMap
from operators.query.field_uses import Purpose, check_uses, uses_of
from operators.query.in_flight import InFlight
from operators.query.returned import is_hidden, wants_words
from operators.text.expression import parse
from operators.text.terms import query_vector
from schemas.document import FILTERED
from schemas.errors import Reason, invalid
from schemas.query import Like
from schemas.result import RetrievalStage

_NOT_EXCLUDED: Final = "NOT: filters of the collection need an index, and a searched field has none of its words"
_NO_KEYWORDS: Final = f"{Reason.NO_SPARSE_VECTOR}: the collection has nothing that keywords could be searched in"


@dataclass(frozen=True)
class Admission:
    """The checks before any backend is called, by the collections and the fields that order and group results.

    `unembedded`: whether a query needs an embedding that no embedder makes; None where there is an embedder. `fields`
    says which of our fields filters can't ask for in collections of other tools. `neighbours`: how many the index keeps
    of a document on one side at most.
    """

    catalogue: Catalogue
    columns: Mapping[str, str]
    ordered: frozenset[str]
    grouped: frozenset[str] = FILTERED
    unembedded: Callable[[InFlight], bool] | None = None
    fields: FieldMap = SAME
    neighbours: int = 0
    clock: Callable[[], float] = field(default=time.monotonic)

    def __call__(self, query: InFlight) -> InFlight:
        """Answer a query that its policy refused, or whose deadline has passed; read the others' keywords.

        Raises InputError for an order that no index gives, and for a filter that Qdrant can't answer, or refuses in the
        collection's strict mode.
        """
        query.started = time.monotonic()
        asked, event = query.asked, query.asked.event
        query.passed(RetrievalStage.POLICY.value)
        if query.asked.denial is not None:
            query.answered = True
            return query
        if query.deadline <= self.clock():
            self._expire(query)
            return query
        capabilities, guard = self.catalogue.capabilities_of(query.asked.collection), query.asked.access_filter
        if guard is not None and guard.filters:
            # Contexts are apart by tier and labels: they would tell of documents that a policy's filters hide.
            capabilities = capabilities.without("dense_context", "sparse_context")
        query.retrieval.capabilities = capabilities
        if uses := [*uses_of(asked)]:
            groups = self.grouped if capabilities.groups is None else capabilities.groups
            orders = self.ordered if capabilities.orders is None else {*capabilities.orders}
            # A title's index is one of words.
            able = {Purpose.ORDER: orders, Purpose.GROUP: groups, Purpose.COUNT: groups - {"title"}}
            check_uses(uses, asked.plan.hidden, self.fields, able, capabilities.indexed)
        self._check_neighbours(query)
        if (most := capabilities.conditions) is not None:
            conditions = sum(count_conditions(capabilities.condition(each)) for each in event.filters)
            if conditions > most:
                allowed = f"the collection's strict mode allows {most} conditions (filter_max_conditions)"
                raise invalid("filters", allowed, conditions)
        if asked.text is not None:
            self._read(query, asked.text)
            if not capabilities.keywords:
                query.outcome.warnings.append(_NO_KEYWORDS)
        elif event.like is not None:
            self._read_like(query, event.like)
        # A text without terms would find nothing by keywords, either: nothing is lost with its embedding.
        searchable = query.retrieval.terms is not None or query.retrieval.uncovered
        if searchable and self.unembedded is not None and self.unembedded(query):
            query.lose("embed", Reason.NO_EMBEDDER)
        if event.vector is not None and not any(event.vector):
            query.outcome.warnings.append("the vector is zero: the vector leg is not asked")
        return query

    def _check_neighbours(self, query: InFlight) -> None:
        returned = query.asked.plan.returned
        wanted = returned.neighbours or 0 if returned is not None else 0
        if wanted > self.neighbours:
            cure = f"at most {self.neighbours}, as qdrant.context says: set its before or after higher, and index again"
            if not self.neighbours:
                cure = "documents have no neighbours here: set qdrant.context.order_by, and index again"
            raise invalid("return.neighbours", cure, wanted)

    def _expire(self, query: InFlight) -> None:
        query.outcome.expired = query.answered = True
        query.lose("queue", Reason.DEADLINE)
        if query.deadline <= query.message.clock:
            # A backlog, or a producer's clock that is behind.
            late = f"the deadline had passed when the query was read, {query.message.age:.0f} s after it was sent"
            query.outcome.warnings.append(late)

    def _read(self, query: InFlight, text: str) -> None:
        retrieval = query.retrieval
        bm25 = self.catalogue.analyser(query.asked.collection)
        columns, retrieval.columns, retrieval.filtered = self.columns, bm25.columns, bm25.columns
        if hidden := query.asked.plan.hidden:
            columns = {name: column for name, column in columns.items() if not is_hidden(column, hidden)}
            retrieval.filtered = [column for column in bm25.columns if not is_hidden(column, hidden)]
        parsed = retrieval.parsed = parse(text, columns, prefixes=self.fields.same)
        retrieval.words, matcher = bm25.read(parsed.terms, query.asked.event.lang)
        # Where there are passages, several steps read the words.
        retrieval.matcher = cache(matcher) if wants_words(query.asked.plan.returned) else matcher
        retrieval.terms, retrieval.analyser = query_vector(retrieval.words), bm25.name
        retrieval.uncovered = parsed.uncovered or not all(bm25.covers(retrieval.terms, leaf) for leaf in parsed.leaves)
        query.outcome.warnings += parsed.warnings
        able, expression = retrieval.capabilities.matches_words(retrieval.filtered), parsed.expression
        if not able and expression is not None and exclusions(expression, retrieval.filtered):
            query.outcome.warnings.append(_NOT_EXCLUDED)
        if retrieval.terms is None and not retrieval.uncovered:
            query.outcome.warnings.append(f"{Reason.NO_TERMS}: the text has no word that the keyword leg looks for")

    def _read_like(self, query: InFlight, like: Like) -> None:
        """Read the words of a text that results are to be like: all of them, and none as keyword syntax."""
        retrieval, bm25 = query.retrieval, self.catalogue.analyser(query.asked.collection)
        retrieval.columns = bm25.columns
        if like.text is not None:
            retrieval.terms, retrieval.analyser = bm25.query(like.text, query.asked.event.lang), bm25.name

"""Searches as programs: the requests of one leg for one query, one after another, until its hits are there.

A program is a generator. It yields a request, is sent the answer, and returns the hits; the error of a request is
raised where the request was yielded. It does no I/O itself, as a sans-I/O protocol does none:
`operators.clients.qdrant.client` runs many programs together, and a test can answer one by hand.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from operators.access import filters
from operators.access.indexes import missing_indexes, on_index
from operators.query.backend_answers import Hits, OrderValue, parse_point_id
from operators.query.collection import Capabilities
from operators.ranking.grouping import first_of_groups, key_of
from operators.text.lexer import Leaf
from operators.wire.message import Trace
from schemas.document import words_key
from schemas.errors import BackendError, Reason
from schemas.filters import FieldFilter, NoneOf

Body = Mapping[str, Any]
Condition = Mapping[str, Any]


def narrow_by(where: Condition, *conditions: Condition, clause: str = "must") -> dict[str, Any]:
    """The filter with these conditions more in one of its clauses."""
    return {**where, clause: [*where.get(clause, ()), *conditions]}


def map_filters(body: Body, change: Callable[[Condition], Condition]) -> dict[str, Any]:
    """The search with its filters changed: that of its points, and that of those over which terms are counted."""
    out = {**body, "filter": change(body["filter"])} if body.get("filter") is not None else {**body}
    if corpus := body.get("params", {}).get("idf", {}).get("corpus"):
        out["params"] = {**body["params"], "idf": {"corpus": change(corpus)}}
    return out


Ending = tuple[Leaf, str]
"""A phrase that ends in a prefix, and the column that it is looked for in."""

Endings = Mapping[Ending, Sequence[str]]
"""The words that each prefix may stand for."""


class QueryBatch(NamedTuple):
    """Searches for one batch. The answer: the hits of each."""

    bodies: Sequence[Body]


class Count(NamedTuple):
    """Counts of the points that each filter matches. The answer: the numbers."""

    wheres: Sequence[Condition]


class Words(NamedTuple):
    """Counts of the `limit` commonest values of fields, each among the points of its filter.

    The answer: for each field the numbers by value, in an object that says with `cut` if there may be other values.
    """

    fields: Sequence[tuple[str, Condition]]
    limit: int


class Scroll(NamedTuple):
    """A page of records, in the order of an indexed field or by id. The answer: the page."""

    where: Condition
    limit: int
    fields: Any
    order_by: Mapping[str, Any] | None
    offset: str | None


class ScrollVectors(NamedTuple):
    """At most `limit` records by id, each with its vector `name`. The answer: the page."""

    where: Condition
    limit: int
    fields: Any
    name: str | None


Request = QueryBatch | Count | Words | Scroll | ScrollVectors


class Counts(NamedTuple):
    """The number of documents that a query matches, and the counts of its facets among them, as results have them.

    Not `exact`: more may match.
    """

    matched: int
    exact: bool
    facets: Sequence[Mapping[str, Any]] = ()


class Found(NamedTuple):
    """The hits of a leg, best first, the values by which a lookup ordered them, and warnings about them.

    `whole`: they are all that there are, however many. Of a search for groups, `more`: there may be further
    groups; `lost`: why the search for them ended early. `counts` are there in place of hits where facets are counted.
    """

    hits: Hits
    values: Sequence[OrderValue] = ()
    warnings: Sequence[str] = ()
    whole: bool = False
    more: bool | None = None
    lost: Reason | None = None
    counts: Counts | None = None


Program = Generator[Request, Any, Found]

Explanation = Generator[Request, Any, Sequence[str]]
Explain = Callable[[], Explanation]
"""Finds out why a search found nothing: in warnings."""


@dataclass(frozen=True, slots=True)
class Search:
    """One query's program for one leg, from its beginning at each start, and the trace to record it in.

    `alone`: the query's namespace, if the hits need several requests one after another. No other search waits for such
    a one, and namespaces take turns.
    """

    start: Callable[[], Program]
    trace: Trace
    alone: str | None = None


def nearest(bodies: Sequence[Body], explain: Explain | None = None) -> Program:
    """The hits of one search; of two, behind those what the second alone matches. A filter alone scores 0.

    `explain` says why where nothing is found.
    """
    [hits, *others] = yield QueryBatch(bodies)
    if "query" not in bodies[0]:
        hits = hits._replace(scores=[0.0] * len(hits.ids))
    for other in others:
        hits = hits.and_further(other._replace(scores=[0.0] * len(other.ids)))
        hits = hits.at(range(min(len(hits.ids), bodies[-1]["limit"])))
    if not hits.ids and explain is not None:
        return Found(hits, warnings=(yield from explain()))
    return Found(hits)


def or_explained(program: Program, explain: Explain) -> Program:
    """The outcome of a program, with the warnings that say why where it finds nothing."""
    found = yield from program
    if found.hits.ids:
        return found
    return found._replace(warnings=(*found.warnings, *(yield from explain())))


def every(body: Body) -> Program:
    """The hits of one search, which are all that there are: it asks for as many."""
    found = yield from nearest([body])
    return found._replace(whole=True)


def all_matching(body: Body) -> Program:
    """The hits of one search that asks for as many points as its filter matches."""
    [number] = yield Count([body["filter"]])
    [hits] = yield QueryBatch([{**body, "limit": max(1, number)}])
    return Found(hits, whole=len(hits.ids) >= number)


COUNTED: Final = 10_000
"""Most words that are counted for the endings of a phrase; the rarest beyond them are not looked for."""

_CUT: Final = "a phrase that ends in a prefix has more endings than are looked for: only the commonest are"


def with_endings(wanted: Mapping[Ending, Condition], most: int, search: Callable[[Endings], Program]) -> Program:
    """A search that is written when the `most` commonest endings of each of its phrases are known."""
    counted = yield Words([(words_key(column), where) for (_, column), where in wanted.items()], COUNTED)
    endings: dict[Ending, list[str]] = {}
    cut = False
    for ending, words in zip(wanted, counted, strict=True):
        start = ending[0].prefix.lower()
        fitting = sorted(
            (-number, word) for word, number in words.counts.items() if isinstance(word, str) and word.startswith(start)
        )
        endings[ending] = [word for _, word in fitting[:most]]
        cut = cut or words.cut or len(fitting) > most
    found = yield from search(endings)
    return found._replace(warnings=(*found.warnings, _CUT)) if cut else found


Narrow = Callable[[Body], Body]
"""Changes a search's body so that it finds no group again; at first it changes nothing."""

_ROUNDS: Final = 4
"""Further requests of a search for groups at most; each is asked for four times as many candidates as the last."""

LEAVES: Final = 6
"""Conditions at most by which the groups that are found are left out."""


class Groups(NamedTuple):
    """The groups by a field that a search is to find, `wanted` of them, in a collection that is `able` to so much."""

    field: str
    wanted: int
    able: Capabilities

    def search(self, limit: int, start: Callable[[Narrow], Program]) -> Program:
        """The hits of a search, and of further ones until they are of enough groups, or all groups are found."""
        found = yield from start(lambda body: body)
        hits, last = found.hits, len(found.hits.ids)
        count = last
        for _ in range(_ROUNDS):
            if last < limit or len(self._first(hits)) >= self.wanted:
                break
            limit = min(4 * limit, self.able.most)
            try:
                more = yield from start(self._beyond(hits, limit))
            except BackendError as error:
                return found._replace(hits=hits, more=True, lost=error.reason)
            last = len(more.hits.ids)
            count += last
            hits = self._extend(hits, more.hits)
        return found._replace(hits=hits, more=last >= limit or len(hits.ids) < count)

    def _first(self, hits: Hits) -> list[int]:
        return first_of_groups(hits.payloads, self.field)

    def _beyond(self, found: Hits, limit: int) -> Narrow:
        indexed = self.able.indexed

        def others(keys: list[Any]) -> FieldFilter:
            return on_index(NoneOf(field=self.field, op="none_of", value=keys), indexed)

        keys: list[Any] = []
        alone: list[Any] = []
        for rank in self._first(found):
            key = key_of(found.payloads[rank], self.field)
            # Where filters need an index, only values of its own type can be left out.
            if key is None or (indexed is not None and missing_indexes(others([key]), indexed) is not None):
                alone.append(parse_point_id(found.ids[rank]))
            else:
                keys.append(key)
        must: list[Condition] = []
        if keys:
            # A document with several values is of none of their groups, and `none_of` would leave it out.
            of_others = others(keys)
            several = {"key": of_others.field, "values_count": {"gt": 1}}
            must = [{"should": [filters.condition(of_others, self.able.fields), several]}]
        must_not = [{"has_id": alone}] if alone else []

        def narrow(body: Body) -> Body:
            where = narrow_by(narrow_by(body["filter"], *must), *must_not, clause="must_not")
            return {**body, "limit": limit, "filter": where}

        return narrow

    def _extend(self, hits: Hits, further: Hits) -> Hits:
        """The hits, best first, with those further ones that it takes to reach the wanted number of groups."""
        if not further.ids:
            return hits
        # Not every value of a key is left out: a keyword index does not hold 2.0 where the key is 2.
        both = hits.and_further(further)
        first = self._first(both)
        room = first[self.wanted - 1] + 1 if len(first) >= self.wanted else len(both.ids)
        # An approximate search may find later what is better.
        return both.at(sorted(range(room), key=both.scores.__getitem__, reverse=True))

"""Examples: the documents that the results of a query with `like` are to be like, or unlike.

A search by examples looks them up first, in the same program, and is written when they are there.

Rules:
- Examples are documents that the query may see, whether or not they pass its filters. A warning names the ids of all
  others: nothing tells a document that is hidden from one that does not exist.
- A vector leg recommends by the examples' vectors; the query's own vector is one more that is wanted.
- A keyword leg searches the words of the wanted examples that are the rarest where the query may see, and stand in no
  unwanted one. Beside the query's own words, all of them together weigh as much as these.
- A word that a policy hides is not searched: where it hides a searched field, examples have no words.
- No example is a result: `Bodies.draft` leaves them out of every leg.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import Any, Final, NamedTuple

from operators.access.firewall import find_forbidden
from operators.query.backend_answers import Hits, Record, RecordPage, parse_point_id
from operators.query.returned import is_hidden
from operators.query.search import Found, Program, QueryBatch, Request, ScrollVectors, Search
from operators.query.search_bodies import Bodies, Draft, by_terms, vector_of
from operators.ranking.candidate import document
from operators.text.terms import SparseVector
from schemas.errors import MAX_WORDED, join_first
from schemas.query import MAX_EXAMPLES, Like
from schemas.result import KEYWORD

MOST_WORDS: Final = 25
"""Words of examples that are searched: as `max_query_terms` of Lucene's MoreLikeThis."""

MOST_COUNTED: Final = 512
"""Words of examples whose rarity is counted at most: those that their documents have most often."""

_MOST_POINTS: Final = 4 * MAX_EXAMPLES
"""Points that are read at most: in collections of other tools several may have one document's id."""

_SHOWN: Final = 80
"""Characters of an id in a warning."""

_UNKNOWN: Final = "like: no such documents, or none that the query may see"
_NOTHING: Final = "like: nothing is left that results could be like: its documents are not there, or have no vector"


class Examples(NamedTuple):
    """The examples that are there and have a vector of the leg's, and warnings about others."""

    wanted: Sequence[Record]
    unwanted: Sequence[Record]
    warnings: Sequence[str]


def by_vectors(bodies: Bodies, leg: str, draft: Draft, like: Like) -> Search:
    """The documents that are nearest to the wanted examples and to the query's own vector, by Qdrant's recommend."""

    def start() -> Program:
        examples, own = (yield from _look_up(bodies, leg, draft, like)), vector_of(draft.query)
        positive = [each.vector for each in examples.wanted]
        if own is not None:
            positive.append(own if isinstance(own, list) else own.tolist())
        if not positive:
            return Found(Hits([], [], []), warnings=(*examples.warnings, _NOTHING))
        negative = [each.vector for each in examples.unwanted]
        recommend = {"positive": positive, "negative": negative, "strategy": like.strategy}
        return (yield from _finish(examples, bodies.dense(leg, draft, {"recommend": recommend})))

    return Search(start, draft.query.trace, draft.query.asked.namespace)


def by_words(bodies: Bodies, leg: str, draft: Draft, like: Like) -> Search | None:
    """The best documents by BM25 for the query's words and the rarest ones of the examples; None if these have none."""
    retrieval, hidden = draft.query.retrieval, draft.query.asked.plan.hidden
    lacks = leg == KEYWORD and not retrieval.capabilities.has("sparse")
    if lacks or any(is_hidden(column, hidden) for column in retrieval.columns):
        return None

    def start() -> Program:
        examples = yield from _look_up(bodies, leg, draft, like)
        terms = _add(retrieval.terms, (yield from _find_rarest(bodies, leg, draft, examples)))
        if terms is None and not retrieval.uncovered:
            return Found(Hits([], [], []), warnings=examples.warnings)
        query = replace(draft.query, retrieval=replace(retrieval, terms=terms))
        return (yield from _finish(examples, bodies.keyword(leg, draft._replace(query=query), ())))

    return Search(start, draft.query.trace, draft.query.asked.namespace)


def _finish(examples: Examples, search: Search) -> Program:
    found = yield from search.start()
    return found._replace(warnings=(*examples.warnings, *found.warnings))


def _look_up(bodies: Bodies, leg: str, draft: Draft, like: Like) -> Generator[Request, RecordPage, Examples]:
    guard = draft.query.asked.access_filter
    own = {"key": "id", "match": {"any": like.every_id}}
    where = {"must": [*bodies.seen(draft.query)["must"], own]}
    fields = sorted({"id"}.union(guard.reads if guard is not None else ()))
    page = yield ScrollVectors(where, _MOST_POINTS, fields, bodies.vectors[leg])
    # As everywhere, the conditions are not relied on.
    forbidden = find_forbidden(guard, [each.id for each in page.records], [each.payload for each in page.records])
    found = [(document(each.id, each.payload), each) for each in page.records if each.id not in forbidden]
    there = {id_ for id_, _ in found}
    missing = [repr(each[:_SHOWN]) for each in like.every_id if each not in there]
    named = join_first(missing[:MAX_WORDED], len(missing[MAX_WORDED:]), ", ")

    def having(ids: Sequence[str]) -> list[Record]:
        return [each for id_, each in found if id_ in ids and each.vector is not None]

    return Examples(having(like.ids), having(like.unlike), [f"{_UNKNOWN} ({named})"] if missing else [])


def _find_rarest(
    bodies: Bodies, leg: str, draft: Draft, examples: Examples
) -> Generator[Request, Sequence[Hits], Sequence[int]]:
    """The terms of the wanted examples that have the highest tf·idf, as MoreLikeThis selects them.

    An example's score for a term alone is that term's tf·idf: so Qdrant counts it, over what the query may see.
    """
    weights: dict[int, float] = {}
    for each in examples.wanted:
        for term, weight in zip(each.vector["indices"], each.vector["values"], strict=True):
            weights[term] = max(weight, weights.get(term, 0.0))
    for each in examples.unwanted:
        for term in each.vector["indices"]:
            weights.pop(term, None)
    terms = nlargest(MOST_COUNTED, sorted(weights), key=weights.__getitem__)
    where = {"must": [{"has_id": [parse_point_id(each.id) for each in examples.wanted]}]}
    best: Any = {"limit": 1, "with_payload": False}
    counted, using = bodies.corpus(draft.query, leg), bodies.vectors[leg]
    alone = [by_terms(SparseVector([term], [1.0]), using, where, best, counted) for term in terms]
    found = (yield QueryBatch(alone)) if alone else ()
    scores = {term: hits.scores[0] for term, hits in zip(terms, found, strict=True) if hits.ids}
    return nlargest(MOST_WORDS, scores, key=scores.__getitem__)


def _add(own: SparseVector | None, words: Sequence[int]) -> SparseVector | None:
    """The terms of a query, with those of its examples, which weigh as much as its own altogether."""
    weights = dict(zip(own.indices, own.values, strict=True)) if own is not None else {}
    share = (sum(weights.values()) or len(words)) / max(len(words), 1)
    for term in words:
        weights[term] = max(share, weights.get(term, 0.0))
    terms = sorted(weights)
    return SparseVector(terms, [weights[term] for term in terms]) if terms else None

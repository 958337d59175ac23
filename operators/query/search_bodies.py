"""Searches: what each leg is asked for a query."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from operators.access import filters
from operators.access.filters import Ask
from operators.query import paging
from operators.query.backend_answers import Hits, point_id
from operators.query.canonical import Shape
from operators.query.collection import MOST, Destinations
from operators.query.in_flight import InFlight
from operators.query.keyword_filter import Ending, Endings, exclusions, open_endings
from operators.query.keyword_filter import conditions as keyword_conditions
from operators.query.paging import FIELDS, OrderValue, equal, wanted_order
from operators.query.returned import is_hidden
from operators.query.trace import Trace
from operators.ranking.grouping import first_of_groups, key_of
from operators.ranking.reflections import recency_weight
from operators.text.terms import Corpus, SparseVector
from schemas.document import ACTOR_TYPE, CONTENT, CREATED, EXPIRES, NAMESPACE, REFLECTION, SUBJECT, TEXT, TYPE
from schemas.filters import FieldFilter, NoneOf
from schemas.recipes.fusion import Weighted
from schemas.recipes.recipe import STAGES
from schemas.recipes.stages import Composite, RecipeStage
from schemas.result import FUZZY, KEYWORD, KEYWORD_CONTEXT, LEARNED, STRUCTURED, VECTOR, VECTOR_CONTEXT

ENDINGS: Final = 256
"""Endings of one phrase at most: each is one condition of the search."""

PER_GROUP: Final = 2
"""Candidates of each leg for a group: with groups, a leg gives half as many groups as it is asked for candidates."""

_LEAVES: Final = 6
"""Conditions at most by which the groups that are found are left out."""

BEYOND: Final = 3
"""Times the page is asked for where a stage on distance moves candidates."""

_ALONE: Final = frozenset({TYPE, "created_at", "updated_at", "cycle"})
"""The fields of reflections that ranking reads."""

_SIGNALS: Final[tuple[RecipeStage, ...]] = (Weighted(graph_weight=1.0), Composite(recency=1.0, importance=1.0))
_RECORDED: Final = frozenset().union(
    *(stage.model_construct().reads for stage in STAGES.values()), *(stage.reads for stage in _SIGNALS)
) - {CONTENT}
"""The fields that any recipe reads: a recorded pool has all of them, or what was read from them."""

Condition = Mapping[str, Any]


class Groups(NamedTuple):
    """The number of groups by a field that a search is to find; `indexed` as in `Capabilities`.

    One request gives `most` candidates at most.
    """

    field: str
    wanted: int
    most: int
    indexed: Mapping[str, frozenset[Ask]] | None

    def first(self, hits: Hits) -> list[int]:
        """The places of the first hit of each group."""
        return first_of_groups(hits.payloads, self.field)


@dataclass(frozen=True, slots=True)
class Search:
    """One query's request to one leg, and where to record it.

    `rest`: what else matches, for a keyword expression that BM25 doesn't see all of; `body` is None if it sees none.
    `equal`, of a lookup in pages: the condition that a record has this order value; `most`: how many records Qdrant
    gives at a time. `corpus`: the rarity of the body's terms is to be counted over it, for Qdrant counts it by shards.
    `every`: all that the filter matches is wanted, for `namespace`, however many. `warnings` belong to its hits.
    `groups`: the number of groups of which its hits shall be.
    """

    body: Mapping[str, Any] | None
    trace: Trace
    rest: Mapping[str, Any] | None = None
    equal: Callable[[OrderValue], Condition] | None = None
    most: int | None = None
    corpus: Corpus | None = None
    warnings: Sequence[str] = ()
    every: bool = False
    namespace: str = ""
    groups: Groups | None = None

    def beyond(self, found: Hits, limit: int) -> "Search":
        """The search for candidates of none of the groups that are found, with another limit."""
        assert self.groups is not None
        field, indexed = self.groups.field, self.groups.indexed

        def others(keys: list[Any]) -> FieldFilter:
            return filters.on_index(NoneOf(field=field, op="none_of", value=keys), indexed)

        keys: list[Any] = []
        alone: list[Any] = []
        for place in self.groups.first(found):
            key = key_of(found.payloads[place], field)
            # Where filters need an index, only values of its own type can be left out.
            if key is None or (indexed is not None and filters.missing_indexes(others([key]), indexed) is not None):
                alone.append(point_id(found.ids[place]))
            else:
                keys.append(key)
        must: list[Condition] = []
        if keys:
            # A document with several values is of none of their groups, and `none_of` would leave it out.
            of_others = others(keys)
            several = {"key": of_others.field, "values_count": {"gt": 1}}
            must = [{"should": [filters.condition(of_others), several]}]
        without: list[Condition] = [{"has_id": alone}] if alone else []

        def narrow(body: Condition | None) -> Condition | None:
            if body is None:
                return None
            where = body["filter"]
            clauses = {
                "must": [*where.get("must", ()), *must],
                "must_not": [*where.get("must_not", ()), *without],
            }
            return {**body, "limit": limit, "filter": {**where, **clauses}}

        return replace(self, body=narrow(self.body), rest=narrow(self.rest), groups=None)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A request to the keyword leg that can be written only when the endings of its phrases are known.

    `endings` has for each the filter of the documents that may hold it; `most` of each are looked for, for `namespace`.
    """

    endings: Mapping[Ending, Mapping[str, Any]]
    trace: Trace
    finish: Callable[[Endings], Search]
    most: int
    namespace: str


@dataclass(frozen=True, slots=True)
class Searches:
    """Writes each query's requests under one configuration.

    `hnsw_ef`: how many candidates the vector leg looks at in Qdrant's index, None: as many as Qdrant takes by itself.
    """

    dense: str
    sparse: str | None
    idf_of_namespace: bool
    destinations: Destinations = field(default_factory=lambda: Destinations({}))
    kinds: Mapping[str, str] = field(default_factory=dict)
    hnsw_ef: int | None = None
    dense_context: str = "dense_context"
    sparse_context: str = "bm25_context"
    learned: str | None = None
    fuzzy: str | None = None

    def __call__(self, query: InFlight) -> dict[Hashable, Search | Unfinished]:
        """The query's requests by (leg, collection); a leg that it has nothing for is left out."""
        capabilities = query.retrieval.capabilities
        seen = self._seen(query)
        wanted = _without_excluded(query, seen)
        common = {"limit": depth(query), "with_payload": _select_fields(query)}
        searches: dict[str, Search | Unfinished] = {}
        for leg in legs(query):
            if not askable(query, leg) or (leg == VECTOR and not capabilities.similar):
                continue
            if leg in {VECTOR, VECTOR_CONTEXT}:
                using = self.dense if leg == VECTOR else self.dense_context
                body = {"query": vector_of(query), **_using(using), "filter": wanted, **common}
                if query.asked.canonical.reflections_only and capabilities.exact:
                    body["params"] = {"exact": True}
                elif self.hnsw_ef is not None:
                    body["params"] = {"hnsw_ef": min(self.hnsw_ef, capabilities.hnsw_ef or self.hnsw_ef)}
                asked = query.asked.canonical
                searches[leg] = Search(body, query.trace, every=_wants_all(query), namespace=asked.namespace)
            elif leg in {KEYWORD, KEYWORD_CONTEXT}:
                searches[leg] = self._keyword(query, leg, seen, common)
            elif leg == LEARNED and (encoding := query.retrieval.encoding) is not None:
                searches[leg] = Search(_by_terms(encoding, self.learned, wanted, common), query.trace)
            elif leg == FUZZY and (trigrams := query.retrieval.trigrams) is not None:
                searches[leg] = Search(_by_terms(trigrams, self.fuzzy, wanted, common), query.trace)
            elif leg == STRUCTURED:
                searches[leg] = self._listing(query, {"filter": wanted, **common})
        groups = _groups(query, seen)
        if groups is not None:
            searches = {leg: _with_groups(search, groups) for leg, search in searches.items()}
        return {(leg, query.collection): search for leg, search in searches.items()}

    def _keyword(self, query: InFlight, leg: str, seen: Condition, common: Condition) -> Search | Unfinished:
        searched = self._by_keywords if leg == KEYWORD else self._by_context_keywords
        parsed = query.retrieval.parsed
        if parsed is None or parsed.expression is None:
            return searched(query, seen, common)
        expression = parsed.expression

        def finish(endings: Endings) -> Search:
            matching = keyword_conditions(expression, query.retrieval.filtered, endings)
            return searched(query, _narrow(seen, matching), common)

        wanted = {
            ending: _narrow(seen, where) for ending, where in open_endings(expression, query.retrieval.filtered).items()
        }
        if not wanted:
            return finish({})
        capabilities = query.retrieval.capabilities
        most = ENDINGS
        if capabilities.conditions is not None:
            # Each ending is one condition of the search.
            without = keyword_conditions(expression, query.retrieval.filtered, dict.fromkeys(wanted, ()))
            others = filters.count(_narrow(seen, without))
            most = max(1, min(most, (capabilities.conditions - others) // len(wanted)))
        return Unfinished(wanted, query.trace, finish, most, query.asked.canonical.namespace)

    def _by_keywords(self, query: InFlight, seen: Mapping[str, Any], common: Mapping[str, Any]) -> Search:
        retrieval = query.retrieval
        body: Condition | None = None
        corpus = None
        if retrieval.terms is not None and not retrieval.capabilities.sparse and retrieval.parsed is not None:
            # The server makes the terms, as it made them for the index of the text.
            body = {"query": {"text": retrieval.parsed.terms}, "using": TEXT, "filter": seen, **common}
        elif retrieval.terms is not None:
            counted = self._corpus(query, self.sparse)
            body = _by_terms(retrieval.terms, self.sparse, seen, common, counted)
            if retrieval.capabilities.counted:
                # The watermark is the namespace's, and tells nothing of the whole collection.
                watermark = query.cache.watermark if self.idf_of_namespace else None
                corpus = Corpus(counted, watermark, query.asked.canonical.namespace)
        return Search(body, query.trace, {"filter": seen, **common} if retrieval.uncovered else None, corpus=corpus)

    def _by_context_keywords(self, query: InFlight, seen: Mapping[str, Any], common: Mapping[str, Any]) -> Search:
        assert query.retrieval.terms is not None
        counted = self._corpus(query, self.sparse_context)
        body = _by_terms(query.retrieval.terms, self.sparse_context, seen, common, counted)
        return Search(body, query.trace)

    def _listing(self, query: InFlight, common: Mapping[str, Any]) -> Search:
        asked = query.asked.canonical
        order = wanted_order(asked)
        orders = query.retrieval.capabilities.orders
        undated = orders is not None and "created_at" not in orders
        # A cursor has the value where its page goes on.
        hidden = asked.shape is not Shape.SEARCH and is_hidden("created_at", query.asked.plan.hidden)
        if order["key"] == CREATED and (undated or hidden):
            # Nothing tells which are the newest: all records are of one value, and come by id.
            return Search(common, query.trace, most=query.retrieval.capabilities.most)
        if asked.shape is Shape.SEARCH:
            return Search({"order_by": order, **common}, query.trace)
        key, kind = order["key"], self.kinds.get(order["key"], "integer")
        if orders is not None:
            kind = orders[FIELDS.get(key, key)]
        body, most = {"order_by": order, **common}, query.retrieval.capabilities.most
        return Search(body, query.trace, equal=lambda value: equal(key, kind, value), most=most)

    def _corpus(self, query: InFlight, using: str | None) -> Condition | None:
        """The documents over which a term's rarity is counted, none of them hidden; None: all of the collection, or
        none, since Qdrant counts none for this vector.
        """
        if using in query.retrieval.capabilities.without_idf:
            return None
        must = self._scope(query) if self.idf_of_namespace else []
        if query.asked.access_filter is not None:
            must += query.asked.access_filter.visible(query.retrieval.capabilities.indexed)
        return {"must": must} if must else None

    def _scope(self, query: InFlight) -> list[Condition]:
        return [
            _tenant(query),
            *self.destinations.conditions(query.asked.canonical.destination, query.asked.collection),
        ]

    def _seen(self, query: InFlight) -> Mapping[str, Any]:
        asked = query.asked.canonical
        must = self._scope(query)
        if query.retrieval.capabilities.expires:
            # By the flow's own clock: a query's `now` brings nothing back.
            must.append({"must_not": [{"key": EXPIRES, "range": {"lte": round(query.message.received * 1000)}}]})
        scopes = ((SUBJECT, asked.subject), (ACTOR_TYPE, asked.actor_type))
        must += [{"key": key, "match": {"value": value}} for key, value in scopes if value is not None]
        indexed = query.retrieval.capabilities.indexed
        must += [filters.condition(filters.on_index(each, indexed)) for each in asked.filters]
        guard = query.asked.access_filter
        # The place has the namespace already.
        if guard is not None and guard.hides:
            must += guard.conditions(indexed)
        reflections = {"key": TYPE, "match": {"value": REFLECTION}}
        if query.asked.canonical.reflections_only:
            return {"must": [*must, reflections]}
        # Where filters need an index, and the type has none, there are no reflections to leave out.
        if query.asked.plan.include_reflections or (indexed is not None and TYPE not in indexed):
            return {"must": must}
        return {"must": must, "must_not": [reflections]}


def _wants_all(query: InFlight) -> bool:
    """True if the best may be far from the query: reflections alone, by recency too, in a collection that gives all."""
    asked, most = query.asked.canonical, query.retrieval.capabilities.most
    return asked.reflections_only and most >= MOST and recency_weight(query.asked.plan.recipe, asked.current_cycle) > 0


def _by_terms(
    terms: SparseVector, using: str | None, seen: Condition, common: Condition, counted: Condition | None = None
) -> Condition:
    params = {"params": {"idf": {"corpus": counted}}} if counted is not None else {}
    sparse = {"indices": terms.indices, "values": terms.values}
    return {"query": sparse, "using": using, "filter": seen, **common, **params}


def _groups(query: InFlight, seen: Condition) -> Groups | None:
    """The groups that the query's legs are to find; None if one request of each has to do."""
    grouping, able = query.asked.plan.grouping, query.retrieval.capabilities
    # All reflections are ranked in any case.
    if grouping is None or query.asked.canonical.reflections_only:
        return None
    if able.conditions is not None and filters.count(seen) + _LEAVES > able.conditions:
        return None
    return Groups(grouping.field, max(1, depth(query) // PER_GROUP), able.most, able.indexed)


def _with_groups(search: Search | Unfinished, groups: Groups) -> Search | Unfinished:
    if isinstance(search, Search):
        return replace(search, groups=groups)
    finish = search.finish
    return replace(search, finish=lambda endings: replace(finish(endings), groups=groups))


def _without_excluded(query: InFlight, seen: Condition) -> Condition:
    """The condition of the legs that don't search by words: what a keyword expression excludes isn't theirs, either."""
    parsed, columns = query.retrieval.parsed, query.retrieval.filtered
    if parsed is None or parsed.expression is None or not query.retrieval.capabilities.matches_words(columns):
        return seen
    excluded = exclusions(parsed.expression, columns)
    return {**seen, "must_not": [*seen.get("must_not", ()), *excluded]} if excluded else seen


def _narrow(seen: Mapping[str, Any], condition: Condition) -> Mapping[str, Any]:
    return {**seen, "must": [*seen["must"], condition]}


def legs(query: InFlight) -> tuple[str, ...]:
    """The legs that the query's recipe wants; a lookup's one; of reflections alone the nearest, or the newest.

    A query that has nothing for any of them, and lost nothing, has those of the recipe that need nothing.
    """
    asked, fusion = query.asked.canonical, query.asked.plan.recipe.fusion
    if asked.shape is not Shape.SEARCH:
        return (STRUCTURED,)
    if asked.reflections_only:
        return (VECTOR,) if vector_of(query) is not None else (STRUCTURED,)
    nothing = not any(askable(query, leg) for leg in fusion.legs) and not query.outcome.degraded
    if nothing and fusion.unasked:
        return fusion.unasked
    # A shipped recipe weighs this leg, whether or not there are trigrams.
    unknown = query.retrieval.capabilities.fuzzy is None
    return tuple(leg for leg in fusion.legs if leg != FUZZY) if unknown else fusion.legs


def askable(query: InFlight, leg: str) -> bool:
    """True if the query has something that the leg can search by, and the collection something that it can search."""
    retrieval = query.retrieval
    able = retrieval.capabilities
    match leg:
        case "vector":
            return vector_of(query) is not None
        case "vector_context":
            return able.dense_context and vector_of(query) is not None
        case "keyword":
            return able.keywords and (retrieval.terms is not None or retrieval.uncovered)
        case "keyword_context":
            return able.sparse_context and retrieval.terms is not None
        case "learned":
            return able.learned and retrieval.encoding is not None and bool(retrieval.encoding.indices)
        case "fuzzy":
            return bool(able.fuzzy) and retrieval.trigrams is not None
    return True


def depth(query: InFlight) -> int:
    """The number of candidates that each leg is asked for: on each page of a query as many as on the first.

    Never more than the collection gives to one search; a lookup gets more in several requests.
    """
    if query.asked.canonical.shape is not Shape.SEARCH:
        asked = query.asked.canonical
        return paging.records_to_ask(asked.after, asked.limit + len(asked.given))
    return min(wanted_depth(query), query.retrieval.capabilities.most)


def wanted_depth(query: InFlight) -> int:
    """The number of candidates that a search would ask each leg for in a collection that gives them."""
    asked, plan = query.asked.canonical, query.asked.plan
    page = asked.limit
    if asked.reflections_only:
        return MOST
    if asked.pool_depth is not None:
        return min(asked.pool_depth, MOST)
    wanted = max(page, plan.profile.over_sample)
    if plan.recipe.distance or plan.picking is not None:
        wanted = max(wanted, BEYOND * page)
    if plan.grouping is not None:
        wanted = max(wanted, PER_GROUP * page)
    return min(wanted, MOST)


def fields(query: InFlight) -> frozenset[str]:
    """The payload fields that ranking, the post-filter check, or a recorded pool needs."""
    asked = query.asked.canonical
    # Documents of equal value go by their own ids.
    wanted = frozenset({"id"})
    if asked.shape is Shape.SEARCH:
        wanted |= query.asked.plan.recipe.reads
        if asked.reflections_only:
            wanted |= _ALONE
        if asked.order_by is not None:
            wanted |= paging.order_fields(asked.order_by)
    if query.asked.plan.grouping is not None:
        wanted |= {query.asked.plan.grouping.field}
        if query.retrieval.capabilities.expires:
            wanted |= {EXPIRES}
    if asked.recorded is not None:
        wanted |= _RECORDED
    return wanted | query.asked.access_filter.reads if query.asked.access_filter is not None else wanted


def _select_fields(query: InFlight) -> Any:
    wanted = fields(query)
    return query.retrieval.all_but(wanted) if query.asked.canonical.understood else sorted(wanted) or False


def _using(vector: str) -> dict[str, str]:
    # The vector without a name is the one that is searched where none is named.
    return {"using": vector} if vector else {}


def vector_of(query: InFlight) -> Any:
    """The query's vector, its own before the embedder's; None without one, and for a zero vector."""
    asked = query.asked.canonical
    if asked.vector is not None:
        return asked.vector if any(asked.vector) else None
    embedding = query.retrieval.embedding
    return embedding.vector if embedding is not None and embedding.directed else None


def _tenant(query: InFlight) -> Condition:
    return {"key": NAMESPACE, "match": {"value": query.asked.canonical.namespace}}

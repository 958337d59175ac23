"""Bodies of searches: what each kind of leg asks Qdrant for a query."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from operators.access import filters
from operators.query import paging
from operators.query.canonical import Shape
from operators.query.collection import MOST, Destinations
from operators.query.in_flight import InFlight
from operators.query.keyword_filter import Endings, exclusions, open_endings
from operators.query.keyword_filter import conditions as keyword_conditions
from operators.query.lookup import look_up
from operators.query.paging import FIELDS, equal, wanted_order
from operators.query.returned import is_hidden
from operators.query.search import (
    Body,
    Condition,
    Groups,
    Narrowing,
    Program,
    Search,
    all_matching,
    list_matching,
    nearest,
    with_endings,
)
from operators.ranking.blend import recency_weight
from operators.text.terms import SparseVector
from schemas.document import ACTOR_TYPE, CONTENT, CREATED, EXPIRES, NAMESPACE, REFLECTION, SUBJECT, TEXT, TYPE
from schemas.recipes.fusion import Weighted
from schemas.recipes.recipe import STAGES
from schemas.recipes.stages import Composite, RecipeStage
from schemas.result import KEYWORD

ENDINGS: Final = 256
"""Endings of one phrase at most: each is one condition of the search."""

PER_GROUP: Final = 2
"""Candidates of each leg for a group: with groups, a leg gives half as many groups as it is asked for candidates."""

BEYOND: Final = 3
"""Times the page is asked for where a stage on distance moves candidates."""

_ALONE: Final = frozenset({TYPE, "created_at", "updated_at", "cycle"})
"""The fields of reflections that ranking reads."""

_SIGNALS: Final[tuple[RecipeStage, ...]] = (Weighted(graph_weight=1.0), Composite(recency=1.0, importance=1.0))
_RECORDED: Final = frozenset().union(
    *(stage.model_construct().reads for stage in STAGES.values()), *(stage.reads for stage in _SIGNALS)
) - {CONTENT}
"""The fields that any recipe reads: a recorded pool has all of them, or what was read from them."""


class Draft(NamedTuple):
    """The parts that the searches of one query have in common.

    `seen` is the filter of the documents that the query may see, `wanted` without those that its text excludes;
    `common` has the limit and the payload fields. `groups` are those that the searches are to find, if any.
    """

    query: InFlight
    seen: Condition
    wanted: Condition
    common: Body
    groups: Groups | None

    def search(self, start: Callable[[Narrowing], Program], *, alone: bool = False) -> Search:
        """A search for the groups, or for the limit alone."""
        query, groups, limit = self.query, self.groups, self.common["limit"]
        namespace = query.asked.canonical.namespace if alone else None
        if groups is None:
            return Search(lambda: start(Narrowing(limit)), query.trace, namespace)
        return Search(lambda: groups.search(limit, start), query.trace, namespace)


@dataclass(frozen=True, slots=True)
class Bodies:
    """Writes the searches of a leg, by its kind, under one configuration.

    `vectors` has the name of each leg's vector in the collections. `hnsw_ef`: how many candidates the vector legs look
    at in Qdrant's index, None: as many as Qdrant takes by itself.
    """

    vectors: Mapping[str, str | None]
    idf_of_namespace: bool
    destinations: Destinations = field(default_factory=lambda: Destinations({}))
    kinds: Mapping[str, str] = field(default_factory=dict)
    hnsw_ef: int | None = None

    def draft(self, query: InFlight) -> Draft:
        """The parts that the query's searches have in common."""
        seen = self._seen(query)
        common = {"limit": depth(query), "with_payload": _select_fields(query)}
        return Draft(query, seen, _without_excluded(query, seen), common, _groups(query, seen))

    def dense(self, leg: str, draft: Draft, vector: Any) -> Search:
        """The nearest documents by the query's vector."""
        query, asked = draft.query, draft.query.asked.canonical
        capabilities = query.retrieval.capabilities
        body = {"query": vector, **_using(self.vectors[leg]), "filter": draft.wanted, **draft.common}
        if asked.reflections_only and capabilities.exact:
            body["params"] = {"exact": True}
        elif self.hnsw_ef is not None:
            most = capabilities.limits.get("search_max_hnsw_ef", self.hnsw_ef)
            body["params"] = {"hnsw_ef": min(self.hnsw_ef, most)}
        if _wants_all(query):
            return Search(lambda: all_matching(body), query.trace, asked.namespace)
        return draft.search(lambda narrowing: nearest([narrowing.body(body)]))

    def sparse(self, leg: str, draft: Draft, vector: SparseVector) -> Search:
        """The documents that share most with a sparse vector of the query's text."""
        body = _by_terms(vector, self.vectors[leg], draft.wanted, draft.common)
        return draft.search(lambda narrowing: nearest([narrowing.body(body)]))

    def keyword(self, leg: str, draft: Draft, _: object) -> Search:
        """The best documents by BM25, and with a keyword expression those alone that match it."""
        query, parsed = draft.query, draft.query.retrieval.parsed
        if parsed is None or parsed.expression is None:
            return draft.search(self._by_keywords(leg, draft, draft.seen))
        expression, columns = parsed.expression, query.retrieval.filtered

        def search(endings: Endings) -> Callable[[Narrowing], Program]:
            return self._by_keywords(leg, draft, _narrow(draft.seen, keyword_conditions(expression, columns, endings)))

        open_ = open_endings(expression, columns)
        if not open_:
            return draft.search(search({}))
        wanted = {ending: _narrow(draft.seen, where) for ending, where in open_.items()}
        capabilities, most = query.retrieval.capabilities, ENDINGS
        if capabilities.conditions is not None:
            # Each ending is one condition of the search.
            without = keyword_conditions(expression, columns, dict.fromkeys(wanted, ()))
            others = filters.count(_narrow(draft.seen, without))
            most = max(1, min(most, (capabilities.conditions - others) // len(wanted)))

        def start(narrowing: Narrowing) -> Program:
            return with_endings(wanted, most, lambda endings: search(endings)(narrowing))

        return draft.search(start, alone=True)

    def _by_keywords(self, leg: str, draft: Draft, seen: Condition) -> Callable[[Narrowing], Program]:
        """The search by the query's terms, and for documents that match its expression and hold none of its terms."""
        query, retrieval = draft.query, draft.query.retrieval
        bodies: list[Body] = []
        scoring = leg == KEYWORD and not retrieval.capabilities.has("sparse")
        if retrieval.terms is not None and scoring and retrieval.parsed is not None:
            # The server makes the terms, as it made them for the index of the text.
            bodies = [{"query": {"text": retrieval.parsed.terms}, "using": TEXT, "filter": seen, **draft.common}]
        elif retrieval.terms is not None:
            counted = self._corpus(query, leg)
            bodies = [_by_terms(retrieval.terms, self.vectors[leg], seen, draft.common, counted)]
        scored = bool(bodies)
        if retrieval.uncovered and leg == KEYWORD:
            bodies.append({"filter": seen, **draft.common})
        search = nearest if scored else list_matching
        return lambda narrowing: search([narrowing.body(body) for body in bodies])

    def listing(self, _: str, draft: Draft, __: object) -> Search:
        """The documents that the filter matches, in the query's order, or the newest."""
        query, asked = draft.query, draft.query.asked.canonical
        body: Body = {"filter": draft.wanted, **draft.common}
        order = wanted_order(asked)
        orders = query.retrieval.capabilities.orders
        undated = orders is not None and "created_at" not in orders
        # A cursor has the value where its page goes on.
        hidden = asked.shape is not Shape.SEARCH and is_hidden("created_at", query.asked.plan.hidden)
        most = query.retrieval.capabilities.most
        if order["key"] == CREATED and (undated or hidden):
            # Nothing tells which are the newest: all records are of one value, and come by id.
            return draft.search(lambda narrowing: look_up(narrowing.body(body), most))
        ordered = {"order_by": order, **body}
        if asked.shape is Shape.SEARCH:
            return draft.search(lambda narrowing: look_up(narrowing.body(ordered), None))
        key, kind = order["key"], self.kinds.get(order["key"], "integer")
        if orders is not None:
            kind = orders[FIELDS.get(key, key)]
        return Search(lambda: look_up(ordered, most, lambda value: equal(key, kind, value)), query.trace)

    def _corpus(self, query: InFlight, leg: str) -> Condition | None:
        """The documents over which a term's rarity is counted, none of them hidden; None: all of the collection, or
        none, since Qdrant counts none for this vector.
        """
        if query.retrieval.capabilities.vectors.get("sparse" if leg == KEYWORD else "sparse_context") == "none":
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
    if not Groups.fit(seen, able.conditions):
        return None
    return Groups(grouping.field, max(1, depth(query) // PER_GROUP), able.most, able.indexed)


def _without_excluded(query: InFlight, seen: Condition) -> Condition:
    """The condition of the legs that don't search by words: what a keyword expression excludes isn't theirs, either."""
    parsed, columns = query.retrieval.parsed, query.retrieval.filtered
    if parsed is None or parsed.expression is None or not query.retrieval.capabilities.matches_words(columns):
        return seen
    excluded = exclusions(parsed.expression, columns)
    return {**seen, "must_not": [*seen.get("must_not", ()), *excluded]} if excluded else seen


def _narrow(seen: Mapping[str, Any], condition: Condition) -> Mapping[str, Any]:
    return {**seen, "must": [*seen["must"], condition]}


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


def _using(vector: str | None) -> dict[str, str]:
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

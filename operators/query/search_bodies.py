"""Bodies of searches: what each kind of leg asks Qdrant for a query.

A keyword expression becomes a condition of the filter (`operators.query.expression_conditions`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from operators.access import filters
from operators.query import facets, search
from operators.query.collection import MADE_FROM, MOST, ORDERED, Destinations
from operators.query.cursor import PoolSlice
from operators.query.expression_conditions import exclusions, keyword_conditions, open_endings
from operators.query.in_flight import InFlight
from operators.query.lookup import equal, look_up, look_up_nearest, records_to_ask, wanted_order
from operators.query.returned import is_hidden
from operators.query.search import Body, Condition, Endings, Explain, Groups, Narrow, Program, Search, narrow_by
from operators.query.zero_results import Criterion, explain_zero_results
from operators.ranking.blend import recency_weight
from operators.text.terms import SparseVector, trigrams_of_query
from schemas import document
from schemas.document import ACTOR_TYPE, CONTENT, CREATED, EXPIRES, FIELDS, NAMESPACE, REFLECTION, SUBJECT, TEXT, TYPE
from schemas.facets import Facet
from schemas.filters import Exists, spellings
from schemas.query import QueryShape
from schemas.recipes.fusion import Weighted
from schemas.recipes.recipe import STAGES
from schemas.recipes.stages import Composite
from schemas.result import FUZZY, KEYWORD, VECTOR

ENDINGS: Final = 256
"""Endings of one phrase at most: each is one condition of the search."""

PER_GROUP: Final = 2
"""Candidates of each leg for a group: with groups, a leg gives half as many groups as it is asked for candidates."""

BEYOND: Final = 3
"""Times the page is asked for where a stage on distance moves candidates."""

_ALONE: Final = frozenset({TYPE, "created_at", "updated_at", "cycle"})
"""The fields of reflections that ranking reads."""

_RECORDED: Final = frozenset().union(
    *(stage.model_construct().reads for stage in STAGES.values()),
    *(stage.reads for stage in (Weighted(graph_weight=1.0), Composite(recency=1.0, importance=1.0))),
) - {CONTENT, FIELDS}
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

    def nearest(self, *bodies: Body, explain: Explain | None = None) -> Search:
        if self.groups is None:
            return Search(partial(search.nearest, bodies, explain), self.query.trace)
        return self.search(lambda narrow: search.nearest([*map(narrow, bodies)]), explain=explain)

    def search(
        self, start: Callable[[Narrow], Program], *, alone: bool = False, explain: Explain | None = None
    ) -> Search:
        """A search for the groups, or for the limit alone; `explain` says why where nothing is found."""
        query, groups, limit = self.query, self.groups, self.common["limit"]
        namespace = query.asked.namespace if alone else None

        def run() -> Program:
            found = start(lambda body: body) if groups is None else groups.search(limit, start)
            return found if explain is None else search.or_explained(found, explain)

        return Search(run, query.trace, namespace)


@dataclass(frozen=True, slots=True)
class Bodies:
    """Writes the searches of a leg, by its kind, under one configuration.

    `vectors` has the name of each leg's vector in the collections, `kinds` the type of each field's index. `hnsw_ef`:
    how many candidates the vector legs look at in Qdrant's index, None: as many as Qdrant takes by itself.
    """

    vectors: Mapping[str, str | None]
    idf_of_namespace: bool
    destinations: Destinations = field(default_factory=lambda: Destinations({}))
    kinds: Mapping[str, str] = field(default_factory=dict)
    hnsw_ef: int | None = None

    def draft(self, query: InFlight) -> Draft:
        """The parts that the query's searches have in common."""
        seen = self.seen(query, self._criteria(query))
        limit, wanted = depth(query), _fields_to_read(query)
        selected: Any = sorted(wanted)
        if query.asked.understood:
            # Wishes may read any field that the documents brought.
            selected = {"exclude": sorted({*document.index_keys(query.retrieval.columns)} - wanted)}
        common = {"limit": limit, "with_payload": selected}
        return Draft(query, seen, _without_excluded(query, seen), common, _groups(query, seen, limit))

    def dense(self, leg: str, draft: Draft, vector: Any) -> Search:
        """The nearest documents by the query's vector."""
        query, plan, asked = draft.query, draft.query.asked.plan, draft.query.asked
        capabilities, only = query.retrieval.capabilities, asked.event.reflections_only
        # The vector without a name is the one that is searched where none is named.
        using = {"using": name} if (name := self.vectors[leg]) else {}
        body = {"query": vector, **using, "filter": draft.wanted, **draft.common}
        if only and capabilities.exact:
            body["params"] = {"exact": True}
        elif self.hnsw_ef is not None:
            most = capabilities.limits.get("search_max_hnsw_ef", self.hnsw_ef)
            body["params"] = {"hnsw_ef": min(self.hnsw_ef, most)}
        if only and capabilities.most >= MOST and recency_weight(plan.recipe, asked.event.current_cycle) > 0:
            # The best may be far from the query.
            return Search(lambda: search.all_matching(body), query.trace, asked.namespace)
        return draft.nearest(body, explain=partial(self._explain, query) if leg == VECTOR else None)

    def sparse(self, leg: str, draft: Draft, vector: SparseVector) -> Search:
        """The documents that share most with a sparse vector of the query's text."""
        return draft.nearest(by_terms(vector, self.vectors[leg], draft.wanted, draft.common))

    def fuzzy(self, leg: str, draft: Draft, _: object) -> Search:
        """The documents that share most with the trigrams of the query's unknown words, which are known when the search
        begins, with the texts in which words that are near to them are looked for.
        """
        retrieval, selected = draft.query.retrieval, draft.common["with_payload"]
        if not draft.query.asked.understood:
            selected = sorted({*selected, *retrieval.filtered})
        common = {**draft.common, "with_payload": selected}

        def start(narrow: Narrow) -> Program:
            trigrams = trigrams_of_query(word.text for word in retrieval.unknown)
            return search.nearest([narrow(by_terms(trigrams, self.vectors[leg], draft.wanted, common))])

        return draft.search(start)

    def keyword(self, leg: str, draft: Draft, _: object) -> Search:
        """The best documents by BM25, and with a keyword expression those alone that match it."""
        query, parsed, asked = draft.query, draft.query.retrieval.parsed, draft.query.asked.plan.recipe.fusion.legs
        alone = leg == KEYWORD and VECTOR not in asked and FUZZY not in asked
        explain = partial(self._explain, query, words=True) if alone else None
        if parsed is None or parsed.expression is None:
            return draft.nearest(*self._by_keywords(leg, draft, draft.seen), explain=explain)
        expression, columns = parsed.expression, query.retrieval.filtered

        def search_with(narrow: Narrow, endings: Endings) -> Program:
            seen = narrow_by(draft.seen, keyword_conditions(expression, columns, endings))
            return search.nearest([*map(narrow, self._by_keywords(leg, draft, seen))])

        open_ = open_endings(expression, columns)
        if not open_:
            return draft.search(lambda narrow: search_with(narrow, {}), explain=explain)
        wanted = {ending: narrow_by(draft.seen, where) for ending, where in open_.items()}
        capabilities, most = query.retrieval.capabilities, ENDINGS
        if capabilities.conditions is not None:
            # Each ending is one condition of the search.
            without = keyword_conditions(expression, columns, dict.fromkeys(wanted, ()))
            others = filters.count_conditions(narrow_by(draft.seen, without))
            most = max(1, min(most, (capabilities.conditions - others) // len(wanted)))

        def with_endings(narrow: Narrow) -> Program:
            return search.with_endings(wanted, most, partial(search_with, narrow))

        return draft.search(with_endings, alone=True, explain=explain)

    def _by_keywords(self, leg: str, draft: Draft, seen: Condition) -> list[Body]:
        """The search by the query's terms, and for documents that match its expression and hold none of its terms."""
        retrieval, bodies = draft.query.retrieval, list[Body]()
        scoring = leg == KEYWORD and not retrieval.capabilities.has("sparse")
        if retrieval.terms is not None and scoring and retrieval.parsed is not None:
            # The server makes the terms, as it made them for the index of the text.
            bodies = [{"query": {"text": retrieval.parsed.terms}, "using": TEXT, "filter": seen, **draft.common}]
        elif retrieval.terms is not None:
            counted = self.corpus(draft.query, leg)
            bodies = [by_terms(retrieval.terms, self.vectors[leg], seen, draft.common, counted)]
        if retrieval.uncovered and leg == KEYWORD:
            bodies.append({"filter": seen, **draft.common})
        return bodies

    def pins(self, _: str, draft: Draft, ids: Sequence[str]) -> Search:
        """The documents that rules pin, as far as the query's filters and its policy let it see them."""
        pinned = narrow_by(draft.seen, {"key": "id", "match": {"any": ids}})
        body = {**draft.common, "filter": pinned, "limit": len(ids)}
        return Search(partial(search.every, body), draft.query.trace)

    def listing(self, _: str, draft: Draft, __: object) -> Search:
        """The documents that the filter matches, in the query's order, or the newest."""
        query, asked = draft.query, draft.query.asked
        body: Body = {"filter": draft.wanted, **draft.common}
        able, explain = query.retrieval.capabilities, partial(self._explain, query)
        if (centre := asked.centre) is not None:
            nearest = partial(look_up_nearest, body, centre, asked.after.value, able)
            return Search(lambda: search.or_explained(nearest(), explain), query.trace, asked.namespace)
        order, orders, most = wanted_order(asked), able.orders, able.most
        undated = orders is not None and "created_at" not in orders
        # A cursor has the value where its page goes on.
        hidden = asked.shape is not QueryShape.SEARCH and is_hidden("created_at", query.asked.plan.hidden)
        if order["key"] == CREATED and (undated or hidden):
            # Nothing tells which are the newest: all records are of one value, and come by id.
            return draft.search(lambda narrow: look_up(narrow(body), most), explain=explain)
        ordered = {"order_by": order, **body}
        if asked.shape is QueryShape.SEARCH:
            return draft.search(lambda narrow: look_up(narrow(ordered), most), explain=explain)
        key, kind = order["key"], self.kinds.get(order["key"], "integer")
        if orders is not None:
            kind = orders[MADE_FROM.get(key, key)]
        look_up_sorted = partial(look_up, ordered, most, partial(equal, key, kind))
        return Search(lambda: search.or_explained(look_up_sorted(), explain), query.trace)

    def facets(self, _: str, draft: Draft, wanted: Sequence[Facet]) -> Search:
        """The counts of facets among what the query matches."""
        query, guard, able = draft.query, draft.query.asked.access_filter, draft.query.retrieval.capabilities
        criteria = self._criteria(query)
        by_words = KEYWORD in query.asked.plan.recipe.fusion.legs and able.keywords
        by_words = by_words and keywords_of(query) is not None
        reads = {facet.field for facet in wanted} | (guard.reads if guard is not None else frozenset())
        common = {"limit": able.most, "with_payload": sorted(reads)}

        def matching(left_out: str | None) -> tuple[Condition, Callable[[], Program] | None]:
            seen = self.seen(query, [each for each in criteria if left_out is None or not each.is_on(left_out)])
            by_filters = Draft(query, seen, seen, common, None)
            return seen, self.keyword(KEYWORD, by_filters, None).start if by_words else None

        own = frozenset(facet.field for facet in wanted if any(each.is_on(facet.field) for each in criteria))
        return Search(lambda: facets.count_facets(wanted, matching, own, guard, able), query.trace)

    def _explain(self, query: InFlight, words: bool = False) -> search.Explanation:
        """Why the query found nothing; `words`: it searched for its words alone."""
        asked, known = query.asked, query.retrieval.capabilities.fields
        hidden = asked.plan.hidden
        seen = {name: known[name] for name in known if not name.startswith("_") and not is_hidden(name, hidden)}
        where = f"the namespace {asked.namespace!r} of the destination {asked.destination!r}"
        criteria = self._criteria(query)
        return explain_zero_results(self.seen(query), criteria, where, seen, words=words)

    def corpus(self, query: InFlight, leg: str) -> Condition | None:
        """The documents over which a term's rarity is counted, none of them hidden; None: as the collection does."""
        if query.retrieval.capabilities.vectors.get("sparse" if leg == KEYWORD else "sparse_context") == "none":
            return None
        must = self._scope(query) if self.idf_of_namespace else []
        if query.asked.access_filter is not None:
            must += query.asked.access_filter.visible(query.retrieval.capabilities.condition)
        return {"must": must} if must else None

    def _scope(self, query: InFlight) -> list[Condition]:
        asked = query.asked
        tenant = {"key": NAMESPACE, "match": {"value": asked.namespace}}
        return [tenant, *self.destinations.conditions(asked.destination, query.asked.collection)]

    def _criteria(self, query: InFlight) -> list[Criterion]:
        """The conditions that the query itself sets."""
        event, able = query.asked.event, query.retrieval.capabilities
        scopes = ((SUBJECT, event.subject), (ACTOR_TYPE, event.actor_type))
        criteria = [
            Criterion(key, frozenset({key}), filters.equal_to(key, value)) for key, value in scopes if value is not None
        ]
        for number, each in enumerate(event.filters):
            ones = [one for _, one in filters.on_fields([each], "filters")]
            fields = frozenset(one.field for one in ones)
            criteria.append(Criterion(f"filters.{number}", fields, able.condition(each), ones))
        if event.order_by is not None and (centre := query.asked.centre) is not None:
            pointed = Exists.on(centre.field)
            criteria.append(Criterion("order_by", frozenset({centre.field}), able.condition(pointed)))
        if (like := event.like) is not None and like.every_id:
            # Examples are no results.
            others: Condition = {"must_not": [{"key": "id", "match": {"any": like.every_id}}]}
            criteria.append(Criterion("like", frozenset(), others))
        return criteria

    def seen(self, query: InFlight, criteria: Sequence[Criterion] = ()) -> Mapping[str, Any]:
        """The filter of the documents that the query may see, and that meet these criteria."""
        asked = query.asked
        must = self._scope(query)
        if query.retrieval.capabilities.expires:
            # By the flow's own clock: a query's `now` brings nothing back.
            must.append({"must_not": [{"key": EXPIRES, "range": {"lte": round(query.message.received * 1000)}}]})
        if criteria:
            must += [each.condition for each in criteria]
        able, guard = query.retrieval.capabilities, query.asked.access_filter
        # The place has the namespace already.
        if guard is not None and guard.hides:
            must += guard.conditions(able.condition)
        reflections = {"key": TYPE, "match": {"value": REFLECTION}}
        if asked.event.reflections_only:
            return {"must": [*must, reflections]}
        # Where filters need an index, and the type has none, there are no reflections to leave out.
        if query.asked.plan.include_reflections or (able.indexed is not None and TYPE not in able.indexed):
            return {"must": must}
        return {"must": must, "must_not": [reflections]}


def by_terms(
    terms: SparseVector, using: str | None, seen: Condition, common: Condition, counted: Condition | None = None
) -> Condition:
    """The search by a sparse vector; the rarity of its terms is counted over the documents `counted`."""
    params = {"params": {"idf": {"corpus": counted}}} if counted is not None else {}
    sparse = {"indices": terms.indices, "values": terms.values}
    return {"query": sparse, "using": using, "filter": seen, **common, **params}


def _groups(query: InFlight, seen: Condition, limit: int) -> Groups | None:
    """The groups that the query's legs are to find; None if one request of each has to do."""
    grouping, able = query.asked.plan.grouping, query.retrieval.capabilities
    # All reflections are ranked in any case.
    if grouping is None or query.asked.event.reflections_only:
        return None
    if able.conditions is not None and filters.count_conditions(seen) + search.LEAVES > able.conditions:
        return None
    return Groups(grouping.field, max(1, limit // PER_GROUP), able)


def _without_excluded(query: InFlight, seen: Condition) -> Condition:
    """The condition of the legs that don't search by words: what a keyword expression excludes isn't theirs, either."""
    parsed, columns = query.retrieval.parsed, query.retrieval.filtered
    if parsed is None or parsed.expression is None or not query.retrieval.capabilities.matches_words(columns):
        return seen
    excluded = exclusions(parsed.expression, columns)
    return narrow_by(seen, *excluded, clause="must_not") if excluded else seen


def depth(query: InFlight) -> int:
    """The number of candidates that each leg is asked for: the same on each page, at most what a search may give."""
    asked = query.asked
    if asked.shape is not QueryShape.SEARCH:
        return records_to_ask(asked.after, asked.limit + len(asked.given))
    return min(wanted_depth(query), query.retrieval.capabilities.most)


def wanted_depth(query: InFlight) -> int:
    """The number of candidates that a search would ask each leg for in a collection that gives them."""
    asked, plan, page = query.asked, query.asked.plan, query.asked.limit
    if asked.event.reflections_only:
        return MOST
    if asked.cursor is not None and isinstance(asked.cursor.position, PoolSlice):
        return min(asked.cursor.position.depth, MOST)
    wanted = max(page, plan.profile.over_sample)
    if plan.recipe.distance or plan.picking is not None:
        wanted = max(wanted, BEYOND * page)
    if plan.grouping is not None:
        wanted = max(wanted, PER_GROUP * page)
    return min(wanted, MOST)


def _fields_to_read(query: InFlight) -> frozenset[str]:
    """The payload fields that ranking, the post-filter check, or a recorded pool needs."""
    asked = query.asked
    # Documents of equal value go by their own ids.
    wanted = frozenset({"id"})
    if asked.shape is QueryShape.SEARCH:
        wanted |= query.asked.plan.recipe.reads
        if query.asked.plan.recipe.reads_searched:
            wanted |= {*query.retrieval.columns}
        if asked.event.reflections_only:
            wanted |= _ALONE
        if (order_by := asked.event.order_by) is not None:
            wanted |= {ORDERED.get(order_by.field, order_by.field), *spellings(order_by.field)}
    elif (centre := asked.centre) is not None:
        wanted |= {*spellings(centre.field)}
    if query.asked.plan.grouping is not None:
        wanted |= {query.asked.plan.grouping.field}
        if query.retrieval.capabilities.expires:
            wanted |= {EXPIRES}
    if asked.event.record:
        wanted |= _RECORDED
    if asked.ruling is not None:
        wanted |= asked.ruling.reads
    return wanted | query.asked.access_filter.reads if query.asked.access_filter is not None else wanted


def keywords_of(query: InFlight) -> Any:
    """The terms of the query's words; `()` if documents match them that hold none of the terms, None without words."""
    return query.retrieval.terms if query.retrieval.terms is not None or not query.retrieval.uncovered else ()


def vector_of(query: InFlight) -> Any:
    """The query's vector, its own before the embedder's; None without one, and for a zero vector."""
    asked = query.asked
    if asked.event.vector is not None:
        return asked.event.vector if any(asked.event.vector) else None
    embedding = query.retrieval.embedding
    return embedding.vector if embedding is not None and embedding.directed else None

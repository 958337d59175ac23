"""Legs: the ways in which a query searches a collection. CONTRIBUTING.md lists the places of a new one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from operators.query.collection import Capabilities
from operators.query.examples import by_vectors, by_words
from operators.query.in_flight import InFlight
from operators.query.search import Search
from operators.query.search_bodies import Bodies, Draft, keywords_of, vector_of
from schemas.errors import Reason
from schemas.query import Like, QueryShape
from schemas.result import FACETS, FUZZY, KEYWORD, KEYWORD_CONTEXT, LEARNED, PINNED, STRUCTURED, VECTOR, VECTOR_CONTEXT


@dataclass(frozen=True, slots=True)
class LegSpec:
    """One leg.

    - `reads` gives what of the query it searches by: `()` if it needs nothing, None if there is nothing; `unready` is
      the reason for that, unless the `stage` that makes it lost it. `write` makes its search: a method of `Bodies`.
    - `able`: a collection has something to search; `lacking` is the reason where it has not, or where the leg is not
      configured, and `warning` is said then. `against`: a collection would rank the wrong way round.
    - `liken` makes its search by the documents of the query's `like`; None where it cannot compare documents.
    - `always`: results list it even if the recipe does not want it. `last`: it is asked when the other legs are there.
    """

    name: str
    reads: Callable[[InFlight], Any]
    write: Callable[[Bodies, str, Draft, Any], Search]
    able: Callable[[Capabilities], bool] = lambda _: True
    lacking: Reason = Reason.NO_SPARSE_VECTOR
    unready: Reason = Reason.NO_TERMS
    against: Callable[[Capabilities], bool] = lambda _: False
    stage: str = ""
    warning: str = ""
    liken: Callable[[Bodies, str, Draft, Like], Search | None] | None = None
    always: bool = False
    last: bool = False

    def askable(self, query: InFlight) -> bool:
        """True if the query has something to search by, and the collection something to search."""
        like = query.asked.event.like
        likens = like is not None and self.liken is not None and like.every_id
        return self.able(query.retrieval.capabilities) and bool(likens or self.reads(query) is not None)

    def is_refused(self, query: InFlight) -> bool:
        """True if the leg is not asked because the collection would rank the wrong way round."""
        return self.against(query.retrieval.capabilities) and self.askable(query)

    def why_skipped(self, query: InFlight) -> Reason:
        """The reason why the query did not ask the leg."""
        if self.name not in recipe_legs(query):
            return Reason.RECIPE
        written = self.name in (query.retrieval.searches or ())
        if not self.able(query.retrieval.capabilities) or (self.reads(query) is not None and not written):
            return self.lacking
        own = self.stage == "embed" and query.asked.event.vector is not None
        if self.stage and not own and not query.asked.plan.profile.semantic:
            return Reason.PROFILE
        return dict(query.outcome.degraded).get(self.stage, self.unready)


_NO_CONTEXT: Final = (
    f"{Reason.NO_CONTEXT}: the recipe searches documents together with their neighbours, and the collection has no"
    " vectors of them: see qdrant.context"
)
_NO_LEARNED: Final = (
    f"{Reason.NO_SPARSE_VECTOR}: the recipe gives weight to the leg learned, and the collection has no vector for it:"
    " see sparse_encoder and qdrant.vectors.learned"
)


def _encoding(query: InFlight) -> Any:
    encoding = query.retrieval.encoding
    return encoding if encoding is not None and encoding.indices else None


def _pins(query: InFlight) -> Any:
    return [*query.asked.ruling.pins] if query.asked.ruling is not None else None


def _has(vector: str) -> Callable[[Capabilities], bool]:
    return lambda able: able.has(vector)


_TABLE: Final = (
    LegSpec(
        VECTOR,
        vector_of,
        Bodies.dense,
        unready=Reason.NO_VECTOR,
        against=lambda able: not able.has("dense"),
        stage="embed",
        liken=by_vectors,
        always=True,
    ),
    LegSpec(KEYWORD, keywords_of, Bodies.keyword, lambda able: able.keywords, liken=by_words, always=True),
    LegSpec(STRUCTURED, lambda _: (), Bodies.listing),
    LegSpec(FUZZY, lambda query: query.retrieval.words or None, Bodies.fuzzy, _has("fuzzy"), last=True),
    LegSpec(
        KEYWORD_CONTEXT,
        lambda query: query.retrieval.terms,
        Bodies.keyword,
        _has("sparse_context"),
        Reason.NO_CONTEXT,
        warning=_NO_CONTEXT,
        liken=by_words,
    ),
    LegSpec(LEARNED, _encoding, Bodies.sparse, _has("learned"), stage="encode", warning=_NO_LEARNED),
    LegSpec(
        VECTOR_CONTEXT,
        vector_of,
        Bodies.dense,
        _has("dense_context"),
        Reason.NO_CONTEXT,
        Reason.NO_VECTOR,
        stage="embed",
        warning=_NO_CONTEXT,
        liken=by_vectors,
    ),
    LegSpec(PINNED, _pins, Bodies.pins),
    LegSpec(FACETS, lambda query: query.asked.event.facets, Bodies.facets),
)

LEG_SPECS: Final = {leg.name: leg for leg in _TABLE}
"""All legs by name, in the order in which their hits are taken over."""

_LAST: Final = {leg.name for leg in _TABLE if leg.last}


def recipe_legs(query: InFlight) -> Sequence[str]:
    """The names of the legs that the query's recipe wants; of reflections alone the nearest, or the newest."""
    if query.asked.event.reflections_only:
        return (VECTOR,) if vector_of(query) is not None else (STRUCTURED,)
    return query.asked.plan.recipe.fusion.legs


def legs(query: InFlight) -> Sequence[str]:
    """The names of the legs that the query wants: a lookup's one, or else those of its recipe.

    A query that has nothing for any of them, and lost nothing, has those of the recipe that need nothing.
    """
    asked, fusion = query.asked, query.asked.plan.recipe.fusion
    if asked.shape is not QueryShape.SEARCH:
        return (STRUCTURED,)
    wanted = recipe_legs(query)
    if asked.event.reflections_only:
        return wanted
    if fusion.unasked and not query.outcome.degraded and not any(LEG_SPECS[leg].askable(query) for leg in wanted):
        wanted = fusion.unasked
    # A shipped recipe weighs this leg, whether or not there are trigrams.
    elif "fuzzy" not in query.retrieval.capabilities.vectors:
        wanted = [leg for leg in wanted if leg != FUZZY]
    return wanted if asked.ruling is None or not asked.ruling.pins else (*wanted, PINNED)


def reads_of(stage: str, names: Iterable[str], able: Capabilities | None = None) -> bool:
    """True if one of these legs reads the vector that the stage makes, in a collection that can be searched by it."""
    return any(LEG_SPECS[name].stage == stage and (able is None or LEG_SPECS[name].able(able)) for name in names)


@dataclass(frozen=True, slots=True)
class Searches:
    """Writes the search of each leg that is `built`, by the leg's name."""

    bodies: Bodies
    built: frozenset[str] = frozenset(LEG_SPECS)

    def __call__(self, query: InFlight) -> InFlight:
        """The query with its searches."""
        searches = query.retrieval.searches = self.write(query)
        query.retrieval.legs_left = len(searches.keys() - _LAST)
        return query

    def write(self, query: InFlight) -> dict[str, Search]:
        """The searches of the legs that the query can ask."""
        draft, able, like = self.bodies.draft(query), query.retrieval.capabilities, query.asked.event.like
        searches = {}
        wanted_legs = legs(query) if query.asked.event.facets is None else (*legs(query), FACETS)
        for leg in map(LEG_SPECS.__getitem__, wanted_legs):
            if not (leg.name in self.built and leg.able(able) and not leg.against(able)):
                continue
            search = None
            if like is not None and like.every_id and leg.liken is not None:
                search = leg.liken(self.bodies, leg.name, draft, like)
            if search is None and (wanted := leg.reads(query)) is not None:
                search = leg.write(self.bodies, leg.name, draft, wanted)
            if search is not None:
                searches[leg.name] = search
        return searches

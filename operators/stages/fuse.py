"""Fuse: the branches of the legs join, and the lists of a query's legs become one.

A query waits at `join` until each leg has given its item. Queries leave in the order in which their last leg came. What
the legs found is taken over in the legs' own order, whatever the order in which they came. `fuse` answers a query as
failed if all of its legs are lost, and ranks the others by the recipe's stages before `rerank`.

Between the two is the leg fuzzy, for queries with a word that no candidate of the other legs has. Its weight is that of
such words, and further candidates leave fewer of them. So any other query is answered as if the leg had been asked.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import repeat
from time import monotonic
from typing import Any, ClassVar, Final

from bytewax import operators as op
from bytewax.dataflow import operator
from bytewax.operators import StatefulBatchLogic
from typing_extensions import override

from operators.query.backend_answers import Hits
from operators.query.canonical import Shape
from operators.query.in_flight import Found, InFlight
from operators.query.outcome import is_given
from operators.query.paging import find_page
from operators.query.search_bodies import askable, depth, legs, vector_of, wanted_depth
from operators.ranking.candidate import Candidate, Leg, document, in_tie_order, union
from operators.ranking.coverage import find_missing, find_misspelt
from operators.ranking.marks import find_matches, narrow
from operators.ranking.pipeline import first_phase, keep_order
from operators.ranking.run import Matches
from operators.runtime.stage import Batch, Batches, run_step
from operators.stages.leg import Leg as SearchLeg
from operators.stages.leg import is_searched
from schemas.document import MARKS
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.result import (
    CONTEXT_LEGS,
    FUZZY,
    KEYWORD,
    KEYWORD_CONTEXT,
    LEARNED,
    LEGS,
    STRUCTURED,
    VECTOR,
    VECTOR_CONTEXT,
    WEIGHED_LEGS,
    LegStatus,
    RetrievalStage,
)

_UNASKED: Final = f"{Reason.NO_TERMS}: the query has nothing that a leg of its recipe and profile could search by"
_UNMATCHED: Final = (
    "no document matches the text as a keyword expression, which quotes, capital AND, OR and NOT, prefix* and column"
    " filters make of it: without them the text is read as words"
)
_SAID: Final = (Reason.NO_TERMS, Reason.NO_SPARSE_VECTOR)
_NO_CONTEXT: Final = (
    f"{Reason.NO_CONTEXT}: the recipe searches documents together with their neighbours, and the collection has no"
    " vectors of them: see qdrant.context"
)
_NO_LEARNED: Final = (
    f"{Reason.NO_SPARSE_VECTOR}: the recipe gives weight to the leg learned, and the collection has no vector for it:"
    " see sparse_encoder and qdrant.vectors.learned"
)


def join(step_id: str, passing: Batches, *legs: Batches | None) -> Batches:
    """Join the branches of the legs, and pass on each query once all have given it, with what they found.

    None is a leg that is not built.
    """
    return _join(step_id, passing, *(each for each in legs if each is not None))


@operator
def _join(step_id: str, passing: Batches, *legs: Batches) -> Batches:
    merged = op.merge("branches", passing, *legs)
    return op.stateful_batch("missing", merged, lambda _: Join(len(legs)))


class Join(StatefulBatchLogic[Batch, Batch, None]):
    """Joins the items of all built legs. Its state is the queries for which a leg is still missing."""

    def __init__(self, legs: int) -> None:
        self._legs = legs
        # By id: a query lives as long as a leg has yet to give it.
        self._missing: dict[int, int] = {}

    @override
    def on_batch(self, batches: list[Batch]) -> tuple[Iterable[Batch], bool]:
        out: Batch = []
        complete: list[InFlight] = []
        for items in batches:
            for item in items:
                if not is_searched(item):
                    out.append(item)
                elif self._count(item):
                    complete.append(item)
        return [[*out, *run_step("retrieve", complete, take_over)]], self.RETAIN

    def snapshot(self) -> None:
        """Keep nothing: the next owner of a partition reads its unanswered queries from Kafka again."""
        return

    def _count(self, query: InFlight) -> bool:
        """Count a leg's item; true if it was the last one of its query."""
        missing = self._missing.pop(id(query), self._legs) - 1
        if missing:
            self._missing[id(query)] = missing
        return not missing


def take_over(query: InFlight) -> InFlight:
    """Take over what each leg answered, and say of the others why they were not asked."""
    asked = query.asked.canonical
    wanted = legs(query)
    found, query.retrieval.found = query.retrieval.found, {}
    for name in (*LEGS, *(leg for leg in WEIGHED_LEGS if leg in wanted)):
        outcome = found.get(name)
        if outcome is None and name == VECTOR and _against(query):
            query.outcome.legs[name] = Leg(name, LegStatus.FAILED, reason=Reason.REFUSED)
            query.lose(name, Reason.REFUSED)
        elif outcome is not None:
            _take_over_leg(query, name, outcome)
        elif name != STRUCTURED and asked.shape is Shape.SEARCH:
            query.outcome.legs[name] = Leg(name, LegStatus.SKIPPED, reason=_why_skipped(query, name))
    if any(leg.reason is Reason.NO_CONTEXT for leg in query.outcome.legs.values()):
        query.outcome.warnings.append(_NO_CONTEXT)
    if LEARNED in query.outcome.legs and query.outcome.legs[LEARNED].reason is Reason.NO_SPARSE_VECTOR:
        query.outcome.warnings.append(_NO_LEARNED)
    query.check_found()
    for name, leg in query.outcome.legs.items():
        if leg.status is not LegStatus.SKIPPED:
            query.passed(name, len(leg.ids))
    return query


def add_leg(query: InFlight, name: str, outcome: Found | BackendError) -> InFlight:
    """Take over what one leg more answered, which was asked behind the others."""
    _take_over_leg(query, name, outcome)
    query.check_found()
    query.passed(name, len(query.outcome.legs[name].ids))
    return query


def _take_over_leg(query: InFlight, name: str, outcome: Found | BackendError) -> None:
    if isinstance(outcome, BackendError):
        late = isinstance(outcome, BackendTimeout)
        query.outcome.legs[name] = Leg(name, LegStatus.TIMEOUT if late else LegStatus.FAILED, reason=outcome.reason)
        query.lose(name, outcome.reason)
        return
    query.outcome.legs[name] = _to_leg(query, name, outcome)
    query.outcome.warnings += outcome.warnings
    if outcome.lost is not None:
        query.lose(name, outcome.lost)


@dataclass(frozen=True)
class Fuzzy(SearchLeg):
    """Carries the searches of queries with a misspelt word to Qdrant. All items go through it: it is no branch."""

    branch: ClassVar = False

    @override
    def takes(self, item: Any) -> bool:
        return super().takes(item) and not item.answered

    @override
    def wants(self, item: InFlight) -> bool:
        return super().wants(item) and is_misspelt(item)

    @override
    def wakes(self, item: InFlight) -> bool:
        return True

    @override
    def on_result(self, item: InFlight, outcome: Found | BackendError) -> InFlight:
        return add_leg(item, self.name, outcome)


def is_misspelt(query: InFlight) -> bool:
    """True if a word of the query that may be misspelt is in no candidate: the leg fuzzy may find what was meant.

    Keeps the matches that it finds, for ranking.
    """
    found = _answered(query)
    query.outcome.matches = _matches(query, found)
    return find_missing(union(found).keys(), query.outcome.matches) > 0


def fuse(query: InFlight) -> InFlight:
    """Rank what the legs found; a query all of whose legs are lost is answered as failed."""
    answered = bool(_answered(query))
    if not answered and {"embed", "encode", *LEGS, *WEIGHED_LEGS} & dict(query.outcome.degraded).keys():
        query.outcome.failed = query.answered = True
    elif not answered and not any(said.startswith(_SAID) for said in query.outcome.warnings):
        query.outcome.warnings.append(_UNASKED)
    if query.asked.canonical.shape is Shape.SEARCH:
        _tell_limits(query)
    return query if query.answered else fuse_legs(query)


def _answered(query: InFlight) -> list[Leg]:
    return [leg for leg in query.outcome.legs.values() if leg.status is LegStatus.OK]


def _against(query: InFlight) -> bool:
    """True if the vector leg would rank the wrong way round, and was not asked for that."""
    return not query.retrieval.capabilities.similar and VECTOR in legs(query) and vector_of(query) is not None


def _tell_limits(query: InFlight) -> None:
    most, wanted = depth(query), wanted_depth(query)
    keyword = query.outcome.legs[KEYWORD]
    parsed = query.retrieval.parsed
    if keyword.status is LegStatus.OK and not keyword.ids and parsed is not None and parsed.expression is not None:
        query.outcome.warnings.append(_UNMATCHED)
    if not any(leg.more for leg in query.outcome.legs.values()):
        return
    if query.asked.canonical.reflections_only:
        ranked = max(len(leg.ids) for leg in query.outcome.legs.values())
        query.outcome.warnings.append(f"there may be more reflections than the {ranked} that were ranked")
    elif most < wanted:
        query.outcome.warnings.append(
            f"the collection gives {most} candidates to a search (max_query_limit), and the query asked for {wanted}"
        )


def _to_leg(query: InFlight, name: str, found: Found) -> Leg:
    asked = query.asked.canonical
    if asked.shape is Shape.SEARCH:
        # A document below the bound of relevance may hide one of its group that is above it.
        grouped = found.more if query.asked.plan.min_relevance == 0 else None
        full = len(found.hits.ids) >= depth(query) and not found.whole
        more = grouped if grouped is not None else full
        return Leg(name, LegStatus.OK, *_tied_by_document(found.hits), more=more)
    page = find_page(found.values, asked.after, asked.limit, _find_given(found, asked.given), len(asked.given))
    leg = Leg(name, LegStatus.OK, *found.hits).at(page.indexes)
    query.retrieval.ends, query.outcome.more = dict(zip(leg.ids, page.ends, strict=True)), page.more
    query.retrieval.end = page.ends[-1] if page.ends else None
    return leg


def _tied_by_document(hits: Hits) -> Hits:
    """The hits, those of one score by the ids of their documents: Qdrant gives them in the order of its points."""
    if len(set(hits.scores)) == len(hits.scores):
        return hits
    found = zip(hits.ids, hits.scores, hits.payloads, strict=True)
    keys = [(-score, document(id_, payload)) for id_, score, payload in found]
    return hits.at(sorted(range(len(keys)), key=keys.__getitem__))


def _find_given(found: Found, given: Set[bytes]) -> set[int]:
    """The indexes of the records that earlier pages gave."""
    if not given:
        return set()
    found_records = map(Candidate, found.hits.ids, repeat(0.0), found.hits.payloads)
    return {index for index, each in enumerate(found_records) if is_given(each, given)}


def _why_skipped(query: InFlight, leg: str) -> Reason:
    recipe = query.asked.plan.recipe.fusion.legs
    if leg not in (legs(query) if query.asked.canonical.reflections_only else recipe):
        return Reason.RECIPE
    able = query.retrieval.capabilities
    if leg in CONTEXT_LEGS and askable(query, leg):
        # It has something to search, and is not built.
        return Reason.NO_CONTEXT
    if (leg == VECTOR_CONTEXT and not able.dense_context) or (leg == KEYWORD_CONTEXT and not able.sparse_context):
        return Reason.NO_CONTEXT
    if leg == KEYWORD_CONTEXT:
        return Reason.NO_TERMS
    if leg == KEYWORD:
        return Reason.NO_TERMS if query.retrieval.capabilities.keywords else Reason.NO_SPARSE_VECTOR
    if leg == FUZZY:
        return Reason.NO_TERMS if able.fuzzy else Reason.NO_SPARSE_VECTOR
    lost, semantic = dict(query.outcome.degraded), query.asked.plan.profile.semantic
    if leg == LEARNED:
        if not able.learned:
            return Reason.NO_SPARSE_VECTOR
        return lost.get("encode", Reason.NO_TERMS) if semantic else Reason.PROFILE
    if not semantic and query.asked.canonical.vector is None:
        return Reason.PROFILE
    return lost.get("embed", Reason.NO_VECTOR)


def _matches(query: InFlight, legs: Sequence[Leg]) -> Matches | None:
    retrieval = query.retrieval
    first = next((leg.payloads[0] for leg in in_tie_order(legs) if leg.ids), {MARKS: ""})
    # One without marks is enough for nothing to be known: collections of other tools have none.
    if not isinstance(first.get(MARKS), str):
        return None
    return find_matches(retrieval.words, union(legs), retrieval.columns)


def fuse_legs(query: InFlight) -> InFlight:
    """Rank the legs' hits."""
    query.started = monotonic()
    asked, plan, outcome = query.asked.canonical, query.asked.plan, query.outcome
    legs = _answered(query)
    if asked.shape is Shape.SEARCH:
        fuzzy = any(leg.name == FUZZY for leg in legs)
        reads = MARKS in plan.recipe.reads or asked.recorded is not None
        if fuzzy or (reads and outcome.matches is None):
            outcome.matches = _matches(query, legs)
        if fuzzy and not find_misspelt(legs, outcome.matches):
            # Nothing is misspelt: the query is answered as if the leg had not been asked.
            outcome.legs[FUZZY] = Leg(FUZZY, LegStatus.SKIPPED, reason=Reason.NO_TERMS)
            legs = [leg for leg in legs if leg.name != FUZZY]
            if outcome.matches is not None:
                outcome.matches = narrow(outcome.matches, union(legs))
            else:
                # Candidates that this leg alone found may have no marks: nothing was known for them.
                outcome.matches = _matches(query, legs)
        facts = plan.facts(asked, asked.now, query.retrieval.temporal_expression, outcome.matches)
        outcome.rank(first_phase(plan.recipe, legs, facts))
    else:
        outcome.rank(keep_order(legs, explain=asked.explain))
    candidates = len(outcome.candidates)
    query.trace.child(
        "fuse", query.started, {"rankstream.recipe": plan.recipe.name, "rankstream.candidates": candidates}
    )
    if asked.shape is Shape.SEARCH:
        query.passed(RetrievalStage.HYBRID_MERGE.value, candidates)
    return query

"""Fuse: the branches of the legs join, and the lists of a query's legs become one.

A query waits until each leg that it asks has given its item. Queries leave in the order in which their last leg came.
What the legs found is taken over in the legs' own order, whatever the order in which they came. A query all of whose
legs are lost is answered as failed; the others are ranked by the recipe's stages before `rerank`.

A query with a word that no candidate has leaves unfused if the leg fuzzy is asked for it, and is fused behind that leg.
The leg proposes documents by their trigrams, and its hits are those that hold a word which is near to such a word: it
is then read for the near ones, in all candidates. Any other query is answered as without the leg.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat
from time import monotonic
from typing import ClassVar, Final

from bytewax import operators as op
from bytewax.dataflow import operator
from bytewax.operators import StatefulBatchLogic
from typing_extensions import override

from operators.collections.catalogue import Catalogue
from operators.query.backend_answers import Hits
from operators.query.in_flight import InFlight
from operators.query.legs import LEG_SPECS, legs
from operators.query.lookup import find_page
from operators.query.outcome import Counted, is_given
from operators.query.search import Found, Search
from operators.query.search_bodies import depth, wanted_depth
from operators.ranking.candidate import Candidate, Leg, document, union
from operators.ranking.content import join_fields
from operators.ranking.coverage import find_unknown
from operators.ranking.marks import find_matches
from operators.ranking.pipeline import first_phase, keep_order
from operators.ranking.run import Matches
from operators.runtime.dispatcher import BatchKey
from operators.runtime.stage import Batch, Batches, run_step
from operators.stages.leg import SearchLeg, count_branches
from operators.text.nearness import may_be_near, read_near, replace
from operators.wire.message import Attributes
from schemas.document import MARKS
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.query import QueryShape
from schemas.result import FACETS, FUZZY, KEYWORD, PINNED, LegStatus, RetrievalStage

_UNASKED: Final = f"{Reason.NO_TERMS}: the query has nothing that a leg of its recipe and profile could search by"
_UNMATCHED: Final = (
    "no document matches the text as a keyword expression, which quotes, capital AND, OR and NOT, prefix* and column"
    " filters make of it: without them the text is read as words"
)
_READ: Final = 8_000
"""Characters of a document in which near words are looked for."""

_SAID: Final = (Reason.NO_TERMS, Reason.NO_SPARSE_VECTOR)


@operator
def fuse(step_id: str, passing: Batches, *legs: Batches) -> Batches:
    """Join the branches of the legs, and fuse each query once all have given it."""
    return op.stateful_batch("missing", op.merge("branches", passing, *legs), lambda _: Fusion())


class Fusion(StatefulBatchLogic[Batch, Batch, None]):
    """Fuses the hits of the legs. Its state is the queries for which a leg is still missing."""

    def __init__(self) -> None:
        # By id: a query lives as long as a leg has yet to give it.
        self._missing: dict[int, int] = {}

    def on_batch(self, batches: list[Batch]) -> tuple[Iterable[Batch], bool]:
        out: Batch = []
        complete: list[InFlight] = []
        for item in chain.from_iterable(batches):
            if not isinstance(item, InFlight) or item.retrieval.searches is None:
                out.append(item)
                continue
            missing = (self._missing.pop(id(item), None) or count_branches(item)) - 1
            if missing > 0:
                self._missing[id(item)] = missing
            else:
                complete.append(item)
        return [[*out, *run_step("fuse", complete, complete_legs)]], self.RETAIN

    def snapshot(self) -> None:
        """Keep nothing: the next owner of a partition reads its unanswered queries from Kafka again."""


def complete_legs(query: InFlight) -> InFlight:
    """Take over what the legs found, and fuse it, unless the leg fuzzy is asked first."""
    take_over(query)
    return query if FUZZY in (query.retrieval.searches or ()) and is_misspelt(query) else rank_hits(query)


def take_over(query: InFlight) -> InFlight:
    """Take over what each leg answered, and say of the others why they were not asked."""
    wanted = legs(query)
    searched = query.asked.shape is QueryShape.SEARCH
    found, query.retrieval.found = query.retrieval.found, {}
    counted = found.pop(FACETS, None)
    for name, leg in LEG_SPECS.items():
        outcome = found.get(name)
        if outcome is not None:
            _take_over_leg(query, name, outcome)
        elif name in wanted and leg.is_refused(query):
            query.outcome.legs[name] = Leg(name, LegStatus.FAILED, reason=Reason.REFUSED)
            query.lose(name, Reason.REFUSED)
        elif searched and (leg.always or name in wanted):
            query.outcome.legs[name] = Leg(name, LegStatus.SKIPPED, reason=leg.why_skipped(query))
    lacking = (LEG_SPECS[name] for name, hits in query.outcome.legs.items() if hits.reason is LEG_SPECS[name].lacking)
    query.outcome.warnings += dict.fromkeys(leg.warning for leg in lacking if leg.warning)
    query.check_found()
    for name, hits in query.outcome.legs.items():
        if hits.status is not LegStatus.SKIPPED:
            query.passed(name, len(hits.ids))
    if counted is not None:
        _take_over_counts(query, counted)
    return query


def _take_over_counts(query: InFlight, found: Found | BackendError) -> None:
    if isinstance(found, BackendError):
        query.outcome.counted = Counted(_status(found), found.reason)
        query.lose(FACETS, found.reason)
    else:
        query.outcome.counted = Counted(LegStatus.OK, None, found.counts)
        query.passed(FACETS)


def _status(error: BackendError) -> LegStatus:
    return LegStatus.TIMEOUT if isinstance(error, BackendTimeout) else LegStatus.FAILED


def add_leg(query: InFlight, name: str, outcome: Found | BackendError) -> InFlight:
    """Take over what one leg more answered, which was asked behind the others."""
    _take_over_leg(query, name, outcome)
    query.check_found()
    query.passed(name, len(query.outcome.legs[name].ids))
    return query


def _take_over_leg(query: InFlight, name: str, outcome: Found | BackendError) -> None:
    if isinstance(outcome, BackendError):
        query.outcome.legs[name] = Leg(name, _status(outcome), reason=outcome.reason)
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

    catalogue: Catalogue

    @override
    def ask(self, query: InFlight) -> tuple[BatchKey, Search] | None:
        return None if query.outcome.ranked or not query.retrieval.unknown else super().ask(query)

    @override
    def wakes(self, item: InFlight) -> bool:
        return True

    @override
    def on_result(self, item: InFlight, outcome: Found | BackendError) -> InFlight:
        add_leg(item, self.name, outcome)
        if item.outcome.legs[self.name].status is LegStatus.OK:
            self._read_near(item)
        return rank_hits(item)

    def _read_near(self, query: InFlight) -> None:
        """Read unknown words for those that are near to them, and keep the hits that hold one; without any the query is
        answered as if the leg had not been asked.
        """
        retrieval, legs = query.retrieval, query.outcome.legs
        leg = legs[self.name]
        texts = (join_fields(payload, retrieval.filtered)[:_READ] for payload in leg.payloads)
        terms = self.catalogue.analyser(query.asked.collection).terms_of
        readings = read_near(retrieval.unknown, texts, terms)
        found = find_matches([*chain(*readings.values())], union([leg]), retrieval.columns)
        ids = frozenset[str]().union(*found.fields.values()) if found is not None else frozenset[str]()
        if not ids:
            legs[self.name] = Leg(self.name, LegStatus.SKIPPED, reason=Reason.NO_TERMS)
            return
        legs[self.name] = leg.at([rank for rank, id_ in enumerate(leg.ids) if id_ in ids])
        retrieval.words = replace(retrieval.words, readings)
        if (matcher := retrieval.matcher) is not None:
            retrieval.matcher = cache(lambda: matcher().read(readings))
        query.outcome.matches = _matches(query, _answered(query))


def is_misspelt(query: InFlight) -> bool:
    """True if a word of the query that may be misspelt is in no candidate: the leg fuzzy may find what was meant.

    Keeps the matches that it finds, for ranking, and these words, for the leg.
    """
    found, retrieval = _answered(query), query.retrieval
    matches = query.outcome.matches = _matches(query, found)
    if matches is not None:
        unknown = find_unknown(matches, frozenset().union(*[leg.ids for leg in found]))
        retrieval.unknown = [word for word in retrieval.words if word.text in unknown and may_be_near(word.text)]
    return bool(retrieval.unknown)


def rank_hits(query: InFlight) -> InFlight:
    """Rank what the legs found; a query all of whose legs are lost is answered as failed."""
    # A search holds its query: together they would stay until garbage is collected, and the next query would find no
    # memory that the processor's caches have.
    query.retrieval.searches = dict.fromkeys(query.retrieval.searches or ())
    answered = bool(_answered(query))
    if not answered and ({"embed", "encode", *LEG_SPECS} - {FACETS}) & dict(query.outcome.degraded).keys():
        query.outcome.failed = query.answered = True
    elif not answered and not any(said.startswith(_SAID) for said in query.outcome.warnings):
        query.outcome.warnings.append(_UNASKED)
    if query.asked.shape is QueryShape.SEARCH:
        _tell_limits(query)
    return query if query.answered else fuse_legs(query)


def _answered(query: InFlight) -> list[Leg]:
    legs = query.outcome.legs.values()
    return [leg for leg in legs if leg.status is LegStatus.OK and leg.name != PINNED]


def _tell_limits(query: InFlight) -> None:
    keyword = query.outcome.legs[KEYWORD]
    parsed = query.retrieval.parsed
    if keyword.status is LegStatus.OK and not keyword.ids and parsed is not None and parsed.expression is not None:
        query.outcome.warnings.append(_UNMATCHED)
    if not [leg for leg in query.outcome.legs.values() if leg.more]:
        return
    if query.asked.event.reflections_only:
        ranked = max(len(leg.ids) for leg in query.outcome.legs.values())
        query.outcome.warnings.append(f"there may be more reflections than the {ranked} that were ranked")
    elif (most := depth(query)) < (wanted := wanted_depth(query)):
        gives = f"the collection gives {most} candidates to a search (max_query_limit)"
        query.outcome.warnings.append(f"{gives}, and the query asked for {wanted}")


def _to_leg(query: InFlight, name: str, found: Found) -> Leg:
    asked = query.asked
    if asked.shape is QueryShape.SEARCH:
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
    if not given:
        return set()
    found_records = map(Candidate, found.hits.ids, repeat(0.0), found.hits.payloads)
    return {index for index, each in enumerate(found_records) if is_given(each, given)}


def _matches(query: InFlight, legs: Sequence[Leg]) -> Matches | None:
    retrieval = query.retrieval
    first = [leg.payloads[0] for leg in legs if leg.ids]
    # One without marks is enough for nothing to be known: collections of other tools have none.
    if first and not isinstance(first[0].get(MARKS), str):
        return None
    return find_matches(retrieval.words, union(legs), retrieval.columns)


def fuse_legs(query: InFlight) -> InFlight:
    """Rank the legs' hits."""
    query.started = monotonic()
    asked, plan, outcome = query.asked, query.asked.plan, query.outcome
    legs = _answered(query)
    if asked.shape is QueryShape.SEARCH:
        if outcome.matches is None and (MARKS in plan.recipe.reads or asked.event.record):
            outcome.matches = _matches(query, legs)
        facts = asked.facts(asked.now, query.retrieval.temporal_expression, outcome.matches)
        outcome.rank(first_phase(plan.recipe, legs, facts))
    else:
        outcome.rank(keep_order(legs, explain=asked.event.explain))
    candidates = len(outcome.candidates)
    attributes: Attributes = {"rankstream.recipe": plan.recipe.name, "rankstream.candidates": candidates}
    query.trace.child("fuse", query.started, attributes)
    if asked.shape is QueryShape.SEARCH:
        query.passed(RetrievalStage.HYBRID_MERGE.value, candidates)
    return query

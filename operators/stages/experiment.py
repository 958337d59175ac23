"""Experiment: a query's documents are ranked a second time, by another recipe: for a comparison, or to mix both lists.

Rules:
- A query in an experiment has a plan of its own kind, which carries all that the experiment needs: no other query, and
  no other stage, knows of it.
- Both recipes rank the same documents: those that the legs of the query's own recipe found, and those of further legs
  that the other one asks. Nobody waits for these. If one fails, or is not there in time, the answer is that of the own
  recipe alone, and nothing is compared. The same holds for an answer that lost a part.
- The other recipe may need less than the own one, and no more: no further vector of the query, model or time that a
  chat model reads. Nor may it search other words. It ranks by the scores and vectors that the own one's candidates
  have; a document that the model did not read has no score.
- A query in an experiment shares no cached answer with others. Where lists are mixed it shares none at all: tokens are
  those of one message.
- Of a query with pages the first is compared. Later pages go on with its draft, which their cursors have.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final

import orjson
from typing_extensions import override

from operators.delivery.output_record import OutputRecord, RecordForm
from operators.evaluation.comparison import rank_biased_overlap
from operators.experiments.impression import SIDES, Impression, TokenCodec
from operators.experiments.team_draft import TeamDraft, team_draft
from operators.query.canonical import Query, canonicalise
from operators.query.cursor import PoolSlice
from operators.query.in_flight import InFlight
from operators.query.legs import LEG_SPECS, Searches
from operators.query.outcome import Answer, Outcome
from operators.query.plan import Planner, RankingPlan
from operators.query.result import page
from operators.query.search import Found, Search
from operators.query.search_bodies import depth
from operators.ranking.candidate import Candidate
from operators.ranking.run import ModelScores
from operators.runtime.dispatcher import BatchKey
from operators.runtime.stage import defect
from operators.stages.fuse import add_leg, fuse_legs
from operators.stages.leg import SearchLeg
from operators.stages.publish import Finaliser, Publisher
from operators.telemetry.metrics import FlowMetrics
from operators.text.phrases import classify_text
from operators.wire.message import Rejected, result_id
from operators.wire.shortening import count_results
from schemas.errors import BackendError, InputError
from schemas.preference import DraftedResult, PairedRankings, Side
from schemas.query import QueryShape
from schemas.result import FACETS, LegStatus
from schemas.settings import PolicySettings
from schemas.settings.ranking import Experiment

FIRST: Final = 20
"""The documents of each ranking that are compared: they have 88 % of the weight in rank-biased overlap with p = .9."""

TRIAL: Final = "trial_"
"""Beginning of the names of branches for legs that experiments alone ask."""


@dataclass(slots=True)
class Trial:
    """The second ranking of one query: what was decided, what was asked for it alone, and what came of it.

    `shared` are the legs of both recipes, `searches` those that only the other one asks; `found` has their outcomes.
    `a` and `b` are the first documents of both, `sides` those of the whole draft with their sides. `incomplete` are the
    rankings that lost a part: both, until the query is ranked.
    """

    name: str
    experiment: Experiment
    draft: TeamDraft
    other: RankingPlan
    shared: frozenset[str] = frozenset()
    searches: Mapping[str, Search] = field(default_factory=dict)
    found: dict[str, Found | BackendError] = field(default_factory=dict)
    a: list[str] = field(default_factory=list)
    b: list[str] = field(default_factory=list)
    sides: Mapping[str, Side] = field(default_factory=dict)
    incomplete: Sequence[Side] = SIDES
    unread: int = 0
    cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan(RankingPlan):
    """The plan of a query in an experiment: that of its own recipe, and the trial of the other one."""

    trial: Trial


def trial_of(item: object) -> Trial | None:
    """The trial of a query; None for one in no experiment."""
    plan = item.asked.plan if isinstance(item, InFlight) else None
    return plan.trial if isinstance(plan, TrialPlan) else None


@dataclass(frozen=True)
class ExperimentAdmission:
    """Admission, and behind it the choice of the queries that an experiment has: the first by name that fits."""

    admit: Callable[[InFlight], InFlight]
    experiments: Mapping[str, Experiment]
    planner: Planner
    policies: PolicySettings
    metrics: FlowMetrics

    def __call__(self, query: InFlight) -> InFlight:
        """Admit the query. Raises InputError as admission does."""
        query = self.admit(query)
        if query.answered or not _can_be_compared(query.asked):
            return query
        for name, experiment in self.experiments.items():
            draft = _find_draft(query, name, experiment)
            if draft is None or not _covers(experiment, query.asked):
                continue
            if (other := self._plan(query.asked, experiment)) is not None:
                _enrol(query, Trial(name, experiment, draft, other))
                return query
            self.metrics.experiments[name, experiment.mode, "unfit"].inc()
        return query

    def _plan(self, asked: Query, experiment: Experiment) -> RankingPlan | None:
        """The query's plan by the experiment's recipe; None if it could not be ranked as that recipe says."""
        policy, recipe = self.policies.policy_for(asked.source), self.planner.recipes[experiment.recipe]
        try:
            plan = self.planner.plan(asked.event, asked.destination, [], policy, recipe)
        except InputError:
            # The query's overrides are none that this recipe may have.
            return None
        place = asked.source, asked.destination, asked.namespace, asked.now, asked.cursor
        other = canonicalise(asked.event, plan, *place)
        same = (other.text, other.understood) == (asked.text, asked.understood)
        enough = _needs(other) <= _needs(asked) and plan.recipe.compared <= asked.plan.recipe.compared
        return plan if same and enough else None


def _can_be_compared(asked: Query) -> bool:
    """True for a search by text whose results have no other order than that of its recipe."""
    event, plan = asked.event, asked.plan
    apart = event.like is not None or event.order_by is not None or event.record or event.reflections_only
    moved = plan.grouping is not None or plan.picking is not None or (asked.ruling is not None and asked.ruling.moves)
    # An explanation of the other recipe's scores might tell of a field that the own one's stages do not read.
    apart = apart or (event.explain and bool(plan.hidden))
    return asked.shape is QueryShape.SEARCH and asked.text is not None and not (apart or moved)


def _find_draft(query: InFlight, name: str, experiment: Experiment) -> TeamDraft | None:
    """The draft of the query in an experiment that has it: a later page is in that of its cursor, or in none."""
    cursor = query.asked.cursor
    if cursor is not None:
        draft = TeamDraft.read(cursor.draft) if cursor.draft and experiment.mode == "interleave" else None
        return draft if draft is not None and draft.is_of(name) else None
    draft = TeamDraft.of(name, query.asked.event.query_id, max(0, round(query.message.sent * 1000)))
    return draft if draft.is_within(experiment.share) else None


def _covers(experiment: Experiment, asked: Query) -> bool:
    namespaces, sources = experiment.namespaces, experiment.sources
    inside = (namespaces is None or asked.namespace in namespaces) and (sources is None or asked.source in sources)
    return inside and asked.plan.recipe.name != experiment.recipe


def _needs(asked: Query) -> set[str]:
    """The stages that a query's recipe needs for what its legs find."""
    needs = {spec.stage for leg in asked.plan.recipe.fusion.legs if (spec := LEG_SPECS[leg]).stage}
    needs |= {"rerank"} if asked.reranks else set()
    return needs | ({"temporal_expression"} if asked.extractor == "chat" else set())


def _enrol(query: InFlight, trial: Trial) -> None:
    asked, plan = query.asked, query.asked.plan
    own = {each.name: getattr(plan, each.name) for each in fields(plan)}
    mark = trial.name
    if trial.experiment.mode == "interleave":
        mark += f" {result_id(query.message.origin)}"
        own["profile"] = plan.profile.model_copy(update={"caches": []})
    query.asked = replace(asked, plan=TrialPlan(**own, trial=trial))
    # Cursors know nothing of this part of the scope: pages go on whether or not they are in an experiment.
    query.cache.scope = replace(query.cache.scope, page=f"{query.cache.scope.page} {mark}")


class _Untraced:
    """The trace of a second ranking: it records and counts nothing, for the query has its own."""

    recording: ClassVar = False
    trace_id: ClassVar = None

    def _nothing(self, *_: Any, **__: Any) -> Any: ...

    child = calling = passed = looked_up = degraded = answered = rejected = send = abandoned = sent = _nothing


def _second(query: InFlight, trial: Trial) -> InFlight:
    """The query as the other recipe ranks it; nothing of the query itself changes with it."""
    asked = replace(query.asked, plan=trial.other)
    return replace(query, asked=asked, trace=_Untraced(), outcome=Outcome(), steps=[])


@dataclass(frozen=True)
class ExperimentSearches:
    """Writes the searches of both recipes. Those of the own one read the fields of both, where they are shared."""

    searches: Searches

    def __call__(self, query: InFlight) -> InFlight:
        """The query with its searches."""
        trial, asked = trial_of(query), query.asked
        if trial is None:
            return self.searches(query)
        recipe, second = copy(asked.plan.recipe), _second(query, trial)
        # A cached property: the copy reads more, and is the same recipe.
        vars(recipe)["reads"] = recipe.reads | trial.other.recipe.reads
        query.asked = replace(asked, plan=replace(asked.plan, recipe=recipe))
        self.searches(query)
        query.asked = asked
        alike = depth(query) == depth(second) and asked.plan.include_reflections == trial.other.include_reflections
        own, other = query.retrieval.searches or {}, self.searches.write(second)
        trial.shared = frozenset(own.keys() & other.keys()) if alike else frozenset()
        trial.searches = {name: each for name, each in other.items() if name not in {*trial.shared, FACETS}}
        return query


@dataclass(frozen=True)
class TrialLeg(SearchLeg):
    """Carries the searches of a leg that only experiments' recipes ask to Qdrant.

    It is a branch that no query comes out of: `fuse` waits for none of them. Its outcomes are left in the trials.
    """

    leg: str

    @override
    def takes(self, item: Any) -> bool:
        return (trial := trial_of(item)) is not None and self.leg in trial.searches

    @override
    def ask(self, query: InFlight) -> tuple[BatchKey, Search] | None:
        trial = trial_of(query)
        return ((self.name, query.collection), trial.searches[self.leg]) if trial is not None else None

    @override
    def wakes(self, item: InFlight) -> bool:
        return False

    @override
    def on_result(self, item: InFlight, outcome: Found | BackendError) -> None:
        if (trial := trial_of(item)) is not None:
            trial.found[self.leg] = outcome


@dataclass(frozen=True)
class Experimenting:
    """Ranks the documents of each query in an experiment by the other recipe, and mixes both lists if it is to."""

    metrics: FlowMetrics

    def __call__(self, query: InFlight) -> InFlight:
        """The query with its own results, or with those of both."""
        trial = trial_of(query)
        if trial is None:
            return query
        name, mode = trial.name, trial.experiment.mode
        began, other = time.thread_time(), None
        try:
            trial.incomplete = _find_incomplete(query, trial)
            other = _rank(query, trial) if not trial.incomplete else None
        except Exception as error:  # noqa: BLE001  reported; the answer goes all the same
            trial.incomplete = ["b"]
            defect("experiment", query, error)
        trial.cpu_ms = (time.thread_time() - began) * 1000
        self.metrics.experiments[name, mode, "compared" if other is not None else "left_out"].inc()
        if other is None:
            _leave_out_given(query)
            return query
        trial.a, trial.b = ([each.document for each in of.candidates[:FIRST]] for of in (query.outcome, other))
        self.metrics.overlap[(name,)].observe(rank_biased_overlap(trial.a, trial.b))
        if mode == "interleave":
            _mix(query, trial, other)
        return query


def _find_incomplete(query: InFlight, trial: Trial) -> list[Side]:
    """The rankings that lost a part. What the answer lost, `b` lost, too, unless the own recipe alone needs it."""
    found = (trial.found.get(name) for name in trial.searches)
    late = any(not isinstance(each, Found) or each.lost is not None for each in found)
    asked, lost = query.asked, {stage for stage, _ in query.outcome.degraded}
    if not lost:
        return ["b"] if late else []
    own, other = ({*each.plan.recipe.fusion.legs} | _needs(each) for each in (asked, replace(asked, plan=trial.other)))
    return ["a", "b"] if late or lost - (own - other) else ["a"]


def _rank(query: InFlight, trial: Trial) -> Outcome:
    """The outcome of the query by the other recipe, all of whose legs are there."""
    second, own, legs = _second(query, trial), query.outcome, query.outcome.legs
    outcome = second.outcome
    outcome.legs = {name: leg for name, leg in legs.items() if name in trial.shared}
    if all(name in trial.shared for name, leg in legs.items() if leg.status is LegStatus.OK) and not trial.searches:
        outcome.matches = own.matches
    for name in trial.searches:
        add_leg(second, name, trial.found[name])
    fuse_legs(second)
    outcome.results = replace(outcome.results, gone=own.results.gone)
    outcome.vectors = own.vectors
    if (model := own.rerank_scores) is not None:
        read = [each.id for each in outcome.candidates[: second.asked.reranks]]
        outcome.rerank_scores = _scores_of(read, model)
        trial.unread = len(frozenset(read) - model.scores.keys() - model.unscored)
    outcome.finish(trial.other, None)
    return outcome


def _scores_of(read: list[str], model: ModelScores) -> ModelScores:
    """The model's scores of those that it would read first for the other recipe.

    Where it left out candidates, for they are irrelevant, all that it gave no score are: as for the own recipe.
    """
    scores = {id_: model.scores[id_] for id_ in read if id_ in model.scores}
    judged = model.selects or len(model.scores) + len(model.unscored) < model.top
    unscored = frozenset() if judged else frozenset(read) - scores.keys()
    return model._replace(scores=scores, top=len(read), unscored=unscored)


def _mix(query: InFlight, trial: Trial, other: Outcome) -> None:
    """Have the results be those of both rankings, by team draft; what has no side follows in its order."""
    own, results = query.outcome, query.outcome.results
    rankings: dict[Side, dict[str, Candidate]] = {
        "a": {each.id: each for each in results.ranked if each.id not in results.gone},
        "b": {each.id: each for each in other.candidates},
    }
    sides = team_draft([*rankings["a"]], [*rankings["b"]], trial.draft.seed)
    drafted = [rankings[side][id_] for id_, side in sides.items()]
    rest = [each for ranking in rankings.values() for id_, each in ranking.items() if id_ not in sides]
    trial.sides = {each.document: side for each, side in zip(drafted, sides.values(), strict=True)}
    own.results = replace(results, ranked=[*drafted, *rest])
    asked = query.retrieval.searches or {}
    own.legs |= {name: leg for name, leg in other.legs.items() if name in trial.searches and name not in asked}
    if own.run.explanations is not None and other.run.explanations is not None:
        by_id = own.run.explanations.by_id
        of_other = other.run.explanations.by_id
        by_id |= {id_: each for id_, each in of_other.items() if sides.get(id_) == "b" or id_ not in by_id}
    _move_page(query, own.results.passed - results.passed)


def _leave_out_given(query: InFlight) -> None:
    """Have a later page of a draft that can't go on leave out what was given: its own ranking has another order."""
    cursor, outcome = query.asked.cursor, query.outcome
    if cursor is not None and cursor.given and not outcome.results.given and outcome.ranked:
        outcome.results = replace(outcome.results, given=frozenset(cursor.given))
        query.continue_page(first=outcome.results.passed)


def _move_page(query: InFlight, by: int) -> None:
    """Move the page by as many results as more, or fewer, of those that were given are there."""
    cursor = query.asked.cursor
    if by and cursor is not None and isinstance(cursor.position, PoolSlice):
        position = replace(cursor.position, skip=cursor.position.skip + by)
        query.asked = replace(query.asked, cursor=replace(cursor, position=position))


@dataclass(frozen=True)
class ExperimentPublisher(Publisher):
    """Writes answers as `Publisher` does, and says the experiment; results of mixed rankings have tokens."""

    tokens: TokenCodec | None = None

    @override
    def own(self, query: InFlight, answer: Answer) -> dict[str, Any]:
        event, trial = super().own(query, answer), trial_of(query)
        if trial is None:
            return event
        event["provenance"] = {**event["provenance"], "experiment": trial.name}
        event["results"] = [self._sign(query, trial, hit) for hit in event["results"]]
        return event

    @override
    def next_cursor(self, query: InFlight, answer: Answer, given: int) -> str | None:
        written, trial = super().next_cursor(query, answer, given), trial_of(query)
        if written is None or trial is None or not trial.sides:
            return written
        return self.cursors.write(replace(self.cursors.read(written), draft=trial.draft.write()))

    def _sign(self, query: InFlight, trial: Trial, hit: Mapping[str, Any]) -> Mapping[str, Any]:
        id_, asked = str(hit["id"]), query.asked
        side = trial.sides.get(id_)
        if side is None or self.tokens is None:
            return hit
        place = asked.event.query_id, asked.namespace, trial.draft.issued_ms
        return {**hit, "token": self.tokens.write(Impression(trial.name, side, hit["rank"] - 1, id_, *place))}


@dataclass(frozen=True)
class ExperimentFinaliser(Finaliser):
    """Ends queries as `Finaliser` does. What an experiment found goes to its `topic`, in the result's transaction: of
    the first page of each query that was not answered by a cache.
    """

    topic: str

    @override
    def __call__(self, item: InFlight | Rejected) -> list[OutputRecord]:
        records, trial = super().__call__(item), trial_of(item)
        if isinstance(item, Rejected) or trial is None or item.cache.cached or item.asked.cursor:
            return records
        try:
            if records and records[0].form is RecordForm.RESULT:
                value = orjson.dumps(_compare(item, trial, records[0]).model_dump(mode="json"))
                key, origin = item.asked.event.query_id.encode(), item.message.origin
                records.append(OutputRecord(self.topic, key, value, (), origin=origin, form=RecordForm.COMPARISON))
        except Exception as error:  # noqa: BLE001  reported; the answer goes all the same
            defect("experiment", item, error)
        return records


def _compare(query: InFlight, trial: Trial, result: OutputRecord) -> PairedRankings:
    """The comparison of both rankings, and the page's results that are there for one: what it lost, both have lost."""
    asked = query.asked
    text = (asked.ruling.text if asked.ruling is not None else asked.event.text) or ""
    ids = [each.document for each in page(asked, query.outcome)][: count_results(result.value)]
    incomplete = trial.incomplete or (SIDES if query.outcome.degraded else ())
    a, b, given = ([], [], []) if incomplete else (trial.a, trial.b, ids)
    sides = dict.fromkeys(ids, SIDES[0]) if trial.experiment.mode == "shadow" else trial.sides
    return PairedRankings(
        experiment=trial.name,
        mode=trial.experiment.mode,
        query_id=asked.event.query_id,
        namespace=asked.namespace,
        issued=trial.draft.issued_ms,
        text=text if trial.experiment.namespaces is not None else None,
        kinds=[f"recipe {asked.plan.recipe.name}", classify_text(text)],
        incomplete=[*incomplete],
        a=a,
        b=b,
        page=[DraftedResult(id=id_, side=sides[id_]) for id_ in given if id_ in sides],
        overlap=rank_biased_overlap(a, b),
        cpu_ms=trial.cpu_ms,
        calls=len(trial.searches),
        unread=trial.unread,
    )

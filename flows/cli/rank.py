"""`rankstream rank`: what production saw, ranked again offline: by another recipe, explained, or as it was."""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self

import typer

from flows.assembly import query as query_assembly
from flows.cli.output import Config, emit, say, stderr
from operators.collections.analysers import CURRENT, Bm25
from operators.query.canonical import Query, address_of, canonicalise
from operators.query.collection import MOST, ORDERED
from operators.query.cursor import Cursor, PoolSlice, result_digests
from operators.query.outcome import Outcome, Results
from operators.query.plan import Planner
from operators.query.result import page, result, status_of
from operators.ranking.candidate import Candidate, Leg, in_tie_order, union
from operators.ranking.pipeline import first_phase, keep_order
from operators.ranking.run import Matches, ModelScores
from operators.stages.decode import check_text
from operators.text.expression import parse
from operators.text.times import find_time
from schemas.errors import ConfigError, DeadLetterClass, InputError, Reason, invalid
from schemas.event import json_object, validate
from schemas.fields import rfc3339
from schemas.pool import CandidatePool, PoolLeg, ScoreMeasure
from schemas.query import QueryShape
from schemas.recipes import Recipe, RecipeError
from schemas.recipes.stages import Coverage
from schemas.result import FUZZY, KEYWORD, LEGS, STRUCTURED, VECTOR, VERSION, WEIGHED_LEGS, LegStatus, Status
from schemas.settings import Defaults, Limits, Settings, load
from schemas.settings.document import read
from schemas.settings.ranking import PROFILES

MAX_LINE: Final = 64 * 1024 * 1024

_NAMESPACE: Final = Defaults().namespace


class ReadPool(NamedTuple):
    """A pool, and a hash of the JSON that it was read from."""

    pool: CandidatePool
    identity: str

    def change_query(self, **changes: Any) -> Self:
        """The pool, as if these fields of its query had these values."""
        query = self.pool.query.model_copy(update=changes)
        return self._replace(pool=self.pool.model_copy(update={"query": query}))


class RankedPool(NamedTuple):
    """The status of an answer, and its documents with their scores, best first."""

    status: Status
    ranked: list[tuple[str, float]]


@dataclass(frozen=True)
class PoolRanker:
    """Ranks pools under one configuration, every one by `recipe` if there is one, explained if `explain` says so.

    `selects`: recorded rerank scores only say which candidate is the best; `measure`: their kind, in pools that don't
    say it.
    """

    planner: Planner
    limits: Limits
    selects: bool = False
    measure: ScoreMeasure = "similarity"
    config_hash: str | None = None
    recipe: Recipe | None = None
    explain: bool = False

    @classmethod
    def of(cls, settings: Settings | None, recipe: str | None, *, explain: bool) -> Self:
        """The ranker under these settings, or under none; `recipe` is a name or a YAML file. Raises ConfigError."""
        if settings is None:
            ranker = cls(Planner(PROFILES), Limits())
        else:
            planner = replace(query_assembly.planner(settings), chat=True)
            of_model = query_assembly.selects(settings.rerank), query_assembly.score_measure(settings.rerank)
            ranker = cls(planner, settings.limits, *of_model, settings.config_hash())
        named = None if recipe is None else find_recipe(recipe, ranker.planner.recipes)
        return replace(ranker, recipe=named, explain=explain)

    def __call__(self, line: bytes) -> dict[str, Any]:
        """The result event of one pool, written as JSON, with the pool if it asks so. Raises InputError."""
        read = self.read_pool(line)
        answer = self.rank(read)
        return {**answer, "pool": _pool_json(line)} if read.pool.query.record else answer

    def read_pool(self, line: bytes) -> ReadPool:
        """One pool, written as JSON, or the result that carries it. Raises InputError."""
        document = _pool_json(line)
        if isinstance(asked := document.get("query"), dict):
            check_text(asked.get("text"), self.limits)
        identity = hashlib.blake2b(line.strip(), digest_size=16).hexdigest()
        return ReadPool(validate(CandidatePool, document), identity)

    def rank(self, read: ReadPool) -> dict[str, Any]:
        """The result event of one pool, without the pool. Raises InputError."""
        pool = (read.change_query(explain=True) if self.explain else read).pool
        asked, outcome = self.run(pool)
        provenance = {
            "version": VERSION,
            "config_hash": self.config_hash,
            "models": {"embedder": None, "reranker": None},
            "index_watermark": None,
            "now": rfc3339(pool.clock) if pool.clock is not None else None,
            "source": None,
        }
        # A pool does not say the analysis of its collection: passages are found by the current one.
        _, matcher = Bm25(analysis=CURRENT).read(parse(asked.text or "", {}).terms)
        return result(asked, outcome, read.identity, page(asked, outcome), provenance, matcher)

    def rank_all(self, read: ReadPool) -> RankedPool:
        """All candidates of one pool, best first, whatever page its query asked for. Raises InputError."""
        asked, outcome = self.run(read.pool)
        ranked = [(_judged_id(candidate, outcome), candidate.score) for candidate in outcome.candidates]
        return RankedPool(status_of(asked, outcome), ranked)

    def run(self, pool: CandidatePool) -> tuple[Query, Outcome]:
        """The pool's query as it was ranked, and its outcome with every candidate. Raises InputError."""
        outcome, event = Outcome(), pool.query
        destination, namespace = address_of(event, self.planner.defaults.destination, _NAMESPACE)
        plan = self.planner.plan(event, destination, outcome.warnings, recipe=self.recipe)
        now = pool.clock if pool.clock is not None else 0.0
        given, at = tuple(result_digests(*pool.given)), PoolSlice(pool.skip, MOST)
        earlier = Cursor(b"", None, now, at, given, bool(given)) if pool.skip or given else None
        asked = canonicalise(event, plan, event.source, destination, namespace, now, earlier)
        _take_legs(asked, outcome, pool)
        found = in_tie_order([leg for leg in outcome.legs.values() if leg.status is LegStatus.OK])
        if not found:
            outcome.failed = True
            return asked, outcome
        outcome.payloads = union(found)
        if asked.shape is not QueryShape.SEARCH:
            outcome.rank(keep_order(found, explain=event.explain))
            return asked, outcome
        named = None
        if asked.extractor is not None and asked.text is not None:
            if pool.clock is None:
                raise invalid("now", "required by the stage temporal", None)
            found_time = find_time(asked.text, pool.clock)
            named = found_time.expression if found_time is not None else None
            if asked.extractor == "chat":
                outcome.warnings.append("the time in the query was read by the rules, not by a chat model")
        if plan.recipe.stage(Coverage) is not None and asked.text is not None and pool.words is None:
            outcome.warnings.append("the pool has no words: the stage coverage changes nothing")
        facts = asked.facts(pool.clock, named, _matches(pool), alike=pool.alike)
        outcome.rank(first_phase(plan.recipe, found, facts))
        self._by_model(asked, outcome, pool)
        return asked, outcome

    def _by_model(self, asked: Query, outcome: Outcome, pool: CandidatePool) -> None:
        """Run the second phase with the recorded scores, if the query's plan asks a model."""
        plan, scores, unscored = asked.plan, pool.rerank, frozenset(pool.unscored)
        picked = asked.picks
        read = min(asked.reranks or picked, len(outcome.candidates))
        # One candidate needs no model.
        if scores is not None and read > 1:
            if self.recipe is None:
                read = min(read, pool.reranked_candidates or read)
            elif picked:
                read = len(outcome.candidates)
            elif not self.selects and not scores.keys() | unscored >= {each.id for each in outcome.candidates[:read]}:
                read = _read_first(outcome, scores)
            if read:
                left = unscored.intersection(each.id for each in outcome.candidates[:read])
                measure = pool.measure or self.measure
                outcome.rerank_scores = ModelScores(scores, read, self.selects, left, measure)
        outcome.vectors = pool.vectors or {}
        outcome.finish(plan, asked.event.order_by, asked.given)
        if plan.picking is not None and picked:
            outcome.pick(plan.picking)


def _matches(pool: CandidatePool) -> Matches | None:
    if pool.words is None:
        return None
    return Matches(pool.words, pool.atoms) if pool.atoms is not None else Matches.of_words(pool.words)


def _judged_id(candidate: Candidate, outcome: Outcome) -> str:
    """The id by which a candidate is judged: the key of its group, if it has one, and else its document's."""
    of = outcome.results.groups.get(candidate.id)
    return candidate.document if of is None or of.key is None else str(of.key)


def _pool_json(line: bytes) -> dict[str, Any]:
    document = json_object(line, MAX_LINE)
    if "result_id" in document:
        pool = document.get("pool")
        if not isinstance(pool, dict):
            raise invalid("pool", "missing: the query of this result must ask with record: true", None)
        return pool
    if document.keys().isdisjoint({"query", "legs"}):
        raise InputError(DeadLetterClass.INVALID, "neither a candidate pool nor a result that carries one")
    return document


def find_recipe(name: str, known: Mapping[str, Recipe]) -> Recipe:
    """The recipe of that name, or in the YAML file at that path. Raises ConfigError."""
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"recipe {name}: neither a YAML file nor one of {', '.join(sorted(known))}")
    try:
        return Recipe.parse(path.stem, read(path))
    except RecipeError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_first(outcome: Outcome, scores: Mapping[str, float]) -> int:
    """Put the candidates first that the reranker has scored, and count them: another recipe may put others first."""
    outcome.results = Results(sorted(outcome.candidates, key=lambda each: each.id not in scores))
    return sum(each.id in scores for each in outcome.candidates)


def _take_legs(asked: Query, outcome: Outcome, pool: CandidatePool) -> None:
    offered, legs = {leg.name: leg for leg in pool.legs}, outcome.legs
    order_by = asked.event.order_by
    key = ORDERED.get(order_by.field) if order_by is not None else None
    times = {id_: {key: time} for id_, time in pool.times.items()} if key is not None else {}
    if asked.shape is not QueryShape.SEARCH:
        legs.update((name, _leg(leg, times)) for name, leg in offered.items() if name == STRUCTURED)
        return
    reflections = (VECTOR,) if VECTOR in offered else (STRUCTURED,)
    fusion = asked.plan.recipe.fusion
    wanted = reflections if asked.event.reflections_only else fusion.legs
    if fusion.unasked and offered.keys().isdisjoint(wanted):
        wanted = fusion.unasked
    for name in dict.fromkeys((VECTOR, KEYWORD, *wanted, *offered)):
        if name == FUZZY and name not in offered:
            # Most pools have none: nothing was misspelt, or the index has no such vector.
            continue
        used = name in wanted or name not in {*LEGS, *WEIGHED_LEGS}
        if used and name in offered:
            legs[name] = _leg(offered[name], times)
        elif name == VECTOR and not asked.plan.profile.semantic and asked.event.vector is None:
            legs[name] = Leg(name, LegStatus.SKIPPED, reason=Reason.PROFILE)
        elif used:
            legs[name] = Leg(name, LegStatus.FAILED, reason=Reason.UNAVAILABLE)
            outcome.degraded.append((name, Reason.UNAVAILABLE))
        elif name != STRUCTURED:
            legs[name] = Leg(name, LegStatus.SKIPPED, reason=Reason.RECIPE)


def _leg(leg: PoolLeg, times: Mapping[str, Mapping[str, float]]) -> Leg:
    ids, scores = [hit.id for hit in leg.hits], [hit.score for hit in leg.hits]
    payloads = [{**hit.payload, **times.get(hit.id, {})} for hit in leg.hits]
    return Leg(leg.name, LegStatus.OK, ids, scores, payloads, more=leg.more)


def rank(
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe for every pool: a name or a YAML file. Default: the recipe of the pool's query."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Add a score explanation to each result.")] = False,
    config: Config = None,
) -> None:
    """Rank recorded candidate pools offline: JSON Lines from standard input, one result event per line.

    If a line cannot be ranked, its error goes to standard error, the other lines are ranked, and the exit code is 1.
    """
    ranker = PoolRanker.of(load(config) if config is not None else None, recipe, explain=explain)
    code = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            try:
                emit(ranker(line))
            except InputError as error:
                say(stderr, f"line {number}: {error}")
                code = 1
    raise typer.Exit(code)

"""The workbench behind the page: it asks queries, keeps late pools, and ranks them again in this process."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, NamedTuple, Self

import orjson
from opentelemetry.trace import Tracer, format_trace_id

from flows.assembly.delivery import connect
from flows.cli.console import losses
from flows.cli.console.columns import (
    Column,
    ConsoleSearch,
    compare_columns,
    controls,
    event_fields,
    shorten_overrides,
    to_cards,
    to_column,
    write_forms,
)
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.overview import Overview
from flows.cli.console.waterfall import SpansOf, timeline, waterfall
from flows.cli.evaluate.evaluation import failure_of, judged_hit, judged_name
from flows.cli.query import Event, QueryClient
from flows.cli.rank import PoolRanker, ReadPool
from flows.cli.rules import put_into_words
from operators.caching.bounded import BoundedCache
from operators.mapping.own_names import OwnNames
from operators.mapping.rows import rename_columns
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.recipes import Recipe, RecipeError
from schemas.settings import KafkaSettings, Settings
from schemas.settings.ranking import BALANCED

_POOLS: Final = 32
"""Pools that are kept; the page of an older one asks again."""

AT_ONCE: Final = 8
"""Queries of a set under way at a time: pools are large, and an embedded broker drops what it can't hold."""

TIMEOUT: Final = 30.0
"""Seconds to wait for an answer, as `rankstream query` does by default."""


class TracedResults(NamedTuple):
    """A result event for each query, in the order of the queries, and the trace that they are in, if there is one."""

    results: list[dict[str, Any]]
    trace_id: str | None


Searcher = Callable[[Sequence[Mapping[str, Any]]], TracedResults]


@dataclass
class Shelved:
    """A column's query by a key: its event, its pool if it was recorded, its answer, and it as it was ranked last."""

    key: str
    event: Mapping[str, Any]
    column: Column
    asked: Mapping[str, Any]
    result: Mapping[str, Any]
    read: ReadPool | None
    trace_id: str | None

    @property
    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """The documents of the answer by id."""
        return {hit["id"]: hit for hit in self.asked["results"]}

    def require_pool(self) -> ReadPool:
        """The recorded pool. Raises InputError if there is none."""
        if self.read is None:
            why = "; ".join(self.asked.get("warnings") or ()) or self.asked["status"]
            raise InputError(DeadLetterClass.INVALID, f"no pool was recorded: {why}")
        return self.read


@dataclass(frozen=True)
class Configuration:
    """One configuration by its name, how it ranks pools, and how its flow is asked; None: it has none of its own."""

    name: str
    settings: Settings
    ranker: PoolRanker
    ask: Searcher | None

    @classmethod
    def of(cls, name: str, settings: Settings, ask: Searcher | None) -> Self:
        """A configuration that ranks with explanations."""
        return cls(name, settings, PoolRanker.of(settings, None, explain=True), ask)


@dataclass
class Workbench:
    """The state of one console; the first configuration is that of the flow that it asks."""

    configurations: Mapping[str, Configuration]
    judgements: JudgementFile
    overview: Overview
    spans: SpansOf = lambda _: ()
    _recent: BoundedCache[str, Shelved] = field(default_factory=lambda: BoundedCache(_POOLS))
    _lock: Lock = field(default_factory=Lock)

    @property
    def main(self) -> Configuration:
        """The configuration of the flow that is asked."""
        return next(iter(self.configurations.values()))

    def configuration_of(self, column: Column) -> Configuration:
        """The column's configuration. Raises InputError."""
        if not column.config:
            return self.main
        if column.config not in self.configurations:
            raise invalid("config", f"there are {', '.join(self.configurations)}", column.config)
        return self.configurations[column.config]

    def recipe(self, column: Column) -> Recipe:
        """The column's recipe, with its overrides. Raises InputError."""
        recipe = self.plain_recipe(column)
        try:
            return recipe.overridden(column.overrides)
        except RecipeError as error:
            raise InputError(DeadLetterClass.INVALID, str(error)) from error

    def plain_recipe(self, column: Column) -> Recipe:
        """The column's recipe as it is configured. Raises InputError."""
        settings = self.configuration_of(column).settings
        profile = settings.profiles.get(column.profile) or settings.profiles[BALANCED]
        name = column.recipe or profile.recipe or settings.defaults.recipe
        if name not in settings.recipes:
            raise invalid("recipe", f"not configured; there are {', '.join(sorted(settings.recipes))}", name)
        return settings.recipes[name]

    def begin(self) -> dict[str, Any]:
        """The names that a search may have, and the default search."""
        return {
            "configurations": [
                {
                    "name": each.name,
                    "asked": each.ask is not None,
                    "recipes": sorted(each.settings.recipes),
                    "profiles": {
                        name: profile.recipe or each.settings.defaults.recipe
                        for name, profile in each.settings.profiles.items()
                    },
                }
                for each in self.configurations.values()
            ],
            "defaults": {"namespace": self.main.settings.defaults.namespace, "profile": BALANCED},
            "namespaces": list(self.overview.namespaces),
            "experiments": bool(self.main.settings.experiments),
        }

    def search(self, search: ConsoleSearch) -> dict[str, Any]:
        """Every column's results, and their comparison. Raises RankstreamError and OSError."""
        asked = list(zip(search.columns, search.events(), strict=True))
        by_flow: dict[str, list[tuple[Column, dict[str, Any]]]] = {}
        for column, event in asked:
            by_flow.setdefault(self._asked_by(column).name, []).append((column, event))
        answers = {}
        for name, of_flow in by_flow.items():
            answered = self._ask(of_flow[0][0], [self._adapt(*each) for each in of_flow])
            answers[name] = iter(answered.results), answered.trace_id
        columns = []
        for column, event in asked:
            results, trace_id = answers[self._asked_by(column).name]
            columns.append(self._view(self._shelve(column, event, next(results), trace_id)))
        return {"columns": columns, **self.compare([each["key"] for each in columns])}

    def _asked_by(self, column: Column) -> Configuration:
        own = self.configuration_of(column)
        return own if own.ask is not None else self.main

    def _ask(self, column: Column, events: Sequence[Mapping[str, Any]]) -> TracedResults:
        own = self._asked_by(column)
        assert own.ask is not None
        answered, columns = own.ask(events), own.settings.documents.columns
        return answered._replace(results=[_as_stored(each, columns) for each in answered.results])

    def _adapt(self, column: Column, event: Mapping[str, Any]) -> dict[str, Any]:
        """The event for the flow that is asked: one that lacks the column's recipe gives its candidates only."""
        if self.configuration_of(column).ask is not None:
            return dict(event)
        asked = {name: value for name, value in event.items() if name not in {"overrides", "min_relevance"}}
        for name, known in (("recipe", self.main.settings.recipes), ("profile", self.main.settings.profiles)):
            if asked.get(name) not in known:
                asked.pop(name, None)
        return asked

    def _shelve(
        self, column: Column, event: Mapping[str, Any], result: Mapping[str, Any], trace_id: str | None
    ) -> Shelved:
        pool = result.get("pool")
        read = self.main.ranker.read_pool(orjson.dumps(pool)) if pool is not None else None
        lean = {name: value for name, value in result.items() if name != "pool"}
        shelved = Shelved(uuid.uuid4().hex, event, column, lean, lean, read, trace_id)
        if read is not None and self.configuration_of(column).ask is None:
            self._rank(shelved)
        with self._lock:
            self._recent.put(shelved.key, shelved)
        return shelved

    def recall(self, key: str) -> Shelved:
        """The query of that key. Raises InputError if it is too long ago."""
        with self._lock:
            shelved = self._recent.get(key)
        if shelved is None:
            raise InputError(DeadLetterClass.INVALID, "key: this search is too long ago: search again")
        return shelved

    def rank(self, key: str, column: Column) -> dict[str, Any]:
        """The results of a recorded pool by another column, in this process. Raises InputError."""
        shelved = self.recall(key)
        shelved.require_pool()
        shelved.column = column
        self._rank(shelved)
        return self._view(shelved)

    def _prepare(self, shelved: Shelved) -> tuple[PoolRanker, ReadPool]:
        """The ranker and the pool of a column, as if its query had asked for the column's recipe."""
        column = shelved.column
        said = {name: getattr(column, name) or None for name in ("overrides", "recipe", "profile")}
        read = shelved.require_pool().change_query(rerank=column.rerank, min_relevance=column.min_relevance, **said)
        named = self.plain_recipe(column)
        own = shelved.asked.get("provenance", {}).get("recipe")
        # As the flow ranked it, the model reads as many candidates as it did; else those that it read come first.
        same = named.name == own and column.overrides == (shelved.event.get("overrides") or {})
        ranker = self.configuration_of(column).ranker
        return ranker if same else replace(ranker, recipe=named), read

    def _rank(self, shelved: Shelved) -> None:
        self.recipe(shelved.column)
        ranker, read = self._prepare(shelved)
        shelved.result = ranker.rank(read)

    def _view(self, shelved: Shelved) -> dict[str, Any]:
        own = OwnNames(self._asked_by(shelved.column).settings.documents.columns).own
        cards = to_cards(shelved.result, self._grades(shelved.event), shelved.documents, own)
        legs = shelved.read.pool.legs if shelved.read is not None else ()
        return {
            **to_column(shelved.result, cards),
            "again": shelved.result is not shelved.asked,
            "lost": max(len({hit.id for leg in legs for hit in leg.hits}) - len(cards), 0),
            "trace": shelved.trace_id,
            "recorded": shelved.read is not None,
            "key": shelved.key,
        }

    def _grades(self, event: Mapping[str, Any]) -> Mapping[str, int]:
        text = str(event.get("text") or "")
        return self.judgements.grades_of(self.judgements.query_of(text, self._namespace(event)))

    def _namespace(self, event: Mapping[str, Any]) -> str:
        return str(event.get("namespace") or self.main.settings.defaults.namespace)

    def compare(self, keys: Sequence[str]) -> dict[str, Any]:
        """The comparison of some columns. Raises InputError."""
        every = [self.recall(key) for key in keys]
        if len(every) < 2:
            return {"comparisons": []}
        ids = [[judged_hit(hit) for hit in each.result["results"]] for each in every]
        return {"comparisons": compare_columns(ids, [self._ranks(each) for each in every])}

    def _ranks(self, shelved: Shelved) -> dict[str, int]:
        try:
            ranker, read = self._prepare(shelved)
            return {id_: rank for rank, (id_, _) in enumerate(ranker.rank_all(read).ranked, 1)}
        except InputError:
            return {}

    def explain(self, key: str, id_: str) -> dict[str, Any]:
        """The waterfall of one result. Raises InputError."""
        shelved = self.recall(key)
        hit = _find(shelved.result, id_)
        if hit is None and shelved.read is not None:
            # It is behind the page: the whole pool has it.
            ranker, read = self._prepare(shelved)
            hit = _find(ranker.rank(read.change_query(limit=200)), id_)
        if hit is None or "explanation" not in hit:
            raise invalid("id", "no result has it", id_)
        explanation = hit["explanation"]
        title = hit["payload"].get("title") or shelved.documents.get(id_, {}).get("payload", {}).get("title")
        return {"id": id_, "title": title, "rank": hit["rank"], "score": hit["score"], "rows": waterfall(explanation)}

    def lost(self, key: str) -> dict[str, Any]:
        """The candidates that are not on the page. Raises InputError."""
        ranker, read = self._prepare(self.recall(key))
        fates = losses.trace(ranker, read)
        return {"lost": losses.to_view(fates), "candidates": len(fates.by_id), "page": fates.page_end}

    def why(self, key: str, id_: str) -> dict[str, Any]:
        """The answer to *why is X not here?* for any id. Raises RankstreamError and OSError."""
        shelved = self.recall(key)
        ranker, read = self._prepare(shelved)
        fates = losses.trace(ranker, read)
        if (fate := fates.by_id.get(id_)) is not None:
            said = losses.explain_fate(fate, fates)
            return said | self._judgement(shelved, fate.judged)
        event, own = shelved.event, {"field": "id", "op": "eq", "value": id_}
        namespace, filters = self._namespace(event), list(event.get("filters") or ())
        others = [each for each in self.overview.namespaces if each != namespace][:20]
        same = {"namespace": namespace, "limit": 1}
        asked = [
            {**same, "filters": [own]},
            {**event, "filters": [*filters, own], "record": False, "debug": False, "limit": 1},
            *({**same, "filters": [each, own]} for each in filters),
            *({"namespace": each, "limit": 1, "filters": [own]} for each in others),
        ]
        found, alone, *rest = self._ask(shelved.column, asked).results
        failing = [put_into_words(each) for each, hits in zip(filters, rest, strict=False) if not hits["results"]]
        there = [each for each, hits in zip(others, rest[len(filters) :], strict=True) if hits["results"]]
        document = found["results"][0] if found["results"] else None
        judged = judged_name(id_, document["payload"] if document is not None else {}, fates.grouped_by)
        said = losses.explain_absence(id_, namespace, document, alone, read.pool, failing, there)
        return said | self._judgement(shelved, judged)

    def _judgement(self, shelved: Shelved, name: str) -> dict[str, Any]:
        return {"judged": name, "grade": self._grades(shelved.event).get(name)}

    def time(self, key: str) -> dict[str, Any]:
        """The waterfall of a query's time. Raises InputError."""
        shelved = self.recall(key)
        spans = self.spans(shelved.trace_id) if shelved.trace_id is not None else ()
        deadline = self._asked_by(shelved.column).settings.limits.timeout
        return {**timeline(shelved.asked, spans), "trace": shelved.trace_id, "deadline": deadline * 1000}

    def record(self, column: Column, queries: Sequence[Mapping[str, Any]]) -> list[ReadPool]:
        """The pools of some queries by a column. Raises RankstreamError and OSError."""
        found = []
        for result in self._ask_bare(column, queries, record=True):
            if "pool" not in result:
                raise InputError(DeadLetterClass.INVALID, f"no pool was recorded: {failure_of(result)}")
            found.append(self.main.ranker.read_pool(orjson.dumps(result["pool"])))
        return found

    def _ask_bare(self, column: Column, queries: Sequence[Mapping[str, Any]], **asked: Any) -> Iterator[dict[str, Any]]:
        """The answer to each query by a column, without fields and texts of documents: nobody reads those."""
        said = {**asked, "return": {"fields": [], "text": "none"}, **event_fields(column)}
        events = [self._adapt(column, {**query, **said}) for query in queries]
        for start in range(0, len(events), AT_ONCE):
            yield from self._ask(column, events[start : start + AT_ONCE]).results

    def order(self, column: Column, queries: Sequence[Mapping[str, Any]], depth: int) -> list[list[str]]:
        """The names by which each query's first results by a column are judged. Raises RankstreamError and OSError."""
        own = self.configuration_of(column)
        if own.ask is None:
            ranker = replace(own.ranker, recipe=self.recipe(column), explain=False)
            return [[id_ for id_, _ in ranker.rank_all(read).ranked[:depth]] for read in self.record(column, queries)]
        found = []
        for result in self._ask_bare(column, queries, limit=depth):
            if result["status"] in {"invalid", "denied", "failed"}:
                raise InputError(DeadLetterClass.INVALID, f"a query was not answered: {failure_of(result)}")
            found.append([judged_hit(hit) for hit in result["results"]])
        return found

    def parameters(self, column: Column) -> dict[str, Any]:
        """The controls of the column's recipe. Raises InputError."""
        recipe = self.recipe(column)
        return {"recipe": recipe.name, "stages": controls(recipe), "plain": controls(self.plain_recipe(column))}

    def write(self, column: Column, search: Mapping[str, Any]) -> dict[str, str]:
        """The column's recipe as YAML, query event and producer. Raises InputError."""
        recipe, plain = self.recipe(column), self.plain_recipe(column)
        short = shorten_overrides(plain, column.overrides)
        event = {"query_id": "q-1", **search, **event_fields(column.model_copy(update={"overrides": short}))}
        return write_forms(recipe, event, self.configuration_of(column).settings)


def _as_stored(result: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A result with ids and names of fields as pools and the page have them, whatever its documents' senders have."""
    hits = [
        {**hit, "id": str(hit["id"]), "payload": rename_columns(hit["payload"], columns)} for hit in result["results"]
    ]
    return {**result, "results": hits}


def _find(result: Mapping[str, Any], id_: str) -> Mapping[str, Any] | None:
    return next((each for each in result["results"] if each["id"] == id_), None)


def searcher(settings: KafkaSettings, tracer: Tracer, timeout: float = TIMEOUT) -> Searcher:
    """A function that asks queries side by side, on any thread."""

    def ask(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
        events: list[Event] = [{"query_id": f"console-{uuid.uuid4()}", **search} for search in searches]
        # Each search has a query client of its own. So a client is used by one thread, and no search waits for another.
        # A client that was kept would have to read all that others were answered in the meantime, too.
        with (
            tracer.start_as_current_span("search") as span,
            QueryClient.connect(connect(settings), settings.topics, tracer) as query_client,
        ):
            found = {result["query_id"]: result for result in query_client.ask(events, timeout)}
        context = span.get_span_context()
        trace_id = format_trace_id(context.trace_id) if context.is_valid else None
        return TracedResults([found[event["query_id"]] for event in events], trace_id)

    return ask

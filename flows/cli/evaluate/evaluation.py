"""Evaluation: documents indexed embedded, queries through the real flow, figures of their results."""

import contextlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from rich.console import Console

from flows.assembly.query import selects
from flows.cli.ingestion import OWN_FORM, index_once, naming, numbered_jsonl, read_jsonl
from flows.cli.query import QueryClient
from flows.cli.rank import find_recipe
from flows.cli.records import Records
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from operators.evaluation import metrics
from operators.evaluation.comparison import ByQuery
from operators.evaluation.metrics import relevant
from operators.mapping.rows import id_of
from operators.query.plan import Planner
from operators.ranking.grouping import key_of
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.event import validate
from schemas.query import QueryEvent
from schemas.recipes import MAX_DISTANCE, SHIPPED, Recipe
from schemas.recipes.stages import Rerank
from schemas.result import Status
from schemas.settings import DocumentSettings, Settings
from schemas.settings.ranking import PROFILES

Parsed = TypeVar("Parsed")

TIMEOUT_MS: Final = 60_000
DEPTH: Final = 100
"""Results asked for a query."""

ANSWER_TIMEOUT: Final = 120.0

NOTHING: Final = "nothing"
"""The kind of queries that no document answers, in the column `kind`."""

MOST_RERANKED: Final = 1000
"""Candidates that are reranked where all are to be: the most that a profile can say."""

Qrels = Mapping[str, Mapping[str, int]]
TrecRun = Mapping[str, Sequence[tuple[str, float]]]
"""Query -> documents and their scores, best first."""

DocumentWithId = tuple[str, Mapping[str, Any]]
"""The id and the payload."""

_SHIPPED: Final = Planner(PROFILES)
_EVENT_FIELDS: Final = frozenset(field.alias or name for name, field in QueryEvent.model_fields.items())
_UNASKED: Final = frozenset({"cursor", "reply_to", "record", "explain", "debug"})
"""Fields of a query that change no ranking: it is judged from its beginning, and the caller gets the answer."""


@dataclass(frozen=True)
class AnswerCounts:
    """Answers by their status, how many of them lost each stage, and a reason by status: that of the first."""

    answered: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    def count(self, result: Mapping[str, Any]) -> None:
        """Count a result event."""
        self.answered[result["status"]] += 1
        self.lost.update({each["stage"] for each in result.get("degraded", ())})
        if (reason := failure_of(result)) != result["status"]:
            self.reasons.setdefault(result["status"], f", such as query {result['query_id']}: {reason}")

    def describe_lost(self, name: str) -> str | None:
        """The answers that are not whole, in a sentence about `name`; None if all are."""
        # Figures of others say nothing.
        others = {status: count for status, count in self.answered.items() if status != Status.OK}
        if not others:
            return None
        said = ", ".join(f"{count} {status}{self.reasons.get(status, '')}" for status, count in sorted(others.items()))
        stages = "".join(f"; {stage} was lost {count} times" for stage, count in sorted(self.lost.items()))
        return f"{name}: {sum(others.values())} of {self.answered.total()} answers are not whole ({said}){stages}"


def failure_of(result: Mapping[str, Any]) -> str:
    """Why a query was refused, or what is wrong with its answer; its status if nothing says more."""
    if said := result.get("error") or result.get("denied"):
        return str(said["reason"])
    return "; ".join(result.get("warnings") or ()) or str(result["status"])


@dataclass(frozen=True)
class ReportRow:
    """One way to rank: its figures, its answers, and queries that nothing answers."""

    name: str
    figures: Mapping[str, float]
    tally: AnswerCounts
    values: ByQuery = field(default_factory=dict)
    separation: metrics.Separation | None = None

    def split(self, grouped: Mapping[str, str]) -> Iterator[tuple[str, int, Mapping[str, float]]]:
        """Each group that has a query with a relevant document, by name: how many of these, and their figures."""
        for name in sorted(set(grouped.values())):
            figures = {
                metric: [value for query, value in values.items() if grouped.get(query) == name]
                for metric, values in self.values.items()
            }
            if counted := len(next(iter(figures.values()), ())):
                yield name, counted, {metric: metrics.mean(values) for metric, values in figures.items()}


@dataclass(frozen=True)
class Variant:
    """One way to rank: a recipe, with or without its model."""

    recipe: Recipe
    rerank: bool

    @property
    def name(self) -> str:
        """Its name in tables and runs."""
        return f"{self.recipe.name}+rerank" if self.rerank else self.recipe.name


def events(path: Path, recipe: Recipe | None = None, **asked: Any) -> Iterator[dict[str, Any]]:
    """The file's queries as events, asking for this.

    A query that is asked by `recipe` keeps the overrides that the recipe can have, as a recorded pool does. Raises
    InputError for a line that isn't an object with a `query_id` of its own.
    """
    lines: dict[str, int] = {}
    for number, query in numbered_jsonl(path):
        if not isinstance(query.get("query_id"), str):
            raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: query_id: missing, or not a string")
        if (before := lines.setdefault(query["query_id"], number)) != number:
            twice = f"query_id: line {before} has {query['query_id']}, too"
            raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: {twice}")
        event = to_event(query)
        if recipe is not None:
            event["recipe"] = recipe.name
            if isinstance(overrides := event.get("overrides"), dict):
                event["overrides"] = recipe.select_own(overrides)
        yield {**event, "limit": DEPTH, "timeout_ms": TIMEOUT_MS, **asked}


def to_event(query: Mapping[str, Any]) -> dict[str, Any]:
    """A query of a file as the event that is ranked; columns that an event doesn't have go into its metadata."""
    event = {name: value for name, value in query.items() if name in _EVENT_FIELDS - _UNASKED}
    columns = {name: value for name, value in query.items() if name not in _EVENT_FIELDS}
    own = event.get("metadata")
    return {**event, "metadata": {**own, **columns} if isinstance(own, dict) else columns}


def groups(path: Path, column: str) -> dict[str, str]:
    """The group of each query in a file: its value in this column, as text. Raises InputError if no query has one."""
    having = (query for query in read_jsonl(path) if query.get(column) is not None)
    found = {str(query.get("query_id")): str(query[column]) for query in having}
    if not found:
        raise InputError(DeadLetterClass.INVALID, f"{path}: {column}: no query has this column")
    return found


def variants(names: Iterable[str], known: Mapping[str, Recipe] = SHIPPED, *, stages: bool) -> list[Variant]:
    """Recipes with and without their model, and with `stages` their beginnings first. Raises ConfigError."""
    found: dict[str, Variant] = {}
    for recipe in (find_recipe(name, known) for name in names):
        for beginning in _beginnings(recipe) if stages else ():
            others = [found[beginning.name].recipe] if beginning.name in found else []
            # A recipe may have the name of its first stage.
            others += [recipe] if beginning.name == recipe.name else []
            if any(other.hash != beginning.hash for other in others):
                beginning = replace(beginning, name=f"{recipe.name}: {beginning.name}")
            found.setdefault(beginning.name, Variant(beginning, False))
        model = [Variant(recipe, True)] if recipe.reranking is not None or recipe.picking is not None else []
        for variant in (Variant(recipe, False), *model):
            if variant.name in found and found[variant.name].recipe.hash != recipe.hash:
                raise ConfigError(f"two recipes are called {recipe.name}")
            found[variant.name] = variant
    return list(found.values())


def _beginnings(recipe: Recipe) -> Iterator[Recipe]:
    running = [stage.name for stage in recipe.running if not isinstance(stage, Rerank)]
    for count in range(1, len(running)):
        listed = [{name: dict(recipe.written[name])} for name in running[:count]]
        yield Recipe.parse(" > ".join(running[:count]), {"stages": listed, MAX_DISTANCE: recipe.max_distance})


@contextlib.contextmanager
def run_flow(
    settings: Settings | None,
    documents: Path | None,
    index: Path | None,
    recipes: Iterable[Recipe],
    console: Console,
    *,
    deep: bool = False,
    allow_rejected: bool = False,
) -> Iterator[Embedded]:
    """The search flow running on a broker in this process, with these recipes and the configured or shipped ones.

    It searches the documents, indexed in this process, or without any the configured index. `index` keeps the index of
    the documents for the next time. `deep`: if a query is reranked, all of its candidates are. `allow_rejected`:
    documents that cannot be taken are counted, and left out. Raises RankstreamError.
    """
    with contextlib.ExitStack() as stack:
        directory = None
        if documents is not None:
            directory = index if index is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if settings is None:
            assert directory is not None
            settings = embedded_settings(directory)
        profiles = dict(settings.profiles)
        if deep and not selects(settings.rerank):
            for name, each in profiles.items():
                if each.rerank_top:
                    profiles[name] = each.model_copy(update={"rerank_top": MOST_RERANKED})
        known = {**settings.recipes, **{recipe.name: recipe for recipe in recipes}}
        asked = settings.model_copy(update={"recipes": known, "profiles": profiles})
        running = stack.enter_context(start_with_settings(asked, directory))
        if documents is not None and directory is not None:
            records = Records.of(documents, asked.documents)
            wrong, _ = records.survey()
            source = documents.name, records.usable if allow_rejected else records.objects, records.version()
            index_once(running, *source, directory, console, complete=not allow_rejected, wrong=wrong)
        stack.enter_context(running.searching())
        yield running


def read_judgements(
    qrels: Path,
    queries: Path,
    documents: Path | None,
    planner: Planner = _SHIPPED,
    own: DocumentSettings = OWN_FORM,
) -> Qrels:
    """The judgements in a TREC file about these queries, as `planner` groups their results.

    Documents have their `own` form.

    Raises InputError if there are none, or if no document, where they are given, is relevant: every figure would be 0.
    """
    every = read_qrels(qrels)
    asked = {event["query_id"]: event for event in events(queries)}
    judged = select_judged(every, asked, qrels, queries)
    if documents is not None:
        fields = {query: _grouping_field(asked[query], planner) for query in judged}
        there = ((id_of(each, own.id_column) or "", each) for _, each in Records.of(documents, own).usable())
        check_documents(judged, fields, there, qrels, documents)
    return judged


def _grouping_field(event: dict[str, Any], planner: Planner) -> str | None:
    try:
        return planner.grouping_field(validate(QueryEvent, event))
    except InputError:
        # The flow says so, too, and more of it.
        return None


def judged_name(id_: str, payload: Mapping[str, Any], field: str | None) -> str:
    """The name by which qrels judge a document: the key of its group in the field, if it has one, and else its id."""
    key = key_of(payload, field) if field is not None else None
    return id_ if key is None else str(key)


def judged_hit(hit: Mapping[str, Any]) -> str:
    """The same of a result, which carries the key of its group."""
    key = hit.get("group", {}).get("key")
    return str(hit["id"] if key is None else key)


def read_qrels(path: Path) -> Qrels:
    """The judgements in a TREC file. Raises InputError naming the wrong line."""
    return read_trec(path, metrics.parse_qrels)


def read_trec(path: Path, parse: Callable[[Iterable[str]], Parsed]) -> Parsed:
    """The lines of a file of judgements or of a run, as they are read. Raises InputError naming the wrong line."""
    # Editors of Windows begin a file with a byte order mark.
    with path.open(encoding="utf-8-sig") as lines:
        try:
            with naming(path):
                return parse(lines)
        except UnicodeDecodeError:
            raise InputError(DeadLetterClass.INVALID, f"{path}: UTF-8 is expected") from None


def select_judged(judged: Qrels, queries: Collection[str], qrels: Path, *asked: Path) -> Qrels:
    """The judgements of these queries, which were read from the files `asked`. Raises InputError for none."""
    found = {query: grades for query, grades in judged.items() if query in queries}
    if not found:
        raise _foreign(qrels, "queries", judged, *asked)
    return found


def check_documents(
    judged: Qrels, fields: Mapping[str, str | None], documents: Iterable[DocumentWithId], qrels: Path, file: Path
) -> None:
    """Raise InputError if no document of `file` is relevant to a query; `fields` are those that group their results."""
    names: dict[str | None, set[str]] = {}
    for query, grades in relevant(judged).items():
        names.setdefault(fields[query], set()).update(name for name, grade in grades.items() if grade > 0)
    if not any(judged_name(*each, field) in own for each in documents for field, own in names.items()):
        grouped = sorted(field for field in names if field is not None)
        hint = f"; results are grouped: judge values of {', '.join(grouped)}" if grouped else ""
        raise _foreign(qrels, "relevant documents", set().union(*names.values()), file, hint=hint)


def _foreign(qrels: Path, what: str, judged: Collection[str], *files: Path, hint: str = "") -> InputError:
    example = f", such as {min(judged)}," if judged else ""
    said = f"none of its {len(judged)} {what}{example} is in {' or '.join(map(str, files))}{hint}"
    return InputError(DeadLetterClass.INVALID, f"{qrels}: {said}")


def measure(
    running: Embedded, queries: Path, variants: Iterable[Variant], judged: Qrels, runs: Path | None
) -> Iterator[ReportRow]:
    """Ask every query once in each way, and judge.

    A query of the kind `nothing` has no answer: its best result should be less relevant than those of judged queries.
    """
    unanswerable = {event["query_id"] for event in events(queries) if event["metadata"].get("kind") == NOTHING}
    for variant in variants:
        best: dict[str, float] = {}
        ranked: dict[str, list[tuple[str, float]]] = {}
        tally = AnswerCounts()
        with QueryClient.connect(running.kafka, running.settings.kafka.topics) as query_client:
            asked = events(queries, variant.recipe, rerank=variant.rerank)
            for result in query_client.ask(asked, ANSWER_TIMEOUT):
                ranked[result["query_id"]] = [(judged_hit(hit), hit["score"]) for hit in result["results"]]
                best[result["query_id"]] = max((hit.get("relevance", 0.0) for hit in result["results"]), default=0.0)
                tally.count(result)
        with_answer = [best[query] for query in relevant(judged) if query in best and query not in unanswerable]
        found = metrics.separate(with_answer, [best[query] for query in unanswerable if query in best])
        yield replace(make_row(variant.name, ranked, tally, judged, runs), separation=found)


def make_row(name: str, ranked: TrecRun, tally: AnswerCounts, judged: Qrels, runs: Path | None) -> ReportRow:
    """The figures of one way to rank; `runs` is a directory for TREC runs."""
    if runs is not None:
        runs.mkdir(parents=True, exist_ok=True)
        # Recipes may be called `team/a`.
        file = re.sub(r"[%/\\]", lambda found: quote(found[0], safe=""), name) + ".run"
        with (runs / file).open("w", encoding="utf-8") as out:
            for query in sorted(ranked):
                out.writelines(metrics.run_lines(query, ranked[query], name))
    order = {query: [document for document, _ in hits] for query, hits in ranked.items()}
    return ReportRow(name, metrics.evaluate_run(order, judged), tally, metrics.by_query(order, judged))

"""Sources of rankings: queries that run through the real flow, or recorded pools, which need no index.

A pool is what production saw; other recipes rank it, and judgements of its query say how well.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer
from rich.console import RenderableType

from flows.cli.evaluate import evaluation
from flows.cli.evaluate.evaluation import AnswerCounts, Qrels, ReportRow, Variant
from flows.cli.ingestion import OWN_FORM, naming, numbered_lines
from flows.cli.init import Sample, print_mapping
from flows.cli.output import input_file, out, say, stderr
from flows.cli.query import QueryClient
from flows.cli.rank import PoolRanker, ReadPool
from flows.cli.records import Records
from flows.process.embedded import Embedded, embedded_settings
from operators.evaluation.metrics import relevant
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import Settings, load

QrelsOption = Annotated[Path, input_file("Relevance judgements in TREC format (qrels).", once=True)]
QueriesOption = Annotated[Path | None, input_file("JSON Lines file of queries, to run.")]
DocumentsOption = Annotated[
    Path | None,
    input_file(
        "Documents to index in this process: a file of JSON Lines, JSON or CSV, or a folder of Markdown or HTML."
        " Default: the configured index is searched.",
        folder=True,
    ),
]
PoolsOption = Annotated[
    Path | None,
    input_file(
        "JSON Lines file of recorded pools, or of results with pools, to rank in place of --queries.", once=True
    ),
]
ModelsOption = Annotated[
    Path | None,
    typer.Option(
        help="YAML configuration file of your models, recipes and index, which is only read; its Kafka isn't used."
        " Default: the shipped models and recipes, and what `init` decides of --documents."
    ),
]
RecipesOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Recipe: a name or a YAML file; may be repeated. Default: all shipped recipes, and those of --config."
    ),
]
IndexDir = Annotated[Path | None, typer.Option("--index", help="Directory for the index. Default: a temporary one.")]

AllowPartial = Annotated[
    bool,
    typer.Option("--allow-partial", help="Exit with 0 though answers failed, expired or lost a stage. Default: 1."),
]

AllowRejected = Annotated[
    bool, typer.Option("--allow-rejected", help="Go on without documents that cannot be taken, and count them.")
]

_UNANSWERED: Final = 8
"""Queries under way while pools are recorded: pools are large, and an embedded broker drops what it can't hold."""


@dataclass(frozen=True)
class JudgedQueries:
    """Rows and pools of the judged queries; `tally` counts the answers whose pools the flow recorded."""

    judged: Qrels
    ranker: PoolRanker
    rows: Iterator[ReportRow]
    pools: Callable[[Recipe], Iterable[ReadPool]]
    note: str
    tally: AnswerCounts = field(default_factory=AnswerCounts)

    @property
    def counts(self) -> dict[str, int]:
        """The number of judged queries, which have a relevant document, and of the others in the qrels, as JSON."""
        counted = len(relevant(self.judged))
        return {"judged": counted, "not_relevant": len(self.judged) - counted}


@dataclass
class Given:
    """The files of a command, and its configuration. Raises ConfigError, and BadParameter if they do not fit."""

    qrels: Path
    queries: Path | None
    documents: Path | None
    pools: Path | None
    config: InitVar[Path | None]
    index: Path | None
    allow_rejected: bool = False
    settings: Settings | None = field(init=False)

    def __post_init__(self, config: Path | None) -> None:
        searched = {"--queries": self.queries, "--documents": self.documents, "--index": self.index}
        if self.pools is not None and (more := [name for name, value in searched.items() if value is not None]):
            raise typer.BadParameter(f"not with {', '.join(more)}: they hold what was found", param_hint="--pools")
        if self.pools is None and self.queries is None:
            raise typer.BadParameter("nothing to measure: give --queries or --pools")
        if self.pools is None and self.documents is None and config is None:
            raise typer.BadParameter("nothing to search: give --documents, or --config with an index")
        if self.index is not None and self.documents is None:
            raise typer.BadParameter("it keeps the index of --documents", param_hint="--index")
        # The configured index is searched only where documents and pools are not given.
        own = None if self.documents is None and self.pools is None else self.index or Path()
        self.settings = load(config, index=own) if config is not None else self._infer()

    def _infer(self) -> Settings | None:
        """The settings that `init` decides for the documents; None without documents."""
        if self.documents is None:
            return None
        sample = Sample.of_file(Records.of(self.documents), self.documents.name)
        mapping = sample.infer()
        print_mapping(mapping, sample, stderr)
        return embedded_settings(Path(), mapping.settings())

    @property
    def named_recipes(self) -> Mapping[str, Recipe]:
        """The recipes that have a name."""
        return self.settings.recipes if self.settings is not None else SHIPPED

    @contextlib.contextmanager
    def open(
        self, variants: Sequence[Variant], run_dir: Path | None = None, *, deep: bool = False
    ) -> Iterator[JudgedQueries]:
        """The source of these ways to rank; `run_dir` is for run files, `deep` has all candidates reranked.

        Raises ConfigError, InputError, DeliveryError and BackendError.
        """
        ranker = PoolRanker.of(self.settings, None, explain=False)
        if self.pools is not None:
            recorded = read_pools(self.pools, self.qrels, ranker)
            note = _count(recorded.judged, f"; {recorded.reranked} of their pools hold rerank scores")
            if recorded.unrecorded:
                note += f"; {recorded.unrecorded} judged queries have results without a pool, and don't count"
            rows = rank_pools(recorded, ranker, variants, run_dir)
            yield JudgedQueries(recorded.judged, ranker, rows, recorded.rerank_pools, note)
            return
        queries = self.queries
        assert queries is not None
        own = self.settings.documents if self.settings is not None else OWN_FORM
        judged = evaluation.read_judgements(self.qrels, queries, self.documents, ranker.planner, own)
        recipes, tally = [variant.recipe for variant in variants], AnswerCounts()
        source = self.settings, self.documents, self.index, recipes, stderr
        with evaluation.run_flow(*source, deep=deep, allow_rejected=self.allow_rejected) as running:
            rows = evaluation.measure(running, queries, variants, judged, run_dir)
            record = partial(record_pools, running, queries, judged=relevant(judged), ranker=ranker, tally=tally)
            yield JudgedQueries(judged, ranker, rows, record, _count(judged), tally)


def _count(judged: Qrels, more: str = "") -> str:
    """The number of judged queries, `more` about them, and that of queries that can't tell rankings apart."""
    counted = len(relevant(judged))
    left = f"; {len(judged) - counted} have no relevant document, and don't count" if counted < len(judged) else ""
    return f"{counted} queries are judged{more}{left}"


def print_report(parts: Iterable[RenderableType]) -> None:
    """Print the parts of a report."""
    for part in parts:
        out.print(part)


def report_lost(counts: Iterable[tuple[str, AnswerCounts]], *, allowed: bool) -> None:
    """Say by the answers of each name what is missing; end the command with 1 unless that is allowed."""
    said = [lost for name, tally in counts if (lost := tally.describe_lost(name)) is not None]
    for each in said:
        stderr.print(each, style="yellow" if allowed else "red", soft_wrap=True)
    if said and not allowed:
        say(stderr, "the figures are those of lost answers: --allow-partial takes them", "red")
        raise typer.Exit(1)


def record_pools(
    running: Embedded, queries: Path, recipe: Recipe, judged: Collection[str], ranker: PoolRanker, tally: AnswerCounts
) -> list[ReadPool]:
    """The pools of all judged queries, with scores of the recipe's model if it asks one; `tally` counts the answers."""
    pools = []
    with QueryClient.connect(running.kafka, running.settings.kafka.topics) as query_client:
        every = evaluation.events(queries, recipe, rerank=True, record=True)
        asked = (event for event in every if event["query_id"] in judged)
        for result in query_client.ask(asked, evaluation.ANSWER_TIMEOUT, _UNANSWERED):
            if "pool" not in result:
                raise ConfigError(f"query {result['query_id']}: no pool was recorded: {evaluation.failure_of(result)}")
            tally.count(result)
            pools.append(ranker.read_pool(orjson.dumps(result["pool"])))
    return pools


@dataclass(frozen=True)
class Recorded:
    """Pools and judgements by query; judged queries whose results carry no pool are `unrecorded`, and don't count."""

    pools: Mapping[str, ReadPool]
    judged: Qrels
    unrecorded: int = 0

    @property
    def reranked(self) -> int:
        """The number of judged queries' pools with rerank scores."""
        return sum(self.pools[query].pool.rerank is not None for query in relevant(self.judged))

    def rerank_pools(self, _: Recipe) -> list[ReadPool]:
        """The pools, as if their queries had asked for a reranker: the same for each recipe."""
        return [read.change_query(rerank=True) for read in self.pools.values()]


def read_pools(path: Path, qrels: Path, ranker: PoolRanker) -> Recorded:
    """Read a JSON Lines file of pools, or of results that carry them, and the judgements about their queries.

    Raises InputError for a line that is neither, for two pools of a query, and if no query or document is relevant.
    """
    every = evaluation.read_qrels(qrels)
    pools: dict[str, ReadPool] = {}
    lines: dict[str, int] = {}
    without: set[str] = set()
    for number, line in numbered_lines(path):
        try:
            read = ranker.read_pool(line)
        except InputError as error:
            if (query := _query_without_pool(line, error)) is None:
                raise InputError(error.kind, f"{path}:{number}: {error}") from error
            without.add(query)
            continue
        query = read.pool.query.query_id
        if query not in every:
            continue
        if query in pools and pools[query].pool != read.pool:
            twice = f"{path}:{number}: query {query} has another pool in line {lines[query]}"
            raise InputError(DeadLetterClass.INVALID, twice)
        pools[query], lines[query] = read, number
    judged = evaluation.select_judged(every, pools.keys(), qrels, path)
    fields = {query: ranker.planner.grouping_field(read.pool.query) for query, read in pools.items()}
    offered = ((hit.id, hit.payload) for read in pools.values() for leg in read.pool.legs for hit in leg.hits)
    evaluation.check_documents(judged, fields, offered, qrels, path)
    return Recorded(pools, judged, len(without & relevant(every).keys() - pools.keys()))


def rank_pools(
    recorded: Recorded, ranker: PoolRanker, variants: Iterable[Variant], runs: Path | None
) -> Iterator[ReportRow]:
    """Rank every pool in each way, and judge; one with a model needs recorded rerank scores. Raises InputError."""
    for variant in variants:
        if variant.rerank and not recorded.reranked:
            continue
        by_recipe = replace(ranker, recipe=variant.recipe)
        found: dict[str, list[tuple[str, float]]] = {}
        tally = AnswerCounts()
        for query, read in recorded.pools.items():
            with naming(f"query {query}, recipe {variant.recipe.name}"):
                status, order = by_recipe.rank_all(read.change_query(rerank=variant.rerank))
            found[query] = order[: evaluation.DEPTH]
            tally.answered[status.value] += 1
        yield evaluation.make_row(variant.name, found, tally, recorded.judged, runs)


def _query_without_pool(line: bytes, error: InputError) -> str | None:
    """The query of a result that carries no pool; None for any other line that can't be read."""
    if error.field != "pool":
        return None
    match orjson.loads(line):
        case {"result_id": _, "query_id": str(query)}:
            return query
    return None

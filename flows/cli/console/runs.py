"""A run over a set of queries: each column's metrics by query, their comparison, and tuning that starts from there."""

import threading
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from flows.cli.console.columns import COLUMNS, Column, shorten_overrides
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.workbench import Workbench
from flows.cli.evaluate.command import compare_values, summarise
from flows.cli.evaluate.evaluation import DEPTH, to_event
from flows.cli.evaluate.tune import Rules, parse_wanted, recipes_with, recipes_yaml, tune_recipe
from operators.evaluation.metrics import TABLE, by_query, relevant
from schemas.errors import ConfigError, DeadLetterClass, InputError, RankstreamError, invalid
from schemas.fields import Strict

TRIALS: Final = 60

_OWN: Final = frozenset({"query_id", "timeout_ms", *Column.model_fields})
"""Fields of a query of the set that a run has its own of; a column says all of its own, also by leaving one empty."""


class BatchRun(Strict):
    """Some queries of the set, to be asked by each column."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=COLUMNS)]
    queries: Annotated[list[str], Field(min_length=1, max_length=64)]


class Compared(Strict):
    """The values of two columns: metric -> query -> value."""

    first: dict[str, dict[str, float]]
    second: dict[str, dict[str, float]]
    metric: str = "nDCG@10"


class Tuning(Strict):
    """Parameters of a column's recipe to tune on the judged queries, as `tune` takes them."""

    column: Column
    wanted: Annotated[list[str], Field(min_length=1, max_length=16)]
    metric: str = "nDCG@10"


def measure_batch(bench: Workbench, batch: BatchRun) -> list[dict[str, dict[str, float]]]:
    """Each column's values of every metric by query with a relevant document. Raises RankstreamError and OSError."""
    judged = {query: bench.judgements.grades_of(query) for query in batch.queries}
    events = [_query_fields(bench.judgements, each) for each in batch.queries]
    orders = (bench.order(column, events, DEPTH) for column in batch.columns)
    return [by_query(dict(zip(batch.queries, order, strict=True)), judged) for order in orders]


def _query_fields(judgements: JudgementFile, query: str) -> dict[str, Any]:
    if query not in judgements.set:
        raise invalid("queries", "the set has none of this id", query)
    event = to_event(judgements.set[query])
    return {name: value for name, value in event.items() if name not in _OWN} | {"limit": DEPTH}


def compare_runs(compared: Compared) -> dict[str, Any]:
    """Means with their intervals, and the values of each query, the greatest difference first. Raises InputError."""
    _check_metric(compared.metric)
    if compared.first.keys() != TABLE.keys() or compared.second.keys() != TABLE.keys():
        raise InputError(DeadLetterClass.INVALID, f"first, second: {', '.join(TABLE)} are expected")
    values = [*compared.first.values(), *compared.second.values()]
    if any(each.keys() != values[0].keys() for each in values):
        raise InputError(DeadLetterClass.INVALID, "first, second: values of the same queries are expected")
    return summarise(compare_values(compared.first, compared.second, compared.metric, 0))


def _check_metric(metric: str) -> None:
    if metric not in TABLE:
        raise invalid("metric", f"one of {', '.join(TABLE)} is expected", metric)


class Tuner:
    """Tunes one recipe at a time, on a thread of its own."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] = {"state": "idle"}

    def start(self, tuning: Tuning) -> dict[str, Any]:
        """Begin. Raises InputError if another one is under way, or for what can't be tuned."""
        _check_metric(tuning.metric)
        recipe = self._bench.recipe(tuning.column)
        try:
            wanted = [parse_wanted(each) for each in tuning.wanted]
            [recipe] = recipes_with([recipe], wanted)
        except (ConfigError, ValueError) as error:
            raise InputError(DeadLetterClass.INVALID, f"wanted: {error}") from error
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise InputError(DeadLetterClass.INVALID, "tuning: another one is under way")
            self._state = {"state": "recording", "tried": 0, "trials": TRIALS}
            self._thread = threading.Thread(target=self._run, args=(tuning, wanted), name="tuning", daemon=True)
            self._thread.start()
        return self.progress()

    def progress(self) -> dict[str, Any]:
        """The state: idle, recording, tuning with the number of tried settings, done with the report, or failed."""
        return dict(self._state)

    def _run(self, tuning: Tuning, wanted: Sequence[Any]) -> None:
        bench = self._bench
        recipe = bench.recipe(tuning.column)
        grades = relevant(bench.judgements.grades)
        judged = {query: grades[query] for query in grades if query in bench.judgements.set}

        def note(tried: int) -> None:
            self._state = {"state": "tuning", "tried": tried, "trials": TRIALS}

        try:
            asked = tuning.column.model_copy(update={"rerank": True, "min_relevance": None})
            queries = [{**_query_fields(bench.judgements, each), "query_id": each} for each in judged]
            rules = Rules(metric=tuning.metric, trials=TRIALS)
            ranker, pools = bench.configuration_of(tuning.column).ranker, bench.record(asked, queries)
            tuned = tune_recipe(ranker, recipe, pools, wanted, judged, rules, note)
            report, plain = tuned.report(), bench.plain_recipe(tuning.column)
            overrides = {stage: dict(each) for stage, each in tuned.recipe.written.items()}
            self._state = {
                "state": "done",
                "verdict": tuned.verdict(),
                "values": [{"path": path, "value": value} for path, value in report["values"].items()],
                **{name: report[name] for name in ("metric", "means", "chosen_on", "judged_on")},
                "overrides": shorten_overrides(plain, overrides),
                "yaml": recipes_yaml({recipe.name: tuned.recipe}),
            }
        except (RankstreamError, OSError) as error:
            self._state = {"state": "failed", "error": str(error)}

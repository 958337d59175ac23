"""Tuning: a recipe's parameters chosen on one half of the queries, and judged on the other.

The pools are recorded once, through the real flow; every combination of values then ranks them offline.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import orjson
from rich.table import Table

from flows.cli.evaluation import ANSWER_TIMEOUT, events
from flows.cli.pool_ranking import PoolRanker, ReadPool
from flows.cli.query_client import QueryClient
from flows.process.embedded import Embedded
from operators.evaluation.metrics import TABLE, evaluate
from operators.query.plan import Planner
from schemas.errors import ConfigError
from schemas.recipes import Recipe
from schemas.settings import Limits
from schemas.settings.ranking import PROFILES

_UNANSWERED: Final = 8
"""Queries under way while pools are recorded: they are large, and an embedded broker drops what it can't hold."""

Judgements = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Hyperparameter:
    """One parameter of a recipe, and the values to try."""

    stage: str
    parameter: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `score.alpha=0.2,0.5,0.8`; values are JSON. Raises ValueError."""
        path, _, listed = text.partition("=")
        stage, _, parameter = path.partition(".")
        if not (stage and parameter and listed.strip()):
            raise ValueError(f"{text!r} is not STAGE.PARAMETER=VALUE,VALUE")
        return cls(stage, parameter, tuple(orjson.loads(f"[{listed}]")))


@dataclass(frozen=True)
class Tuned:
    """The best values on one half, and what recipe and tuned recipe reach on the other."""

    recipe: str
    values: Mapping[str, Any]
    tried: int
    chosen_on: int
    judged_on: int
    before: Mapping[str, float]
    after: Mapping[str, float]

    def report(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def tuned(
    running: Embedded,
    queries: Path,
    recipes: Iterable[Recipe],
    hyperparameters: Sequence[Hyperparameter],
    judged: Judgements,
    metric: str,
) -> Iterator[Tuned]:
    """Tune each recipe that has the stages of all of them. Raises ConfigError if none has, or for no such metric."""
    if metric not in TABLE:
        raise ConfigError(f"metric {metric}: not one of {', '.join(TABLE)}")
    wanted = {hyperparameter.stage for hyperparameter in hyperparameters}
    fitting = [recipe for recipe in recipes if wanted <= recipe.written.keys()]
    if not fitting:
        raise ConfigError(f"no recipe has the stages {', '.join(sorted(wanted))}")
    for recipe in fitting:
        ranker = PoolRanker(Planner(PROFILES), Limits(), recipe=recipe)
        yield tune(ranker, record(running, queries, recipe.name), hyperparameters, judged, metric)


def record(running: Embedded, queries: Path, recipe: str) -> list[bytes]:
    """The candidate pool of every query, as JSON, in the order of their ids."""
    pools = {}
    with QueryClient.connected(running.kafka, running.settings.kafka.topics) as query_client:
        asked = events(queries, recipe=recipe, rerank=False, record=True)
        for result in query_client.ask(asked, ANSWER_TIMEOUT, _UNANSWERED):
            if "pool" not in result:
                raise ConfigError(f"query {result['query_id']}: no pool was recorded: {result['warnings']}")
            pools[result["query_id"]] = orjson.dumps(result["pool"])
    return [pools[query] for query in sorted(pools)]


def tune(
    ranker: PoolRanker,
    pools: Sequence[bytes],
    hyperparameters: Sequence[Hyperparameter],
    judged: Judgements,
    metric: str,
) -> Tuned:
    """The combination with the best `metric` on every second query, judged on the others.

    Of equals the first in the order of the values. Raises ConfigError for a parameter that the recipe lacks.
    """
    read = [ranker.read(pool) for pool in pools]
    chosen_on, judged_on = read[::2], read[1::2]
    best: tuple[float, Mapping[str, Any]] | None = None
    tried = 0
    for values in itertools.product(*(hyperparameter.values for hyperparameter in hyperparameters)):
        setting = {
            f"{hyperparameter.stage}.{hyperparameter.parameter}": value
            for hyperparameter, value in zip(hyperparameters, values, strict=True)
        }
        figure = _figures(ranker, chosen_on, setting, judged)[metric]
        tried += 1
        if best is None or figure > best[0]:
            best = figure, setting
    assert best is not None
    before, after = (_figures(ranker, judged_on, setting, judged) for setting in ({}, best[1]))
    assert ranker.recipe is not None
    return Tuned(ranker.recipe.name, best[1], tried, len(chosen_on), len(judged_on), before, after)


def table(tuned: Tuned) -> Table:
    """What the other half says of the recipe and of its tuned form."""
    shown = Table(f"{tuned.recipe}, {tuned.judged_on} queries", *tuned.before)
    values = ", ".join(f"{path} {value}" for path, value in tuned.values.items())
    for name, figures in (("as it is", tuned.before), (values, tuned.after)):
        shown.add_row(name, *(f"{figure:.3f}" for figure in figures.values()))
    return shown


def _figures(
    ranker: PoolRanker, pools: Iterable[ReadPool], setting: Mapping[str, Any], judged: Judgements
) -> Mapping[str, float]:
    changed = ranker.overridden(setting)
    order = {}
    for pool in pools:
        result = changed.rank(pool)
        order[result["query_id"]] = [hit["id"] for hit in result["results"]]
    return evaluate(order, {query: grades for query, grades in judged.items() if query in order})

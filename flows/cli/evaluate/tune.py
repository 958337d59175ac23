"""`rankstream tune`: a recipe's parameters chosen on one half of the judged queries, and judged on the other.

The pools are recorded once; every setting then ranks them offline, with the rerank scores that are recorded in them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import yaml
from rich.console import RenderableType

from flows.cli.config import begin_quietly
from flows.cli.evaluate import sources
from flows.cli.evaluate.command import Metric, means_table, signs, summarise, too_few
from flows.cli.evaluate.evaluation import Qrels, variants
from flows.cli.output import Json, emit, progress, say, stderr
from flows.cli.rank import PoolRanker, ReadPool, find_recipe
from operators.evaluation.comparison import Comparison, Verdict, compare_systems
from operators.evaluation.metrics import TABLE, Halves, JudgedQuery, by_query, halves, mean, relevant
from operators.evaluation.search import (
    BestSetting,
    Dimension,
    Setting,
    Wanted,
    coordinate_search,
    dimensions,
    with_setting,
)
from schemas.errors import ConfigError
from schemas.query import QueryEvent
from schemas.recipes import MAX_DISTANCE, Recipe, RecipeError
from schemas.recipes.stages import Reflections
from schemas.texts import nfkc


@dataclass(frozen=True)
class Rules:
    """Rules of tuning: the metric to maximise, the seed of the halves, and the greatest number of trials."""

    metric: str = "nDCG@10"
    seed: int = 0
    trials: int = 300


@dataclass(frozen=True)
class Tuned:
    """A tuned recipe: the setting found on the tuning half, and the figures of both recipes on the other half.

    `own` is the untuned recipe's figure on the tuning half; `reranked` counts the pools of both that hold rerank
    scores.
    """

    recipe: Recipe
    rules: Rules
    found: BestSetting
    own: float
    halves: Halves
    comparison: Comparison
    reranked: int

    def report(self) -> dict[str, Any]:
        """The report as JSON."""
        compared = summarise(self.comparison)
        return {
            "recipe": self.recipe.name,
            "values": dict(self.found.setting),
            "tried": self.found.tried,
            "complete": self.found.complete,
            "seed": self.rules.seed,
            "chosen_on": len(self.halves.tuning),
            "judged_on": len(self.comparison.moves),
            "reranked": self.reranked,
            "chosen": {"before": self.own, "after": self.found.figure},
            "before": {metric: each.first for metric, each in self.comparison.means.items()},
            "after": {metric: each.second for metric, each in self.comparison.means.items()},
            **{name: compared[name] for name in ("metric", "verdict", "means", "confidence", "sign_test")},
            "definition": self.recipe.definition,
            "held_out": compared["queries"],
        }

    def verdict(self) -> str:
        """The verdict of the held-out half, in a sentence."""
        metric = self.rules.metric
        difference, low, high = self.comparison.means[metric][2:]
        figures = f"{metric} {difference:+.3f}, interval {low:+.3f} to {high:+.3f}"
        measured = "; ".join(filter(None, (figures, too_few(self.comparison))))
        if not self.found.setting:
            return f"{self.recipe.name}: no value that was tried is better than the recipe's own."
        if self.comparison.verdict is Verdict.BETTER:
            return f"{self.recipe.name}: the tuned recipe is better on the held-out queries ({measured})."
        if self.comparison.verdict is Verdict.WORSE or difference <= 0:
            return f"{self.recipe.name}: the tuned recipe is NOT better on the held-out queries ({measured})."
        return f"{self.recipe.name}: the tuned recipe is not shown to be better on the held-out queries ({measured})."


def parse_wanted(text: str) -> Wanted:
    """Read `score`, `score.alpha`, `score.weights.keyword` or `score.alpha=0.2,0.5`, as JSON. Raises BadParameter."""
    path, equals, listed = text.partition("=")
    stage, *rest = path.strip().split(".", 2)
    if not all((stage, *rest)) or (equals and not (rest and listed.strip())):
        raise typer.BadParameter(f"{text!r} is not STAGE, STAGE.PARAMETER or STAGE.PARAMETER=VALUE,VALUE")
    try:
        values = tuple(orjson.loads(f"[{listed}]")) if equals else None
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: the values are not JSON: {error}") from error
    parameter, key = (*rest, None, None)[:2]
    return Wanted(stage, parameter, key, values)


def tune(
    wanted: Annotated[
        list[Wanted],
        typer.Argument(
            parser=parse_wanted,
            metavar="STAGE[.PARAMETER[=V,V]]",
            help="Stages (or fuse, or all), parameters, or their values, to tune together.",
        ),
    ],
    qrels: sources.QrelsOption,
    queries: sources.QueriesOption = None,
    documents: sources.DocumentsOption = None,
    pools: sources.PoolsOption = None,
    config: sources.ModelsOption = None,
    recipe: sources.RecipesOption = None,
    write: Annotated[
        Path | None, typer.Option(help="New YAML file for the tuned recipes: a section of the configuration.")
    ] = None,
    metric: Metric = "nDCG@10",
    trials: Annotated[int, typer.Option(min=1, help="Maximum number of settings to try.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the halves and of the intervals.")] = 0,
    index_dir: sources.IndexDir = None,
    allow_partial: sources.AllowPartial = False,
    allow_rejected: sources.AllowRejected = False,
    as_json: Json = False,
) -> None:
    """Tune parameters of recipes on one half of the judged queries, and report on the other half.

    Queries or pools are given as for `evaluate`. Recipes without one of the stages are left out. Exit code 1 if an
    answer is not whole.
    """
    begin_quietly()
    if write is not None and write.exists():
        raise typer.BadParameter(f"{write} exists", param_hint="--write")
    given = sources.Given(qrels, queries, documents, pools, config, index_dir, allow_rejected)
    recipes = recipes_with([find_recipe(name, given.named_recipes) for name in recipe or given.named_recipes], wanted)
    rules = Rules(metric, seed, trials)
    found = []
    with given.open(variants(recipe or given.named_recipes, given.named_recipes, stages=False), deep=True) as source:
        for each in recipes:
            recorded = source.pools(each)
            with progress(f"tuning {each.name}: settings", stderr) as tell:
                told = source.ranker, each, recorded, wanted, source.judged, rules
                tuned = tune_recipe(*told, lambda number: tell(number, None))
            found.append(tuned)
            if as_json:
                emit(tuned.report())
            else:
                sources.print_report(describe_tuned(tuned))
    if write is not None:
        write_recipes(write, {each.recipe.name: each.recipe for each in found}, [each.verdict() for each in found])
        better = [each.recipe.name for each in found if each.comparison.verdict is Verdict.BETTER]
        copy = f"copy {', '.join(better)} from its section `recipes` into your configuration"
        say(stderr, f"wrote {write}: {copy if better else 'no recipe in it is shown to be better than your own'}")
    if not as_json:
        sources.print_report([source.note])
    sources.report_lost([("pools", source.tally)], allowed=allow_partial)


def search_space(recipe: Recipe, wanted: Iterable[Wanted]) -> list[Dimension]:
    """The dimensions of this recipe; of two with one path, the one with listed values. Raises RecipeError."""
    found: dict[str, Dimension] = {}
    for each in wanted:
        for dimension in dimensions(recipe, each):
            if dimension.listed or dimension.path not in found:
                found[dimension.path] = dimension
    for path, dimension in found.items():
        for value in dimension.values if dimension.listed else ():
            with_setting(recipe, {path: value})
    return list(found.values())


def recipes_with(recipes: Iterable[Recipe], wanted: Sequence[Wanted]) -> list[Recipe]:
    """The recipes that have the stages of all that is wanted. Raises ConfigError if none has."""
    found, wrong = [], []
    for recipe in recipes:
        if all(each.names(recipe) for each in wanted):
            try:
                search_space(recipe, wanted)
                found.append(recipe)
            except RecipeError as error:
                wrong.append(error)
    if found:
        return found
    if wrong:
        raise ConfigError(str(wrong[0])) from wrong[0]
    raise ConfigError(f"no recipe has the stages {', '.join(sorted({each.stage for each in wanted}))}")


def tune_recipe(
    ranker: PoolRanker,
    recipe: Recipe,
    pools: Iterable[ReadPool],
    wanted: Sequence[Wanted],
    judged: Qrels,
    rules: Rules,
    tried: Callable[[int], None] = lambda _: None,
) -> Tuned:
    """The setting with the best metric on the tuning half, judged on the other; `tried` is told the number of each.

    Raises ConfigError for a parameter that the recipe can't have, and for fewer queries than halves.
    """
    graded, search, numbers = relevant(judged), search_space(recipe, wanted), count(1)
    read = {
        each.pool.query.query_id: _without_own_values(each, search)
        for each in pools
        if each.pool.query.query_id in graded
    }
    split = halves(map(_judged_query, read.values()), rules.seed)
    if not (split.tuning and split.held_out):
        raise ConfigError(f"tuning needs queries for two halves: {len(read)} judged ones are not enough")

    def order(by: Recipe, queries: Iterable[str]) -> dict[str, list[str]]:
        ranker_by = replace(ranker, recipe=by)
        return {query: [document for document, _ in ranker_by.rank_all(read[query]).ranked] for query in queries}

    def figure(setting: Setting) -> float | None:
        try:
            by = with_setting(recipe, setting)
        except RecipeError:
            return None
        tried(next(numbers))
        ordered = order(by, split.tuning).items()
        return mean([TABLE[rules.metric](documents, graded[query]) for query, documents in ordered])

    own, found = figure({}), coordinate_search(search, figure, rules.trials)
    assert own is not None
    if found is None:
        raise ConfigError(f"{recipe.name}: no combination of the listed values is possible")
    tuned = with_setting(recipe, found.setting)
    held_out = {query: graded[query] for query in split.held_out}
    before, after = (by_query(order(each, held_out), held_out) for each in (recipe, tuned))
    comparison = compare_systems(before, after, rules.metric, rules.seed)
    reranked = sum(each.pool.rerank is not None for each in read.values())
    return Tuned(tuned, rules, found, own, split, comparison, reranked)


def describe_tuned(tuned: Tuned) -> Iterator[RenderableType]:
    """The result of tuning, for a terminal of 80 columns."""
    found, comparison, on = tuned.found, tuned.comparison, len(tuned.halves.tuning)
    values = ", ".join(f"{path} {orjson.dumps(value).decode()}" for path, value in found.setting.items())
    yield f"{tuned.recipe.name}: {values or 'as it is'}"
    figures = f"{tuned.rules.metric} {tuned.own:.3f} -> {found.figure:.3f}"
    ended = "" if found.complete else "; the search was not over: raise --trials"
    yield f"chosen of {found.tried} settings on {on} queries: {figures}{ended}"
    asked = on + len(tuned.halves.held_out)
    if tuned.recipe.reranking is not None and tuned.reranked < asked:
        yield f"{tuned.reranked} of {asked} pools hold rerank scores; the others are ranked without the model"
    yield means_table(comparison, "as it is", "tuned", f"{len(comparison.moves)} held-out queries")
    yield signs(comparison, "tuned")
    yield tuned.verdict()


def _without_own_values(read: ReadPool, search: Iterable[Dimension]) -> ReadPool:
    """The pool, as if its query said nothing of the parameters that are tuned: its value would go before each trial's.

    A mapping in an override takes the place of the whole parameter, so no key of it stays.
    """
    tuned = {tuple(dimension.path.split(".", 2)[:2]) for dimension in search}
    # These have fields of the query, too.
    own = [name for stage, name in tuned if stage == Reflections.name and name in QueryEvent.model_fields]
    said: dict[str, Any] = dict.fromkeys(own)
    if (overrides := read.pool.query.overrides) is not None:
        said["overrides"] = {
            stage: {name: value for name, value in changes.items() if (stage, name) not in tuned}
            if isinstance(changes, Mapping)
            else changes
            for stage, changes in overrides.items()
        }
    return read.change_query(**said)


def _judged_query(read: ReadPool) -> JudgedQuery:
    query = read.pool.query
    words = nfkc(query.text).casefold().split() if query.text else []
    return JudgedQuery(query.query_id, query.namespace or "", " ".join(words) or f"\n{query.query_id}")


def write_recipes(path: Path, recipes: Mapping[str, Recipe], comments: Iterable[str]) -> None:
    """Write the recipes under their names, below the comments, a line each. Raises OSError if the file exists."""
    with path.open("x", encoding="utf-8") as out:
        out.writelines(f"# {line}\n" for line in comments)
        out.write(recipes_yaml(recipes))


def recipes_yaml(recipes: Mapping[str, Recipe], **sections: Any) -> str:
    """Write recipes as a section of a configuration file, as a person would, and further sections behind it.

    A stage without parameters is its name, and a bound that is off is left out.
    """
    definitions = {}
    for name, recipe in recipes.items():
        stages = [{stage: dict(parameters)} if parameters else stage for stage, parameters in recipe.written.items()]
        bound = {MAX_DISTANCE: recipe.max_distance} if recipe.max_distance else {}
        definitions[name] = {"stages": stages, **bound}
    return yaml.safe_dump({"recipes": definitions, **sections}, sort_keys=False, allow_unicode=True)

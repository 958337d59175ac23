"""A recipe (a ranking pipeline): an ordered list of named stages with parameters, validated and hashed.

Rules:
- The first stage, and no other, is a fusion. No stage occurs twice.
- The distance stages that compute are next to each other.
- One model at most ranks: by `rerank`, or by `llm_rerank`, which is the last stage.
- `rerank` is before the stages that read dense vectors.
- A stage is written as its name, or as its name with its parameters: `dedupe`, or `score: {alpha: 0.3}`.

The shipped recipes are there in every installation. A deployment may add recipes, and redefine these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import JsonValue, ValidationError

from schemas.errors import MAX_WORDED, explain_problem, join_first, problem, unknown
from schemas.fields import hash_values
from schemas.recipes.fusion import FUSION
from schemas.recipes.stages import (
    LATER,
    Coverage,
    Dedupe,
    DistanceStage,
    FusionStage,
    LlmRerank,
    RecipeStage,
    Reflections,
    Rerank,
    SimilarityStage,
    Temporal,
    Versions,
)

STAGES: Final[Mapping[str, type[RecipeStage]]] = {stage.name: stage for stage in (*FUSION, *LATER)}
MAX_STAGES: Final = 32
MAX_DISTANCE: Final = "max_distance"
_KEYS: Final = ("stages", MAX_DISTANCE)
_STAMPS: Final = frozenset({"accessed_at", "confirmed_at", "created_at", "updated_at"})

Stage = TypeVar("Stage", bound=RecipeStage)
Parameters = Mapping[str, JsonValue]
Overrides = Mapping[str, JsonValue]
"""Stage name -> {parameter: value}, and `max_distance` -> its value."""


class Problem(NamedTuple):
    """An error in one part of a recipe."""

    path: str
    what: str
    value: object


class RecipeError(ValueError):
    """An invalid recipe. The message names the wrong stages, parameters, bounds and values, and how many `more` there
    are.
    """

    def __init__(self, *problems: Problem, more: int = 0) -> None:
        super().__init__(join_first((problem(*each) for each in problems), more))
        self.problems = problems
        self.more = more


@dataclass(frozen=True)
class Recipe:
    """A valid recipe. `written` has the parameters that were given for each stage, without the defaults.

    >>> recipe = Recipe.parse("mine", {"stages": [{"rrf": {"k": 20}}, "dedupe"]})
    >>> [stage.name for stage in recipe.stages], recipe.fusion.legs
    (['rrf', 'dedupe'], ('vector', 'keyword'))
    """

    name: str
    stages: tuple[RecipeStage, ...]
    max_distance: float = 0.0
    written: Mapping[str, Parameters] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, name: str, definition: object) -> "Recipe":
        """Read `{stages: [...], max_distance: 0}`. Raises RecipeError."""
        if not isinstance(definition, Mapping):
            raise RecipeError(Problem(name, "a mapping with `stages` is expected", definition))
        problems = [
            Problem(str(key), unknown(str(key), _KEYS), value) for key, value in definition.items() if key not in _KEYS
        ]
        listed = definition.get("stages")
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_STAGES:
            problems.append(Problem("stages", f"a list of 1 to {MAX_STAGES} stages is expected", listed))
            raise RecipeError(*problems)
        written: dict[str, Parameters] = {}
        for index, item in enumerate(listed):
            try:
                stage, parameters = _split_stage(f"stages.{index}", item)
            except RecipeError as error:
                problems += error.problems
                continue
            if stage in written:
                problems.append(Problem(f"stages.{index}", "a stage is named twice", stage))
            written[stage] = parameters
        return cls._of(name, written, definition.get(MAX_DISTANCE, 0.0), problems)

    @classmethod
    def _of(
        cls, name: str, written: Mapping[str, Parameters], max_distance: Any, found: Sequence[Problem] = ()
    ) -> "Recipe":
        """The recipe of these stages. Raises RecipeError with all problems, those that were `found` before first."""
        problems = [*found]
        more = 0
        stages = []
        for stage, parameters in written.items():
            try:
                stages.append(STAGES[stage].model_validate(dict(parameters)))
            except ValidationError as error:
                errors = error.errors(include_url=False)
                first = errors[: max(MAX_WORDED - len(problems), 0)]
                for each in first:
                    path = ".".join(map(str, (stage, *each["loc"])))
                    problems.append(Problem(path, explain_problem(each, STAGES[stage]), each["input"]))
                more += len(errors) - len(first)
        if isinstance(max_distance, bool) or not isinstance(max_distance, int | float) or not 0 <= max_distance <= 1e6:
            problems.append(Problem(MAX_DISTANCE, "a number from 0 to 1000000 is expected", max_distance))
        elif not problems:
            problems += _check_order(stages)
        if problems:
            raise RecipeError(*problems, more=more)
        return cls(name, tuple(stages), float(max_distance), written)

    def overridden(self, overrides: Overrides) -> "Recipe":
        """The recipe with some parameters changed. Raises RecipeError, also for a stage that it doesn't have."""
        written = dict(self.written)
        max_distance: object = self.max_distance
        for stage, changes in overrides.items():
            if stage == MAX_DISTANCE:
                max_distance = changes
            elif stage not in written:
                raise RecipeError(Problem(stage, f"recipe {self.name} has no such stage", changes))
            elif not isinstance(changes, Mapping):
                raise RecipeError(Problem(stage, "an object of parameters is expected", changes))
            else:
                written[stage] = {**written[stage], **changes}
        return self._of(self.name, written, max_distance)

    def select_own(self, overrides: Overrides) -> dict[str, Any]:
        """Select the overrides that this recipe can have: a query's may be for the stages of another one."""
        return {stage: changes for stage, changes in overrides.items() if stage in {*self.written, MAX_DISTANCE}}

    def fusing(self) -> "Recipe":
        """The recipe's fusion alone, without a greatest distance."""
        return self._of(self.name, {self.fusion.name: self.written[self.fusion.name]}, 0.0)

    def boosting(self, reflection_boost: float) -> "Recipe":
        """The recipe with that factor for reflections, by a stage of its own if it has none. Raises RecipeError."""
        changed = {"reflection_boost": reflection_boost}
        written = {**self.written, Reflections.name: {**self.written.get(Reflections.name, {}), **changed}}
        if LlmRerank.name in written:
            written[LlmRerank.name] = written.pop(LlmRerank.name)
        return self._of(self.name, written, self.max_distance)

    @property
    def definition(self) -> dict[str, Any]:
        """The definition from which `parse` makes this recipe."""
        stages = [{name: dict(parameters)} for name, parameters in self.written.items()]
        return {"stages": stages, MAX_DISTANCE: self.max_distance}

    @cached_property
    def fusion(self) -> FusionStage:
        first = self.stages[0]
        assert isinstance(first, FusionStage)
        return first

    @cached_property
    def running(self) -> tuple[RecipeStage, ...]:
        """The stages that run."""
        return tuple(stage for stage in self.stages if not isinstance(stage, DistanceStage) or stage.enabled)

    @cached_property
    def ahead(self) -> tuple[RecipeStage, ...]:
        """The stages that rank what the model reads: all behind the fusion where none needs more than the legs give."""
        return self.stages[1 : self._fetching]

    @cached_property
    def later(self) -> tuple[RecipeStage, ...]:
        """The other ones: from the first that needs a model's scores or dense vectors on.

        Exact words count ahead of a model, for what it reads, and behind it.
        """
        stages = list(self.stages[self._fetching :])
        if stages and isinstance(stages[0], Rerank):
            stages[1:1] = [stage for stage in self.ahead if isinstance(stage, Coverage)]
        return tuple(stages)

    @cached_property
    def behind(self) -> tuple[RecipeStage, ...]:
        """The stages that take the model's score on."""
        return tuple(stage for stage in self.later if not isinstance(stage, Rerank))

    @property
    def _fetching(self) -> int:
        places = (index for index, stage in enumerate(self.stages) if isinstance(stage, Rerank | SimilarityStage))
        return next(places, len(self.stages))

    @cached_property
    def compared(self) -> int:
        """The number of first candidates that are compared by their dense vectors."""
        return max((stage.candidates for stage in self.stages if isinstance(stage, SimilarityStage)), default=0)

    @cached_property
    def reranking(self) -> Rerank | None:
        """The stage `rerank`, if there is one."""
        return self.stage(Rerank)

    @cached_property
    def distance(self) -> tuple[DistanceStage, ...]:
        """The distance stages that run, without the chat model's."""
        return tuple(stage for stage in self.running if isinstance(stage, DistanceStage) and _computes(stage))

    @cached_property
    def measuring(self) -> RecipeStage:
        """The stage at whose place distances are measured: the first distance stage, or else the fusion."""
        return next((stage for stage in self.stages if _computes(stage)), self.fusion)

    @cached_property
    def picking(self) -> LlmRerank | None:
        """The stage `llm_rerank`, if it runs."""
        stage = self.stage(LlmRerank)
        return stage if stage is not None and stage.enabled else None

    @cached_property
    def reads(self) -> frozenset[str]:
        """The payload fields that the recipe's stages read."""
        return frozenset().union(*(stage.reads for stage in self.running))

    @cached_property
    def reads_searched(self) -> bool:
        """True if a stage reads the fields that words are searched in."""
        return any(stage.SEARCHED for stage in self.running)

    @cached_property
    def timed(self) -> bool:
        """True if the ranking depends on the query's clock, also where the query names no time."""
        timed = (stage.reads for stage in self.running if not isinstance(stage, Versions | Dedupe))
        return not _STAMPS.isdisjoint(frozenset().union(*timed))

    @property
    def asks_chat(self) -> bool:
        """True if the recipe needs the chat model."""
        temporal = self.stage(Temporal)
        return temporal is not None and temporal.extractor == "chat"

    def stage(self, kind: type[Stage]) -> Stage | None:
        """The recipe's stage of that kind."""
        for stage in self.stages:
            if isinstance(stage, kind):
                return stage
        return None

    @cached_property
    def parameters(self) -> Mapping[str, dict[str, Any]]:
        """The parameters of every stage as JSON, defaults included."""
        return {stage.name: stage.model_dump(mode="json", by_alias=True) for stage in self.stages}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the stages and all parameters: recipes of one hash rank candidates in the same way."""
        return hash_values({"stages": list(self.parameters.items()), MAX_DISTANCE: self.max_distance})


def _split_stage(path: str, item: object) -> tuple[str, Parameters]:
    if isinstance(item, str):
        name, parameters = item, None
    elif isinstance(item, Mapping) and len(item) == 1:
        name, parameters = next(iter(item.items()))
    else:
        raise RecipeError(Problem(path, "a stage is its name, or its name with its parameters", item))
    if name not in STAGES:
        raise RecipeError(Problem(path, unknown(str(name), [*STAGES], "stage"), name))
    if parameters is not None and not isinstance(parameters, Mapping):
        raise RecipeError(Problem(name, "a mapping of parameters is expected", parameters))
    return name, parameters or {}


def _check_order(stages: list[RecipeStage]) -> Iterator[Problem]:
    def wrong(index: int, what: str) -> Problem:
        return Problem(f"stages.{index}", what, stages[index].name)

    if not isinstance(stages[0], FusionStage):
        yield wrong(0, f"the first must be a fusion: one of {', '.join(each.name for each in FUSION)}")
    for index, stage in enumerate(stages[1:], 1):
        if isinstance(stage, FusionStage):
            yield wrong(index, "only the first may be a fusion")
    computing = [index for index, stage in enumerate(stages) if _computes(stage)]
    for before, index in pairwise(computing):
        if index - before > 1:
            yield wrong(index, f"the distance stages must stand together, and {stages[index - 1].name} is no such")
    kinds = [type(stage) for stage in stages]
    if LlmRerank in kinds[:-1]:
        yield wrong(kinds.index(LlmRerank), "must be the last")
    comparing = next((index for index, stage in enumerate(stages) if isinstance(stage, SimilarityStage)), len(stages))
    if Rerank in kinds[comparing:]:
        yield wrong(kinds.index(Rerank), f"must stand before {stages[comparing].name}")
    if Rerank in kinds and LlmRerank in kinds:
        yield wrong(kinds.index(LlmRerank), f"one model at most may rank, and {Rerank.name} does")


def _computes(stage: RecipeStage) -> bool:
    return isinstance(stage, DistanceStage) and not isinstance(stage, LlmRerank)


_ON = {"enabled": True}
_OF_CONTEXT = {"weight": 0.7, "context": 0.5, "words": 5}
_OF_WORDS = {"rerank": {"weight": 0.8, "words": 7}}
_UP_TO_1 = {"composite": {"importance_scale": 1}}
_SCORE = {"normaliser": "theoretical"}
_CREDITED = {"normaliser": "credited"}
_LIGHTER_RERANK = {"rerank": {"weight": 0.6, "words": 7}}
_HYBRID: Final = ("coverage", "dedupe", _LIGHTER_RERANK)
_COMPARED: Final = ("feedback", "smoothing")
_WITH_CONTEXT = {"vector": 0.1, "keyword": 0.3, "keyword_context": 0.4, "vector_context": 0.2}

_SHIPPED: Final[Mapping[str, list[object]]] = {
    "hybrid": [{"score": {"fuzzy": 1.5, **_SCORE}}, *_HYBRID, "versions", "wishes"],
    "composite": [{"score": _SCORE}, "coverage", _OF_WORDS, _UP_TO_1, "temporal", "dedupe", "versions"],
    "signals": ["weighted", "reflections"],
    "distance": ["linear", {"weibull_decay": _ON}, {"keyword_boost": _ON}, {"importance_boost": _ON}],
    "decay": [{"decay": _ON}, "coverage"],
    "rrf": ["rrf", "coverage", "dedupe", _OF_WORDS],
    "keyword": ["keyword", "dedupe"],
    "vector": ["vector", "dedupe"],
    "documents": [{"score": {"fuzzy": 1.5, **_CREDITED}}, *_HYBRID, *_COMPARED, "versions", "wishes"],
    "conversation": [
        {"score": {"weights": _WITH_CONTEXT, **_CREDITED}},
        {"coverage": {"weight": 0.25}},
        "dedupe",
        {"rerank": _OF_CONTEXT},
        "answers",
        "speakers",
        "temporal",
        "versions",
    ],
}

SHIPPED: Final[Mapping[str, Recipe]] = {name: Recipe.parse(name, {"stages": each}) for name, each in _SHIPPED.items()}
"""The shipped recipes, by name."""

DEFAULT: Final = "hybrid"

"""Parameters of recipes as the page offers them, read from the stages' schemas; and a changed recipe in the forms in
which others take it: a section of the configuration, a query event, a producer.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from flows.cli.evaluate.tune import recipes_yaml
from schemas.recipes import MAX_DISTANCE, Recipe
from schemas.recipes.fusion import WeighingStage
from schemas.recipes.recipe import STAGES
from schemas.result import FUZZY, KEYWORD, STRUCTURED, VECTOR, WEIGHED_LEGS
from schemas.settings import Settings
from schemas.settings.ranking import BALANCED, Profile

Schema = Mapping[str, Any]
Control = dict[str, Any]

_REACH: Final = 4.0
"""Multiple of a value to which a slider without a natural end reaches."""

_HEAD: Final = (
    "# Sections of the configuration file. A recipe takes the place of the shipped one of its name;\n"
    "# of a profile, keys that are not named stay as they are.\n"
)

_LEGS: Final = (VECTOR, KEYWORD, STRUCTURED, *(leg for leg in WEIGHED_LEGS if leg != FUZZY))


def controls(recipe: Recipe) -> list[dict[str, Any]]:
    """Each stage of the recipe with its description, and a control for each of its parameters."""
    found = []
    for stage in recipe.stages:
        schema = STAGES[stage.name].model_json_schema(by_alias=True)
        values, written = recipe.parameters[stage.name], recipe.written[stage.name]
        parameters = [
            _control(name, each, values[name], schema.get("$defs", {}), name in written)
            for name, each in schema["properties"].items()
        ]
        if isinstance(stage, WeighingStage):
            for control in parameters:
                if control["kind"] == "mapping":
                    control["keys"] = [{"name": leg, "value": _weight(recipe, leg)} for leg in _LEGS]
        found.append({"stage": stage.name, "about": schema.get("description", ""), "parameters": parameters})
    bound = {"name": MAX_DISTANCE, "kind": "number", "low": 0, "high": 2, "step": 0.01, "value": recipe.max_distance}
    about = "Greatest distance, 1 - score, of a result; 0: no bound."
    whole = {"about": "Of the recipe as a whole.", "parameters": [{**bound, "about": about, "nullable": False}]}
    return [*found, {"stage": "", **whole}]


def _weight(recipe: Recipe, leg: str) -> float:
    stage = recipe.fusion
    given = getattr(stage, "weights", None) or {}
    alpha = getattr(stage, "alpha", None)
    if leg in given:
        return float(given[leg])
    if alpha is not None and leg in {VECTOR, KEYWORD}:
        return float(alpha if leg == VECTOR else 1 - alpha)
    return 1.0 if leg in {VECTOR, KEYWORD} else 0.0


def _control(name: str, schema: Schema, value: Any, known: Schema, own: bool) -> Control:
    branches = [_resolve(each, known) for each in schema.get("anyOf", [schema])]
    nullable = any(branch.get("type") == "null" for branch in branches)
    main = next((branch for branch in branches if branch.get("type") != "null"), {})
    about = str(schema.get("description") or main.get("description") or "")
    control = {"name": name, "about": about, "value": value, "nullable": nullable, "own": own}
    control["default"] = schema.get("default")
    if "enum" in main:
        return {**control, "kind": "choice", "choices": main["enum"]}
    kind = main.get("type")
    if kind == "boolean":
        return {**control, "kind": "boolean"}
    if kind in {"number", "integer"}:
        return {**control, "kind": kind, **_range(main, value)}
    if kind == "object":
        return {**control, "kind": "mapping", "keys": [], **_range(main.get("additionalProperties") or {}, 1.0)}
    return {**control, "kind": "list" if kind == "array" else "text"}


def _resolve(schema: Schema, known: Schema) -> Schema:
    reference = schema.get("$ref")
    return known.get(str(reference).rsplit("/", 1)[-1], {}) if reference else schema


def _range(schema: Schema, value: Any) -> dict[str, Any]:
    """The bounds of the field, and those of the slider, which are near the value where the field has wide ones."""
    low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
    high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
    known = float(value) if isinstance(value, int | float) else 0.0
    reach = (
        high
        if (high - low <= 1000 and schema.get("type") == "integer") or high - low <= 1
        else max(2.0, abs(known) * _REACH)
    )
    whole = schema.get("type") == "integer"
    slider_low, slider_high = max(low, 0 if known >= 0 else -reach), min(high, reach)
    step = 1 if whole else 0.01 if slider_high - slider_low <= 5 else 0.1 if slider_high - slider_low <= 50 else 1
    least, greatest = (None if math.isinf(each) else each for each in (low, high))
    return {"low": slider_low, "high": slider_high, "step": step, "least": least, "greatest": greatest}


def shorten_overrides(recipe: Recipe, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides without what the recipe says already."""
    short: dict[str, Any] = {}
    for stage, changes in overrides.items():
        if stage == MAX_DISTANCE:
            if changes != recipe.max_distance:
                short[stage] = changes
            continue
        own = recipe.parameters.get(stage, {})
        if left := {name: value for name, value in changes.items() if name not in own or own[name] != value}:
            short[stage] = left
    return short


def write_forms(recipe: Recipe, event: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """The changed recipe as YAML, and the query by it as an event and as a producer in Python.

    The YAML has the query's profile, too, where it must change so that queries that name no recipe are ranked alike.
    """
    name = event.get("profile") or BALANCED
    profile = settings.profiles.get(name)
    changes = _change_profile(profile, recipe.name, event) if profile is not None else {}
    profiles = {"profiles": {name: changes}} if changes else {}
    kafka = settings.kafka
    asked = orjson.dumps(event, option=orjson.OPT_INDENT_2).decode()
    return {
        "yaml": _HEAD + recipes_yaml({recipe.name: recipe}, **profiles),
        "event": asked,
        "producer": "\n".join(_producer(event, kafka.bootstrap_servers, kafka.topics.queries)),
    }


def _change_profile(profile: Profile, recipe: str, event: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {"recipe": recipe, "min_relevance": event.get("min_relevance", profile.min_relevance)}
    if event.get("rerank") is False:
        wanted["rerank_top"] = 0
    return {name: value for name, value in wanted.items() if getattr(profile, name) != value}


def _producer(event: Mapping[str, Any], brokers: str, topic: str) -> Iterator[str]:
    yield "import json"
    yield "import uuid"
    yield ""
    yield "from confluent_kafka import Producer"
    yield ""
    # Python's own literals: null and true are other words in JSON.
    yield f"event = {dict(event)!r}"
    yield 'event["query_id"] = str(uuid.uuid4())'
    yield f"producer = Producer({{'bootstrap.servers': {brokers!r}}})"
    yield f"producer.produce({topic!r}, key=event['query_id'], value=json.dumps(event))"
    yield "producer.flush()"
    yield ""

"""Columns of the page: one way to rank each, its parameters, the forms in which others take it, its results' cards."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import orjson
from pydantic import Field, JsonValue

from flows.cli.console.waterfall import share_score
from flows.cli.evaluate.evaluation import judged_hit
from flows.cli.evaluate.tune import recipes_yaml
from operators.evaluation.comparison import jaccard, rank_biased_overlap
from operators.query.ruling import STAGE as RULES
from schemas.fields import Strict
from schemas.recipes import MAX_DISTANCE, Recipe
from schemas.recipes.fusion import WeighingStage
from schemas.recipes.recipe import STAGES
from schemas.result import FUZZY, KEYWORD, STRUCTURED, VECTOR, WEIGHED_LEGS
from schemas.settings import Settings
from schemas.settings.ranking import BALANCED, Profile

COLUMNS: Final = 3
DEPTH: Final = 10
"""Results over which two lists are compared."""

_OWN: Final = frozenset({"title", "namespace", "destination"})
_LATE: Final = frozenset({"created_at", "updated_at", "accessed_at", "lang"})
"""Fields that stand behind the others."""

_MOVES: Final = {"pin": "pinned by", "bury": "buried by"}

_PARTS: Final = {"passages": 2, "text": 300}
_LONGEST: Final = 600
"""Characters of a text or a field that a card shows at most."""

_CHIP: Final = 60
"""Characters of a value that is worth a filter, at most."""


class Column(Strict):
    """One way to rank: a recipe, or the profile's, with overrides, by one of the configurations; `rules` are tried."""

    config: str = ""
    recipe: str = ""
    profile: str = ""
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    rules: dict[str, JsonValue] = Field(default_factory=dict)
    rerank: bool = True
    min_relevance: float | None = None


class ConsoleSearch(Strict):
    """A search of the page: fields of a query event, which the search flow judges, and the columns."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=COLUMNS)]
    text: Any = None
    namespace: Any = None
    limit: Any = None
    filters: Any = None
    like: Any = None

    def events(self) -> list[dict[str, Any]]:
        """The query events, one for each column, without their ids."""
        same = {name: each for name, each in self.model_dump(exclude={"columns"}).items() if each is not None}
        asked = {"explain": True, "debug": True, "record": True, "return": dict(_PARTS)}
        return [{**same, **asked, **event_fields(column)} for column in self.columns]


def event_fields(column: Column) -> dict[str, Any]:
    """The fields of a query event that a column says."""
    return column.model_dump(exclude={"config"}, exclude_defaults=True)


def to_cards(
    result: Mapping[str, Any],
    grades: Mapping[str, int],
    known: Mapping[str, Mapping[str, Any]],
    own: Callable[[str], str] = str,
) -> list[Any]:
    """Each result as a card; `known` are documents by id, for parts that a pool lacks. `own` gives names of fields."""
    return [_card(hit, grades, known.get(hit["id"], {}), own) for hit in result["results"]]


def _card(
    hit: Mapping[str, Any], grades: Mapping[str, int], document: Mapping[str, Any], own: Callable[[str], str]
) -> dict[str, Any]:
    payload = {**document.get("payload", {}), **hit["payload"]}
    fields = [
        name for name in sorted(payload, key=_LATE.__contains__) if name not in _OWN and payload[name] is not None
    ]
    passages = hit.get("passages") or document.get("passages") or []
    explanation = hit.get("explanation")
    steps = explanation["stages"] if explanation else ()
    words = {word: found for step in steps for word, found in (step["values"].get("words") or {}).items()}
    group, judged = hit.get("group"), judged_hit(hit)
    return {
        "id": hit["id"],
        "judged": judged,
        "rank": hit["rank"],
        "score": hit["score"],
        "relevance": hit.get("relevance"),
        "title": value_text(payload.get("title")),
        "passages": [{**each, "text": abbreviate(each["text"])} for each in passages],
        "text": abbreviate(hit.get("text") or document.get("text") or ""),
        "fields": {own(name): value_text(payload[name]) for name in fields},
        # Filters that a click gives.
        "values": {own(name): payload[name] for name in fields if _is_short(payload[name])},
        "legs": {name: leg["rank"] + 1 for name, leg in hit["legs"].items()},
        "parts": share_score(explanation) if explanation else [],
        "words": {word: list(found.get("fields") or ()) for word, found in words.items()},
        "rules": [*_rules(steps)],
        "grade": grades.get(judged),
        "group": {"key": value_text(group["key"]), "count": group["count"]} if group else None,
    }


def _rules(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The effects of rules on a result, each with the rule."""
    for values in (step["values"] for step in steps if step["stage"] == RULES):
        yield from (f"{words} {values[name]['rule']}" for name, words in _MOVES.items() if name in values)
        yield from (f"boosted by {rule}" for rule in values.get("boost", ()))


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and 0 < len(str(value)) <= _CHIP


def value_text(value: Any) -> str | None:
    """A value of a payload as people read it; None for null, which is left out of lists and objects."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return abbreviate(", ".join(filter(None, map(value_text, value))))
    if isinstance(value, Mapping):
        return abbreviate("; ".join(f"{name}: {text}" for name, each in value.items() if (text := value_text(each))))
    return abbreviate(str(value))


def abbreviate(text: str, most: int = _LONGEST) -> str:
    """The text with at most that many characters; an ellipsis stands for the rest."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def to_column(result: Mapping[str, Any], cards: list[Any]) -> dict[str, Any]:
    """A result without its documents, for the head of a column, with its cards."""
    names = ("status", "profile", "degraded", "warnings", "total", "total_relation", "legs", "retrieval_stage", "rules")
    return {
        **{name: result.get(name) for name in (*names, "error", "denied", "understood")},
        "recipe": result.get("provenance", {}).get("recipe"),
        "reranked": result.get("reranked_candidates"),
        "unscored": result.get("unscored_candidates"),
        "took": (result.get("debug") or {}).get("total_latency_ms"),
        "cache": (result.get("debug") or {}).get("cache_type"),
        "cards": cards,
    }


def compare_columns(lists: Sequence[Sequence[str]], ranked: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Each further column compared with the first: overlap, what moved, and what one of both has alone.

    `lists` are the names on each page by which results are judged; `ranked` has the rank of every candidate of each
    column, those behind the page included.
    """
    first = lists[0]
    return [
        {
            "rbo": rank_biased_overlap(first, other),
            "jaccard": jaccard(first[:DEPTH], other[:DEPTH]),
            "depth": DEPTH,
            "moved": {id_: first.index(id_) - position for position, id_ in enumerate(other) if id_ in first},
            "only_first": {id_: ranks.get(id_) for id_ in first if id_ not in other},
            "only_other": {id_: ranked[0].get(id_) for id_ in other if id_ not in first},
        }
        for other, ranks in zip(lists[1:], ranked[1:], strict=True)
    ]


Schema = Mapping[str, Any]
RecipeControl = dict[str, Any]

_REACH: Final = 4.0
"""Multiple of a value to which a slider without a natural end reaches."""

_HEAD: Final = """\
# Sections of the configuration file. A recipe takes the place of the shipped one of its name;
# of a profile, keys that are not named stay as they are.
"""

# Python's own literals: null and true are other words in JSON.
_PRODUCER: Final = """\
import json
import uuid

from confluent_kafka import Producer

event = {event!r}
event["query_id"] = str(uuid.uuid4())
producer = Producer({{'bootstrap.servers': {brokers!r}}})
producer.produce({topic!r}, key=event['query_id'], value=json.dumps(event))
producer.flush()
"""

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
        for control in parameters if isinstance(stage, WeighingStage) else ():
            if control["kind"] == "mapping":
                control["keys"] = [{"name": leg, "value": value} for leg, value in _leg_weights(recipe).items()]
        found.append({"stage": stage.name, "about": schema.get("description", ""), "parameters": parameters})
    bound = {"name": MAX_DISTANCE, "kind": "number", "low": 0, "high": 2, "step": 0.01, "value": recipe.max_distance}
    bound |= {"about": "Greatest distance, 1 - score, of a result; 0: no bound.", "nullable": False}
    return [*found, {"stage": "", "about": "Of the recipe as a whole.", "parameters": [bound]}]


def _leg_weights(recipe: Recipe) -> dict[str, float]:
    alpha, given = getattr(recipe.fusion, "alpha", None), getattr(recipe.fusion, "weights", None) or {}
    usual = {VECTOR: 1.0, KEYWORD: 1.0} if alpha is None else {VECTOR: alpha, KEYWORD: 1 - alpha}
    weights = {**usual, **given}
    return {leg: float(weights.get(leg, 0.0)) for leg in _LEGS}


def _control(name: str, schema: Schema, value: Any, known: Schema, own: bool) -> RecipeControl:
    given = schema.get("anyOf", [schema])
    branches = [known[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in given]
    nullable = any(branch.get("type") == "null" for branch in branches)
    main: Schema = next((branch for branch in branches if branch.get("type") != "null"), {})
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


def _range(schema: Schema, value: Any) -> dict[str, Any]:
    """The bounds of the field, and those of the slider, which are near the value where the field has wide ones."""
    low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
    high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
    known = float(value) if isinstance(value, int | float) else 0.0
    whole = schema.get("type") == "integer"
    reach = high if high - low <= (1000 if whole else 1) else max(2.0, abs(known) * _REACH)
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
    usual = settings.defaults.recipe
    changes = _change_profile(profile, recipe.name, usual, event) if profile is not None else {}
    profiles = {"profiles": {name: changes}} if changes else {}
    brokers, topic = settings.kafka.bootstrap_servers, settings.kafka.topics.queries
    return {
        "yaml": _HEAD + recipes_yaml({recipe.name: recipe}, **profiles),
        "event": orjson.dumps(event, option=orjson.OPT_INDENT_2).decode(),
        "producer": _PRODUCER.format(event=dict(event), brokers=brokers, topic=topic),
    }


def _change_profile(profile: Profile, recipe: str, usual: str, event: Mapping[str, Any]) -> dict[str, Any]:
    named = recipe if recipe != (profile.recipe or usual) else profile.recipe
    wanted = {"recipe": named, "min_relevance": event.get("min_relevance", profile.min_relevance)}
    if event.get("rerank") is False:
        wanted["rerank_top"] = 0
    return {name: value for name, value in wanted.items() if getattr(profile, name) != value}

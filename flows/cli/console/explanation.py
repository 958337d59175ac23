"""Score explanations as a page draws them: a bar of parts, and a waterfall from the legs to the final score. Pure.

A score is shared out among its parts by these rules, whatever the recipe, so that they sum to the score:

- the fusion's score belongs to the legs, in the proportion of their contributions;
- a model that takes a share of the score takes it of all parts before it alike;
- a stage that adds to the score is a part of its own; one that takes from it makes all parts before it smaller alike.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Row = dict[str, Any]
Explanation = Mapping[str, Any]

MODELS: Final = frozenset({"rerank"})
"""Stages whose output is a mean of a model's score and of the score before."""

_TINY: Final = 1e-12

_WORDS: Final = "words"
"""The value of a stage that has the words of the query with the fields that have them."""


def share_score(explanation: Explanation) -> list[tuple[str, float]]:
    """The parts of a score by name, in the order in which they came, those of nothing left out; they sum to it."""
    parts: dict[str, float] = {}
    for step in explanation["stages"]:
        before, after = sum(parts.values()), step["output"]
        if step["input"] is None:
            parts = _fusion_parts(explanation["legs"], step)
        elif step["stage"] in MODELS and "relevance" in step["values"]:
            model = step["values"]["weight"] * step["values"]["relevance"]
            parts = _scale(parts, after - model)
            parts[step["stage"]] = parts.get(step["stage"], 0.0) + model
        elif after > before and before >= 0:
            parts[step["stage"]] = parts.get(step["stage"], 0.0) + after - before
        else:
            parts = _scale(parts, after)
    return [(name, value) for name, value in parts.items() if abs(value) > _TINY]


def _fusion_parts(legs: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, float]:
    given = {name: leg.get("contribution", 0.0) for name, leg in legs.items() if leg.get("contribution")}
    extra = step["output"] - sum(given.values())
    if given and abs(extra) > _TINY and set(step["values"]) & {"signals", "age_days"}:
        # Signals that are no legs, such as the age.
        return {**given, step["stage"]: extra} if extra > 0 else _scale(given, step["output"])
    return _scale(given, step["output"]) if given else {step["stage"]: step["output"]}


def _scale(parts: Mapping[str, float], total: float) -> dict[str, float]:
    before = sum(parts.values())
    if abs(before) < _TINY:
        return {name: total / len(parts) for name in parts}
    return {name: value * total / before for name, value in parts.items()}


def waterfall(explanation: Explanation) -> list[Row]:
    """The rows from the legs to the final score: where each begins and ends, and what it used.

    A row is of a `leg`, a `fusion` or a `stage`; `words` are the query's words with the fields that have them.
    """
    rows: list[Row] = []
    at = 0.0
    for name, leg in explanation["legs"].items():
        came = leg.get("contribution")
        facts = [("rank in the leg", leg["rank"] + 1), ("score of the leg", leg["score"])]
        facts += [(key, leg[key]) for key in _OF_LEG if key in leg]
        end = at + came if came is not None else at
        rows.append({"kind": "leg", "name": name, "start": at, "end": end, "facts": facts, "words": []})
        at = end
    rows.extend(_stage_row(step) for step in explanation["stages"])
    return rows


def _stage_row(step: Mapping[str, Any]) -> Row:
    parameters = (("parameter " + name, value) for name, value in _facts(step["parameters"]))
    words = (step["values"].get(_WORDS) or {}).items()
    return {
        "kind": "fusion" if step["input"] is None else "stage",
        "name": step["stage"],
        "start": 0.0 if step["input"] is None else step["input"],
        "end": step["output"],
        "facts": [*_facts(step["values"]), *parameters],
        "words": [
            {
                "word": word,
                "share": found["information"] * found["support"],
                "fields": list(found.get("fields") or ()),
            }
            for word, found in words
        ],
    }


_OF_LEG: Final = ("normalised", "weight", "contribution")


def _facts(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The values with their names, those within others by a path; nothing for what isn't set."""
    for name, value in values.items():
        if path == "" and name == _WORDS:
            continue
        label = f"{path}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _facts(value, f"{path}{name}, ")
        elif isinstance(value, list):
            yield label, ", ".join(map(str, value))
        elif value is not None:
            yield label, value

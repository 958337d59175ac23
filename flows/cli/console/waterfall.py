"""A score and a query's time as a page draws them: a bar of parts, and waterfalls of score and time.

A score is shared out among its parts by these rules, whatever the recipe, so that they sum to the score:

- the fusion's score belongs to the legs, in the proportion of their contributions;
- a model that takes a share of the score takes it of all parts before it alike;
- a stage that adds to the score is a part of its own; one that takes from it makes all parts before it smaller alike.

The time is that of the query's spans, where this process has them, and else of the stages of its debug.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_trace_id

from schemas.fields import leaves
from schemas.result import LEGS, WEIGHED_LEGS

WaterfallRow = dict[str, Any]
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


def waterfall(explanation: Explanation) -> list[WaterfallRow]:
    """The rows of legs, fusion and stages: where each begins and ends, its facts, and the words that it found."""
    rows: list[WaterfallRow] = []
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


def _stage_row(step: Mapping[str, Any]) -> WaterfallRow:
    parameters = (("parameter " + name, value) for name, value in _facts(step["parameters"]))
    words = (step["values"].get(_WORDS) or {}).items()
    return {
        "kind": "fusion" if step["input"] is None else "stage",
        "name": step["stage"],
        "start": 0.0 if step["input"] is None else step["input"],
        "end": step["output"],
        "facts": [*_facts(step["values"]), *parameters],
        "words": [
            {"word": word, "share": each["information"] * each["support"], "fields": list(each.get("fields") or ())}
            for word, each in words
        ],
    }


_OF_LEG: Final = ("normalised", "weight", "contribution")


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values with their names, those within others by a path; nothing for what isn't set."""
    for path, value in leaves({name: each for name, each in values.items() if name != _WORDS}):
        if value not in (None, {}):
            said = ", ".join(map(str, value)) if isinstance(value, list) else value
            yield ", ".join(path).replace("_", " "), said


SpansOf = Callable[[str], Sequence[ReadableSpan]]
"""Gives the ended spans of a trace, and those that it links to; none where they went elsewhere."""

_LEGS: Final = {*LEGS, *WEIGHED_LEGS}

_ABOUT: Final = {
    "policy": "who may ask",
    "exact_cache": "an answer to the same query",
    "semantic_cache": "an answer to a similar query",
    "embed": "the text's vector",
    "hybrid_merge": "fusion of the legs",
    "fetch": "texts and fields",
    "rerank": "the model",
    "rank": "the recipe's later stages",
}


def timeline(result: Mapping[str, Any], spans: Sequence[ReadableSpan] = ()) -> dict[str, Any]:
    """The rows of a query, each with its beginning and duration in milliseconds, and what answered it."""
    debug = result.get("debug") or {}
    rows = _of_spans(spans) if spans else _of_debug(debug)
    total = max([debug.get("total_latency_ms", 0.0), *(row["start"] + row["ms"] for row in rows)])
    return {
        "rows": rows,
        "total": total,
        "measured": bool(spans),
        "cache": debug.get("cache_type") if debug.get("cache_hit") else None,
        "stage": result.get("retrieval_stage"),
        "asked": result["provenance"].get("asked") if "provenance" in result else None,
    }


def _of_debug(debug: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stages one behind the other, the legs side by side: debug has durations, and no beginnings."""
    rows: list[WaterfallRow] = []
    at = leg_end = 0.0
    counts, times = debug.get("candidates_per_stage", {}), debug.get("per_stage_latency_ms", {})
    for name in debug.get("stages_hit", ()):
        took = {"ms": times.get(name, 0.0), "count": counts.get(name), "about": _ABOUT.get(name, "")}
        if name in _LEGS:
            rows.append({"name": name, "kind": "leg", "start": at, **took})
            leg_end = max(leg_end, at + took["ms"])
        else:
            at = max(at, leg_end)
            rows.append({"name": name, "kind": "stage", "start": at, **took})
            at += took["ms"]
    return rows


def _of_spans(spans: Sequence[ReadableSpan]) -> list[dict[str, Any]]:
    times = sorted(((span.start_time or 0, span.end_time or 0, span) for span in spans), key=lambda each: each[0])
    first = times[0][0]
    return [
        {"name": span.name, "kind": span.kind.name.lower(), "start": (start - first) / 1e6, "ms": (end - start) / 1e6}
        | {"count": None, "about": ""}
        for start, end, span in times
    ]


def trace_spans(spans: Sequence[ReadableSpan], trace_id: str) -> list[ReadableSpan]:
    """The spans of a trace, and the batches that they link to."""
    own = [span for span in spans if span.context is not None and format_trace_id(span.context.trace_id) == trace_id]
    linked = {link.context.span_id for span in own for link in span.links}
    batches = (span for span in spans if span.context is not None and span.context.span_id in linked)
    return own + [span for span in batches if span not in own]

"""The time of a query as a waterfall: its spans, where this process has them, and else the stages of its debug."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_trace_id

from schemas.result import LEGS, WEIGHED_LEGS

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
    rows: list[dict[str, Any]] = []
    at = leg_end = 0.0
    counts, times = debug.get("candidates_per_stage", {}), debug.get("per_stage_latency_ms", {})
    for name in debug.get("stages_hit", ()):
        taken = times.get(name, 0.0)
        if name not in _LEGS:
            at = max(at, leg_end)
        kind = "leg" if name in _LEGS else "stage"
        about = _ABOUT.get(name, "")
        rows.append({"name": name, "kind": kind, "start": at, "ms": taken, "count": counts.get(name), "about": about})
        if name in _LEGS:
            leg_end = max(leg_end, at + taken)
        else:
            at += taken
    return rows


def _of_spans(spans: Sequence[ReadableSpan]) -> list[dict[str, Any]]:
    first = min(span.start_time or 0 for span in spans)
    return [
        {
            "name": span.name,
            "kind": span.kind.name.lower(),
            "start": ((span.start_time or 0) - first) / 1e6,
            "ms": ((span.end_time or 0) - (span.start_time or 0)) / 1e6,
            "count": None,
            "about": "",
        }
        for span in sorted(spans, key=lambda span: span.start_time or 0)
    ]


def trace_spans(spans: Sequence[ReadableSpan], trace_id: str) -> list[ReadableSpan]:
    """The spans of a trace, and the batches that they link to."""
    own = [span for span in spans if span.context is not None and format_trace_id(span.context.trace_id) == trace_id]
    linked = {link.context.span_id for span in own for link in span.links}
    return own + [
        span for span in spans if span.context is not None and span.context.span_id in linked and span not in own
    ]

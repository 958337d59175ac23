"""Variants: the search flow on librdkafka, one thing about it changed."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.subject import CONCURRENCY, Launch, Subject, Surroundings, launch

_CLIENT: Final = "librdkafka"
_SELDOM: Final = 0.03
_FEW_CALLS: Final = 16
_NO_ANSWERS: Final = {"exact_mib": 0, "semantic_mib": 0}


def _traced(share: float) -> Callable[[Surroundings], Launch]:
    def start(around: Surroundings) -> Launch:
        sampler = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(share)}
        return launch(
            _CLIENT, around, variables={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{around.otlp}/v1/traces", **sampler}
        )

    return start


def _configured(over: Callable[[Surroundings], Mapping[str, Any]]) -> Callable[[Surroundings], Launch]:
    return lambda around: launch(_CLIENT, around, over(around))


def _caching(around: Surroundings) -> dict[str, Any]:
    """All caches as they are by default."""
    return {
        "cache": {},
        "rerank": {"kind": "cohere", "url": around.rerank, "max_concurrency": CONCURRENCY},
    }


def _reranking(around: Surroundings) -> dict[str, Any]:
    """A reranker that is the bottleneck: few calls at a time, and the other queries wait for it."""
    return {"rerank": {"kind": "cohere", "url": around.rerank, "max_concurrency": _FEW_CALLS, "cache": 0}}


def _compressed(codec: str, around: Surroundings) -> dict[str, Any]:
    kafka = around.kafka.model_dump(mode="json", exclude_unset=True)
    return {"kafka": {**kafka, "client": _CLIENT, "compression": codec}}


def _experimenting(share: float) -> Callable[[Surroundings], Launch]:
    def start(around: Surroundings) -> Launch:
        kafka = around.kafka.model_dump(mode="json", exclude_unset=True)
        topic = kafka["topics"]["experiments"] = f"experiments-{around.kafka.group_id}"
        around.create_topic(topic)
        shadow = {"recipe": "rrf", "share": share}
        return launch(_CLIENT, around, {"kafka": {**kafka, "client": _CLIENT}, "experiments": {"shadow": shadow}})

    return start


VARIANTS: Final = {
    subject.name: subject
    for subject in (
        Subject("traces-1-percent", _traced(0.01)),
        Subject("traces-all", _traced(1.0)),
        Subject("no-metrics", lambda around: launch(_CLIENT, around, program="bench.unmetered")),
        Subject("caches", _configured(_caching)),
        Subject(
            "transactions-30-ms",
            _configured(lambda around: {"delivery": {"replica": around.replica, "transaction_interval": _SELDOM}}),
        ),
        Subject("rerank-16-calls", _configured(_reranking)),
        *(Subject(codec, _configured(functools.partial(_compressed, codec))) for codec in ("lz4", "zstd", "gzip")),
        Subject("shadow-of-few", _experimenting(1e-6)),
        Subject("shadow-of-all", _experimenting(1.0)),
        Subject("no-payload-cache", _configured(lambda _: {"cache": {**_NO_ANSWERS, "payload_mib": 0}})),
    )
}
"""By their names in the report. Traces go to a receiver of the rig."""

"""The whole system: CPU a query of all processes that answer it, models included, beside a hand-written service.

The search flow has its models and Qdrant's engine in its process, by the settings of `rankstream demo`.
`bench/peers/model_service.py` has the same models and asks the same index, in a process of its own, too. Both read from
one real broker, whose CPU counts; that of the load does not. The reranker is late interaction, or a cross-encoder of
MiniLM's shape. Its weights are random, for none are installed: it costs what a trained one costs, and ranks badly.

Quality stands beside cost: nDCG@10 of judged queries, and the share of the service's results that the others have.
Queries are the judged ones and, behind them, the same with a number each, so that no two are alike and a cache has
nothing to find. Another load has texts by Zipf's law, which one subject answers with its caches as they are by default.
"""

import functools
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console

from bench import caching, random_bert
from bench.comparison import BURST
from bench.figures import PAGE, Measurement, Phase, spread, summary
from bench.judged import FIGURE, JudgedSet, agreement
from bench.load import COMPUTED, PASSED_BY
from bench.peers.model_service import NO_MODEL, ModelPlace
from bench.rig import Rig, rig
from bench.rounds import Plan, Progress
from bench.subject import Launch, Subject, Surroundings, launch, launch_peer, place_of
from flows.cli.ingestion import file_version, index_once, numbered_jsonl
from flows.process.embedded import embedded_settings, start_with_settings
from operators.clients.local.minilm import ensure_graph, model_file
from operators.clients.local.quantisation import Bits, bits_of, chosen
from schemas.fields import merge_objects

Model = Literal["late_interaction", "onnx"]

BY_HAND: Final = "by-hand"
FLOAT32: Final = "by-hand-float32"
FLOW: Final = "rankstream"
ALONE: Final = "rankstream-unbatched"
ONE_THREAD: Final = "rankstream-1-thread"
PLAIN: Final = "rankstream-plain"
CACHED: Final = "rankstream-caches"
SUBJECTS: Final = (BY_HAND, FLOAT32, FLOW, PLAIN, ALONE, ONE_THREAD, CACHED)

ZIPF: Final = "zipf"
GOAL: Final = 0.6
"""Of the service's CPU a query, what the flow's may be in a burst with late interaction."""

_CLIENT: Final = "librdkafka"
_SLOW: Final = 600.0
"""Seconds for a call: a query that is given up costs less than its answer."""

_KNOWN: Final = 1.0
"""Seconds to wait for a watermark: on a busy machine more queries would pass the caches by."""

_UNUSED: Final = 1_000_000
"""The number of the first text of a warm-up: no other load gets so far."""

_SHARD: Final = Path("collections", "documents", "shard")
_NOT_CACHED: Final = {
    "cache": {"exact_mib": 0, "semantic_mib": 0},
    "embedder": {"cache_mib": 0},
}
_AS_BY_HAND: Final = {
    "recipes": {"plain": {"stages": [{"rrf": {"k": 60}}, "rerank"]}},
    "profiles": {"balanced": {"recipe": "plain"}},
}
"""The ranking of the service, in place of the recipe of queries that name none."""


@dataclass(frozen=True, slots=True)
class Load:
    """A plan, and the queries of a round whose texts come by Zipf's law, 0 for none."""

    plan: Plan
    zipf: int


@dataclass(frozen=True, slots=True)
class Setup:
    """The directory of the index, the namespaces in it, and the directory of the cross-encoder, None for late
    interaction.
    """

    index: Path
    namespaces: frozenset[str]
    cross_encoder: Path | None


@dataclass(slots=True)
class Found:
    """The measurements of one subject by load, a round each, and what the judged queries found."""

    loads: dict[str, list[Measurement]]
    judged: Measurement


def measure(
    judged: JudgedSet, model: Model, candidates: Sequence[int], names: Sequence[str], load: Load, progress: Progress
) -> dict[str, Any]:
    """Index the documents, then ask every subject; the figures. Raises BenchError, BrokerError and RankstreamError."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankstream-bench-system-")))
        progress("indexing")
        setup = _prepare(directory, judged, model)
        started = stack.enter_context(rig())
        cells: list[dict[str, Any]] = []
        for count in candidates:
            found = _ask(started, subjects(setup, count, names), judged, count, load, progress)
            cells.append({"candidates": count, "rows": list(rows(found)), "quality": qualities(judged, found)})
    return {
        "reranker": model,
        "rounds": load.plan.rounds,
        "cells": cells,
        "goals": goals(cells) if model == "late_interaction" else [],
        "lost": sum(row["sent"] - row["answered"] for cell in cells for row in cell["rows"]),
    }


def _prepare(directory: Path, judged: JudgedSet, model: Model) -> Setup:
    """Write the index and, where one is wanted, the cross-encoder: random weights behind MiniLM's own tokenizer."""
    index, quiet = directory / "index", Console(quiet=True)
    with start_with_settings(embedded_settings(index)) as running:
        read = functools.partial(numbered_jsonl, judged.documents)
        index_once(running, judged.documents.name, read, file_version(judged.documents), index, quiet)
    if model == "late_interaction":
        return Setup(index, judged.namespaces, None)
    exported = directory / "cross-encoder"
    random_bert.write(exported, layers=6, hidden=384, heads=12, vocabulary=30_522)
    shutil.copyfile(model_file("tokenizer.json"), exported / "tokenizer.json")
    return Setup(index, judged.namespaces, exported)


def subjects(setup: Setup, candidates: int, names: Sequence[str]) -> list[Subject]:
    """The subjects of these names."""
    # One query a call: a cross-encoder's calls are counted in documents, the others in queries.
    alone = candidates if setup.cross_encoder is not None else 1
    unbatched = {"embedder": {"max_batch": 1}, "qdrant": {"max_batch": 1}, "rerank": {"max_batch": alone}}
    # Late interaction keeps no scores, and it alone weighs words.
    kept, weighed = ({}, {"idf": False}) if setup.cross_encoder is None else ({"cache": 0}, {})
    plain = merge_objects(_NOT_CACHED, {"rerank": kept})
    precisions = {BY_HAND: chosen("auto"), FLOAT32: chosen("float32")}
    changes: dict[str, Mapping[str, Any]] = {
        FLOW: plain,
        PLAIN: merge_objects(merge_objects(plain, _AS_BY_HAND), {"rerank": weighed}),
        ALONE: merge_objects(plain, unbatched),
        ONE_THREAD: {**plain, "threads": 1},
    }
    launches: dict[str, Callable[[Surroundings], Launch]] = {
        **{name: functools.partial(_peer, setup, candidates, bits_of(each)) for name, each in precisions.items()},
        **{name: functools.partial(_flow, setup, candidates, each) for name, each in changes.items()},
        CACHED: functools.partial(_caching, setup, candidates),
    }
    return [Subject(name, launches[name]) for name in names]


def _peer(setup: Setup, candidates: int, bits: Bits, around: Surroundings) -> Launch:
    place = ModelPlace(
        **asdict(place_of(around)),
        shard=str(setup.index / _SHARD),
        graph=str(ensure_graph(embedded_settings(setup.index).cache_dir.expanduser(), bits)),
        tokenizer=str(model_file("tokenizer.json")),
        cross_encoder=str(setup.cross_encoder or NO_MODEL),
        candidates=candidates,
    )
    return launch_peer("model_service", place)


def _flow(setup: Setup, candidates: int, change: Mapping[str, Any], around: Surroundings) -> Launch:
    reranker: dict[str, Any] = {"timeout": _SLOW}
    if setup.cross_encoder is not None:
        reranker |= {"kind": "onnx", "path": str(setup.cross_encoder), "precision": "float32"}
    over = {
        "delivery": {"replica": around.replica},
        "qdrant": {"timeout": _SLOW},
        "embedder": {"timeout": _SLOW},
        "rerank": reranker,
        "limits": {"max_timeout": _SLOW},
        "profiles": {"balanced": {"over_sample": candidates, "rerank_top": candidates}},
    }
    demo = embedded_settings(setup.index).model_dump(mode="json", exclude_unset=True)
    return launch(_CLIENT, around, merge_objects(merge_objects(demo, over), change))


def _caching(setup: Setup, candidates: int, around: Surroundings) -> Launch:
    """Start the flow with its caches, on an index of which it knows how far it is."""
    caching.publish_watermarks(around.kafka, setup.namespaces)
    return _flow(setup, candidates, {"cache": {"watermark_timeout": _KNOWN}}, around)


def _ask(
    started: Rig, asked: Sequence[Subject], judged: JudgedSet, candidates: int, load: Load, progress: Progress
) -> dict[str, Found]:
    """Ask the subjects in interleaved rounds, and the judged queries at the end of the first one."""
    plan, limit = load.plan, min(PAGE, candidates)
    parts = caching.Rounds(load.zipf * plan.rounds, None, plan.rounds).parts()
    loads: dict[str, dict[str, list[Measurement]]] = {each.name: defaultdict(list) for each in asked}
    ranked: dict[str, Measurement] = {}
    for number in range(plan.rounds):
        for subject in asked:
            progress(f"{candidates} candidates, {subject.name}, round {number + 1} of {plan.rounds}")
            with started.running(subject, asked=judged.queries) as running:
                running.measure(Phase(plan.warm_up, texts=[*range(_UNUSED, _UNUSED + plan.warm_up)], limit=limit))
                for name, phase in phases(subject.name, plan, parts[number] if load.zipf else [], limit):
                    loads[subject.name][name].append(running.measure(phase))
                if not number:
                    ranked[subject.name] = running.measure(Phase(len(judged.asked), limit=limit, ranked=True))
    return {name: Found(loads[name], ranked[name]) for name in loads}


def phases(name: str, plan: Plan, texts: Sequence[int], limit: int) -> Iterator[tuple[str, Phase]]:
    """The loads of a subject by name: `texts` are those by Zipf's law."""
    if name != CACHED:
        for rate in plan.rates:
            phase = plan.phase(rate)
            yield f"{rate:g}/s", Phase(phase.count, phase.rate, limit=limit)
        if plan.burst:
            yield BURST, Phase(plan.burst, limit=limit)
    if texts and name in (BY_HAND, FLOW, CACHED):
        yield ZIPF, Phase(len(texts), texts=texts, limit=limit)


def rows(found: Mapping[str, Found]) -> Iterator[dict[str, Any]]:
    """The figures of each subject and load, and the ratios of CPU to the hand-written service, where it was measured.

    `system` is the CPU of the subject and the broker together.
    """
    base = found[BY_HAND].loads if BY_HAND in found else {}
    for name, each in found.items():
        for load, rounds in each.loads.items():
            served = sum((Counter(measured.served) for measured in rounds), Counter[str]())
            others = sum(count for how, count in served.items() if how not in (COMPUTED, PASSED_BY))
            row = {
                "subject": name,
                "load": load,
                **summary(rounds),
                "system_ms_per_query": spread([1000 * _system(measured) for measured in rounds]),
                "not_computed": round(others / served.total(), 4) if served else None,
            }
            if theirs := base.get(load):
                pairs = list(zip(rounds, theirs, strict=True))
                row["ratio"] = spread([_system(ours) / _system(their) for ours, their in pairs])
                row["subject_ratio"] = spread([_subject(ours) / _subject(their) for ours, their in pairs])
            yield row


def qualities(judged: JudgedSet, found: Mapping[str, Found]) -> dict[str, dict[str, float]]:
    """The nDCG@10 of each subject, and its agreement with the first one."""
    first = next(iter(found.values())).judged.ranked
    return {
        name: {
            FIGURE: round(judged.quality(each.judged.ranked), 4),
            "agreement": round(agreement(each.judged.ranked, first), 4),
        }
        for name, each in found.items()
    }


def goals(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The goal for each number of candidates at which both were measured, and whether the median keeps it."""
    return [
        {
            "candidates": cell["candidates"],
            "bound": GOAL,
            "measured": row["ratio"],
            "met": row["ratio"]["median"] <= GOAL,
        }
        for cell in cells
        for row in cell["rows"]
        if (row["subject"], row["load"]) == (FLOW, BURST) and "ratio" in row
    ]


def _system(measured: Measurement) -> float:
    """CPU seconds a query of all processes that answer it."""
    return (measured.cpu["subject"] + measured.cpu["broker"]) / measured.answered


def _subject(measured: Measurement) -> float:
    return measured.cpu["subject"] / measured.answered

"""The worth of the exact cache: queries whose texts come by Zipf's law, answered with it and without it.

Three subjects answer the same sequence in the same run, a part of it each a round, in turn: `off`, which is told of no
watermark, so that it computes every query, even one identical to another under way; a cache of a few hundred answers;
and one of the default size. Semantic caches are off, nothing expires, and a query waits for the watermarks as long as
it may be told to: on a busy machine it would pass the cache by, which is counted apart.

Without a rate the queries of a round come at once, which saturates all three. At a rate that one of them can't keep up
with and another can, they would be compared in different states.

How an answer came about is read from the answer. The hit rate is of queries that weren't computed, from the cache or
shared with one under way: the ideal that it is held against answers at once, so that nothing is ever under way. That
ideal is an LRU of as many bytes, in which an answer takes those of its result and nothing else.
"""

import contextlib
import functools
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from confluent_kafka import Producer

from bench.figures import BenchError, Measurement, Phase, spread, summary
from bench.load import COMPUTED, PASSED_BY, SHARED
from bench.rig import Rig, Running
from bench.subject import Launch, Subject, Surroundings, launch
from schemas.result import RetrievalStage
from schemas.settings import CacheSettings, KafkaSettings

TEXTS: Final = 10_000
SMALL_MIB: Final = 4
DEFAULT_MIB: Final = CacheSettings().exact_mib
POINTS: Final = 2.0
"""Percentage points that the hit rate may be away from the ideal."""
RATIO: Final = 0.6
"""Of the CPU without a cache, what a query may cost with one of the default size."""

_OFF: Final = "off"
_WARM_UP: Final = Phase(500)
_LONGEST: Final = {"ttl": 86_400, "watermark_timeout": 1.0}
_REQUEST: Final = 10.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The load: queries, rounds and the rate a second; None: all queries of a round at once."""

    queries: int
    rate: float | None
    rounds: int

    def parts(self) -> list[list[int]]:
        """The texts to ask for, a round's at a time."""
        texts = zipf(TEXTS, self.queries)
        edges = [self.queries * number // self.rounds for number in range(self.rounds + 1)]
        return [texts[begin:end] for begin, end in pairwise(edges) if begin < end]


def zipf(texts: int, count: int, seed: int = 1) -> list[int]:
    """The numbers of `count` texts, the k-th of `texts` with a probability proportional to 1/k: Zipf's law, s = 1."""
    weights = list(accumulate(1 / rank for rank in range(1, texts + 1)))
    return random.Random(seed).choices(range(texts), cum_weights=weights, k=count)


def lru_hits(texts: Sequence[int], entries: int) -> int:
    """The number of texts that an LRU of so many entries holds already, if it starts empty."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for text in texts:
        if text in held:
            hits += 1
            held.move_to_end(text)
            continue
        held[text] = None
        if len(held) > entries:
            held.popitem(last=False)
    return hits


def measure(rig: Rig, client: str, plan: Rounds, progress: Progress) -> dict[str, Any]:
    """The figures, and whether they keep what is promised. Raises BenchError."""
    sizes = {_OFF: None, f"{SMALL_MIB} MiB": SMALL_MIB, f"{DEFAULT_MIB} MiB": DEFAULT_MIB}
    found: dict[str, list[Measurement]] = {name: [] for name in sizes}
    parts = plan.parts()
    with contextlib.ExitStack() as stack:
        running: dict[str, Running] = {}
        for name, mib in sizes.items():
            started = Subject(f"cache-{mib or _OFF}", functools.partial(_launch, client, mib))
            running[name] = stack.enter_context(rig.running(started))
            progress(f"{name}: warm-up of {_WARM_UP.count}")
            # What this leaves in a cache was used before everything else there, and leaves it first.
            running[name].measure(_WARM_UP)
        for number, part in enumerate(parts):
            names = [*sizes]
            for name in names[number % len(names) :] + names[: number % len(names)]:
                progress(f"{name}, round {number + 1} of {len(parts)}: {len(part)} queries")
                found[name].append(running[name].measure(Phase(len(part), plan.rate, part)))
    without = found.pop(_OFF)
    if not _served(without).keys() <= {COMPUTED, PASSED_BY}:
        raise BenchError(f"without a cache: {dict(_served(without))}")
    asked = [text for part in parts for text in part]
    rows = [_row(mib, found[name], without, asked) for name, mib in sizes.items() if mib is not None]
    return {
        "client": client,
        "texts": TEXTS,
        "queries": plan.queries,
        "distinct": len(set(asked)),
        "rate": plan.rate,
        "rounds": len(parts),
        _OFF: summary(without),
        "caches": rows,
        "promised": {"points": POINTS, "cpu_over_off": RATIO, "cpu_at_mib": DEFAULT_MIB},
    }


def kept(figures: dict[str, Any]) -> bool:
    """True if every query was answered once, and hit rates and CPU are as promised."""
    rows = figures["caches"]
    whole = all(each["sent"] == each["answered"] and not each["twice"] for each in (figures[_OFF], *rows))
    close = all(abs(row["points"]) <= POINTS for row in rows)
    return whole and close and bool(rows[-1]["cpu_over_off"]["median"] <= RATIO)


def _row(
    mib: int, rounds: Sequence[Measurement], without: Sequence[Measurement], asked: Sequence[int]
) -> dict[str, Any]:
    served, answered = _served(rounds), sum(each.answered for each in rounds)
    result_bytes = sum(each.result_bytes for each in rounds) / answered
    entries = int(mib * 2**20 / result_bytes)
    hits, shared = (served[how] / answered for how in (RetrievalStage.EXACT_CACHE, SHARED))
    ideal = lru_hits(asked, entries) / len(asked)
    both = list(zip(rounds, without, strict=True))
    return {
        "mib": mib,
        "entries": entries,
        "result_bytes": round(result_bytes),
        **summary(rounds),
        "served": dict(served),
        "hits": round(hits, 4),
        "shared": round(shared, 4),
        "ideal": round(ideal, 4),
        "points": round(100 * (hits + shared - ideal), 2),
        "cpu_over_off": spread([_cpu([ours]) / _cpu([theirs]) for ours, theirs in both]),
        "cpu_over_off_in_all": round(_cpu(rounds) / _cpu(without), 3),
    }


def _served(rounds: Sequence[Measurement]) -> Counter[str]:
    return sum((Counter(each.served) for each in rounds), Counter())


def _cpu(rounds: Sequence[Measurement]) -> float:
    return sum(each.cpu["subject"] for each in rounds) / sum(each.answered for each in rounds)


def _launch(client: str, mib: int | None, around: Surroundings) -> Launch:
    if mib is not None:
        publish_watermarks(around.kafka, ["default"])
    over = {
        "embedder": {"kind": "openai", "url": around.embed},
        "profiles": {"balanced": {"caches": ["exact"]}},
        "cache": {**_LONGEST, **({"exact_mib": mib} if mib is not None else {})},
    }
    return launch(client, around, over)


def publish_watermarks(kafka: KafkaSettings, namespaces: Iterable[str]) -> None:
    """Tell of a watermark of each namespace, without which no answer is cached. Raises BenchError."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for namespace in namespaces:
        producer.produce(kafka.topics.watermarks, b"1", f"documents|{namespace}|0".encode())
    if producer.flush(_REQUEST):
        raise BenchError("the watermark wasn't published")

"""The flows on a real Qdrant server, of so many documents and shards, beside hand-written services on the same server.

Each indexer writes all documents to a collection of its own: a warm-up first, then a part a round, in turn. The
services ask the collection that was written by hand, for its terms are the server's own, and its points have no more
than they need. The reranker is the stub's, but where late interaction takes its place, and so is the embedder then.
What is measured is the CPU of the flows and of the services. The server's own time is no matter of theirs: no call is
given up because it is slow.
"""

import functools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx

from bench.comparison import beside, rows
from bench.corpus import documents
from bench.figures import BenchError, spread
from bench.indexing import Written
from bench.qdrant_server import started
from bench.rig import Rig, rig
from bench.rounds import Plan, Progress, compare
from bench.stubs import DIMENSION
from bench.subject import ASYNCIO, Launch, Subject, Surroundings, launch, peer

FLOW: Final = "librdkafka"
LATE: Final = "late-interaction"
TRANSACTIONS: Final = "transactions"
BY_HAND: Final = "by-hand"
"""The indexer that is written by hand; the flows' indexers have the flows' names."""

SUBJECTS: Final = (ASYNCIO, TRANSACTIONS, FLOW, LATE)
PAIRS: Final = ((FLOW, ASYNCIO), (FLOW, TRANSACTIONS), (LATE, FLOW))
WRITTEN_PAIRS: Final = ((FLOW, BY_HAND), (LATE, FLOW))
"""A subject, and the one that it is compared with."""

_COLLECTIONS: Final = {BY_HAND: "by_hand", FLOW: "documents", LATE: "documents_with_tokens"}
_SERVICES: Final = {ASYNCIO: "asyncio_service", TRANSACTIONS: "transactional_service"}
_SLOW: Final = 60.0
"""Seconds for a call: an answer that is late costs as much as one in time, and a failure would cost less."""

_WARM_UP: Final = 20
"""A part in so many of the documents is written before the rounds."""

_REQUEST: Final = 60.0
_OPTIMISED: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Scale:
    """An index: its documents, and the shards of its collections."""

    documents: int
    shards: int

    def parts(self, rounds: int) -> list[tuple[int, int]]:
        """The first document of each part and their number: of the warm-up, and of each round."""
        warm_up = self.documents // _WARM_UP
        starts = [0, *(warm_up + (self.documents - warm_up) * number // rounds for number in range(rounds + 1))]
        return [(start, end - start) for start, end in pairwise(starts)]


def measure(binary: str, scale: Scale, names: Sequence[str], plan: Plan, progress: Progress) -> dict[str, Any]:
    """Index, then ask, on a server of its own; the figures. Raises BenchError and BrokerError."""
    told = f"{scale.documents} documents, {scale.shards} shards"
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankstream-bench-server-")))
        url = stack.enter_context(started(binary, path))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=_REQUEST))
        running = stack.enter_context(rig(qdrant=url))
        indexers = [each for each in indexing(scale) if each.name in written(names)]
        if any(each.name == BY_HAND for each in indexers):
            _create(client, scale)
        progress(f"{told}: indexing")
        writes = _index(running, indexers, scale, plan.rounds, lambda what: progress(f"{told}, {what}"))
        for each in indexers:
            _check(client, _COLLECTIONS[each.name], scale.documents)
        asked = [each for each in searching(scale) if each.name in names]
        outcomes = compare(running, asked, plan, lambda what: progress(f"{told}, {what}"))
        subjects = {name: outcome.report() for name, outcome in outcomes.items()}
        return {
            "documents": scale.documents,
            "shards": scale.shards,
            "server": client.get("/").json()["version"],
            "indexing": _costs(writes),
            "indexing_ratios": _cost_ratios(writes),
            "subjects": subjects,
            "ratios": _ratios(subjects),
            "lost": sum(outcome.lost() for outcome in outcomes.values()),
        }


def written(names: Sequence[str]) -> list[str]:
    """The indexers whose collections these subjects ask."""
    return list(dict.fromkeys(BY_HAND if name in _SERVICES else name for name in names))


def indexing(scale: Scale) -> list[Subject]:
    """The indexers: by hand, the flow, and the flow with late interaction."""
    return [
        Subject(BY_HAND, _index_by_hand),
        *(Subject(name, functools.partial(_flow, name, scale.shards, "index")) for name in (FLOW, LATE)),
    ]


def searching(scale: Scale) -> list[Subject]:
    """The services and the flows that are asked."""
    services = (
        Subject(name, functools.partial(peer, module, collection=_COLLECTIONS[BY_HAND]))
        for name, module in _SERVICES.items()
    )
    flows = (
        Subject(name, functools.partial(_flow, name, scale.shards, "run"), embeds=name == LATE) for name in (FLOW, LATE)
    )
    return [*services, *flows]


def _index_by_hand(around: Surroundings) -> Launch:
    return peer("indexing_service", replace(around, kafka=around.kafka.indexing), _COLLECTIONS[BY_HAND])


def _flow(name: str, shards: int, command: str, around: Surroundings) -> Launch:
    index = {"url": around.qdrant, "timeout": _SLOW, "destinations": {"default": _COLLECTIONS[name]}}
    over: dict[str, Any] = {"qdrant": {**index, "create": {"shards": shards}}}
    if name == LATE:
        over["embedder"] = {"kind": "minilm"}
        over["rerank"] = {"kind": "late_interaction", "timeout": _SLOW}
    else:
        over["qdrant"]["vectors"] = {"tokens": None}
        over["embedder"] = {"kind": "openai", "url": around.embed, "model": "stub"}
    return launch(FLOW, around, over, command=command)


def _create(client: httpx.Client, scale: Scale) -> None:
    """Create the collection of the services, as a script of theirs would."""
    wanted = {
        "vectors": {"dense": {"size": DIMENSION, "distance": "Cosine"}},
        "sparse_vectors": {"bm25": {"modifier": "idf"}},
        "shard_number": scale.shards,
    }
    client.put(f"/collections/{_COLLECTIONS[BY_HAND]}", json=wanted).raise_for_status()


def _index(
    running: Rig, indexers: Sequence[Subject], scale: Scale, rounds: int, progress: Progress
) -> dict[str, list[Written]]:
    with ExitStack() as stack:
        opened = {each.name: stack.enter_context(running.indexing(each)) for each in indexers}
        writes: dict[str, list[Written]] = {name: [] for name in opened}
        for number, (first, count) in enumerate(scale.parts(rounds)):
            for name, each in opened.items():
                progress(f"{name}: {f'round {number} of {rounds}' if number else 'warm-up'}, documents {count}")
                outcome = each.measure(documents(first, count))
                if number:
                    writes[name].append(outcome)
    return writes


def _check(client: httpx.Client, collection: str, count: int) -> None:
    """Wait until the server has made its index. Raises BenchError if documents are missing, or it does not come."""
    until = time.monotonic() + _OPTIMISED
    while (info := client.get(f"/collections/{collection}").json()["result"])["status"] == "yellow":
        if time.monotonic() > until:
            raise BenchError(f"{collection}: the server has not made its index in {_OPTIMISED:.0f} s")
        time.sleep(1)
    answer = client.post(f"/collections/{collection}/points/count", json={"exact": True}).raise_for_status()
    if (found := answer.json()["result"]["count"]) != count:
        raise BenchError(f"{collection}: {found} of {count} documents ({info['status']})")


def _costs(writes: Mapping[str, Sequence[Written]]) -> dict[str, Any]:
    return {
        name: {
            "cpu_ms_per_document": spread([1000 * each.cpu / each.documents for each in rounds]),
            "documents_per_s": spread([each.documents / each.seconds for each in rounds]),
        }
        for name, rounds in writes.items()
    }


def _cost_ratios(writes: Mapping[str, Sequence[Written]]) -> list[dict[str, Any]]:
    return [
        {"of": ours, "to": theirs, "cpu": spread([our.cpu / their.cpu for our, their in zip(*both, strict=True)])}
        for ours, theirs in _pairs(WRITTEN_PAIRS, writes)
        for both in [(writes[ours], writes[theirs])]
    ]


def _ratios(subjects: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"of": ours, "to": theirs, "load": load, **beside(row, rows(subjects[theirs])[load])}
        for ours, theirs in _pairs(PAIRS, subjects)
        for load, row in rows(subjects[ours]).items()
    ]


def _pairs(pairs: Sequence[tuple[str, str]], measured: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((ours, theirs) for ours, theirs in pairs if ours in measured and theirs in measured)

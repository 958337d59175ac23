"""Applying documents: what is refused is refused alone, and what can't be reached is waited for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.http.dialect import by_status
from operators.clients.qdrant.requests import Limits
from operators.clients.qdrant_edge.shards import Engine
from operators.indexing.apply import DocumentEmbedder, DocumentStage, Writer, until_answered
from operators.indexing.apply import write_all as bisect
from operators.query.backend_answers import Embedding
from schemas.errors import (
    BackendBadResponse,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    DeadLetterClass,
    InputError,
    Reason,
)
from tests.operators.indexing.documents import decoder, document, read
from tests.operators.indexing.neighbours import Index
from tests.operators.indexing.neighbours import settings as configured
from tests.operators.samples import DIMENSION, message, origin
from tests.qdrant_server.transport import ServerTransport

VECTOR = [1.0] * DIMENSION
NOBODY: Any = None
STAGES: list[DocumentStage[Any]] = [
    DocumentEmbedder(NOBODY, 1.0),
    Writer(NOBODY, NOBODY, NOBODY, NOBODY, 1.0),
]


def test_documents_that_the_model_cannot_read_are_counted_and_said() -> None:
    """Each is counted, and has a line with its place, which becomes one of many in the log."""
    counted: list[None] = []
    stage = DocumentEmbedder(NOBODY, 1.0, lambda: counted.append(None))
    with capture_logs() as lines:
        for unknown in (0.0, 0.2, 0.3, 1.0):
            stage.on_answer(document(), Embedding(np.ones(DIMENSION, np.float32), unknown=unknown))
    assert len(counted) == 2
    said = {"event": "embedder does not know the script of a document, whose vector says little", "count": 1}
    assert len(lines) == 2
    assert all(line.items() >= {**said, **origin().log_fields}.items() for line in lines)


@settings(max_examples=50)
@given(st.integers(1, 20).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)))))
def test_what_is_wrong_is_refused_alone(drawn: tuple[int, set[int]]) -> None:
    """Of any batch exactly the bad ones are refused, and every good one is written once."""
    count, bad = drawn
    write_all: list[int] = []

    async def write(batch: Sequence[int]) -> None:
        if bad & set(batch):
            raise by_status("embedder", 400)
        write_all.extend(batch)

    errors = asyncio.run(bisect(range(count), write))
    assert [place for place, error in enumerate(errors) if error is not None] == sorted(bad)
    assert sorted(write_all) == sorted(set(range(count)) - bad)


@pytest.mark.parametrize(
    "error",
    [BackendTimeout("x"), BackendUnavailable("x"), BackendBadResponse("garbage"), by_status("qdrant", 404)],
)
def test_what_is_no_fault_of_the_documents_is_waited_out(error: BackendError) -> None:
    """A backend that is away, a missing collection and garbage are tried again."""
    failures = [error]

    async def call() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert asyncio.run(until_answered(call)) == "done"


def test_waiting_is_said_with_its_reason() -> None:
    """Each failure is a warning that names the time of the next try, so that the log prints a kind once a minute."""
    failures: list[BackendError] = [
        by_status("qdrant", 404, "no such collection"),
        by_status("qdrant", 403, "forbidden"),
    ]

    async def call() -> str:
        if failures:
            raise failures.pop()
        return "done"

    with capture_logs() as lines:
        assert asyncio.run(until_answered(call)) == "done"
    assert [(line["event"], line["reason"], line["retry_in_s"]) for line in lines] == [
        ("backend call failed", "qdrant: status 403: forbidden", 0.1),
        ("backend call failed", "qdrant: status 404: no such collection", 0.2),
    ]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_makes_no_dead_letter(status: int) -> None:
    """A refused key and a missing collection are waited for: no document is refused for them."""
    failures = [BackendBadResponse("no", status, Reason.UNAUTHORIZED)]
    write_all: list[int] = []

    async def write(batch: Sequence[int]) -> None:
        if failures:
            raise failures.pop()
        write_all.extend(batch)

    assert asyncio.run(bisect(range(8), write)) == [None] * 8
    assert write_all == [*range(8)]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    """A request that was refused would be refused again."""
    calls = []

    async def call() -> None:
        calls.append(1)
        raise by_status("qdrant", status)

    with pytest.raises(BackendBadResponse):
        asyncio.run(until_answered(call))
    assert len(calls) == 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_refused_document_is_a_dead_letter(stage: DocumentStage[Any]) -> None:
    """The refusal is an InputError of class `invalid`; without one the document goes on."""
    made = document()
    with pytest.raises(InputError, match="refused: qdrant: status 400: bad point") as caught:
        stage.on_result(made, by_status("qdrant", 400, "bad point"))
    assert caught.value.kind is DeadLetterClass.INVALID
    assert stage.on_result(made, None) is made


def test_an_older_event_changes_nothing_newer(tmp_path: Path) -> None:
    """Neither an upsert nor a deletion, whether it comes in the same batch or in a later one."""

    def event(id_: str, at: float, **fields: Any) -> dict[str, Any]:
        return {"id": id_, "updated_at": at, "text": f"at {at}", "vector": VECTOR, **fields}

    first = [event("a", 2.0), event("b", 2.0), event("b", 1.0), event("c", 2.0), event("d", 2.0)]
    first.append({"id": "d", "updated_at": 1.0, "op": "delete"})
    second = [event("a", 1.0), {"id": "c", "updated_at": 1.0, "op": "delete"}]
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        index.apply([[first, second]], 0)
        found = {point["payload"]["id"]: point["payload"]["text"] for point in index.points()}
    assert found == dict.fromkeys("abcd", "at 2.0")


def test_what_the_index_refuses_has_an_error_of_its_own(tmp_path: Path) -> None:
    """The writer's outcome of a document with a vector that does not fit is Qdrant's refusal; the other is written."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        unfit = read(decoder(dimension=2), message({"id": "unfit", "text": "x", "vector": [1.0, 0.0]}))
        fine, refused = asyncio.run(index.write([document(vector=VECTOR), unfit]))
        assert fine is None
        assert isinstance(refused, BackendBadResponse)
        assert [point["payload"]["id"] for point in index.points()] == ["d"]


class Rated(httpx.AsyncBaseTransport):
    """Takes `rate` points, and refuses the next ones once, as if a minute went by; a request for more at any time."""

    def __init__(self, engine: Engine, rate: int) -> None:
        self.inner = ServerTransport(engine)
        self.rate = self.left = rate

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on, or refuse it."""
        if request.method == "PUT" and request.url.path.endswith("/points"):
            self.left -= len(orjson.loads(request.content)["points"])
            if self.left < 0:
                self.left = self.rate
                said = {"status": {"error": "Rate limiting exceeded: Write rate limit exceeded"}}
                return httpx.Response(429, content=orjson.dumps(said))
        return await self.inner.handle_async_request(request)


@pytest.mark.parametrize("rate", [1, 2, 5, 100])
def test_a_bounded_rate_of_writes_stops_no_batch(tmp_path: Path, rate: int) -> None:
    """A batch that is larger than the rate is written in parts, each of which waits for its time by itself."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        client = index.client(Rated(engine, rate))
        client.limits[index.settings.destinations["default"]] = Limits.of({"write_rate_limit": rate})
        made = [document(id=str(number), vector=VECTOR) for number in range(6)]
        writing = index.stages(client)[0].call("documents", made, 30.0)
        assert asyncio.run(asyncio.wait_for(writing, 60)) == [None] * len(made)
        assert len(index.points()) == len(made)


@pytest.mark.parametrize("stage", STAGES)
def test_a_defect_of_ours_is_no_fault_of_the_document(stage: DocumentStage[Any]) -> None:
    """A failure by our own defect is a dead letter of class `internal`."""
    with pytest.raises(InputError) as caught:
        stage.on_result(document(), BackendBadResponse("a defect of ours"))
    assert caught.value.kind is DeadLetterClass.INTERNAL

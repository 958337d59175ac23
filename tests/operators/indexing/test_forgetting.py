"""Deletions of many: nothing older comes back, later versions stay, and tombstones are no documents."""

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.caching.watermark_table import WatermarkTable
from operators.clients.qdrant.requests import Limits
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.catalogue import Catalogue
from operators.delivery.output_record import OutputRecord
from operators.indexing import deletion as deletions
from operators.indexing.document import DocumentFinaliser, EventInFlight
from operators.runtime.stage import KEY, last_stage
from schemas.document import FORGOTTEN, NAMESPACE
from schemas.errors import InputError
from tests.operators.indexing.documents import deletion, in_flight
from tests.operators.indexing.neighbours import TIMEOUT, Crash, Index, Interleaved, contexts, expected
from tests.operators.indexing.neighbours import settings as configured
from tests.operators.samples import DIMENSION, STRICT, capable
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized

VECTOR = [1.0] * DIMENSION
NOBODY: Any = None
_NUMBERS = itertools.count()

Event = dict[str, Any]


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"n{next(_NUMBERS)}"


def upsert(namespace: str, id_: str, at: float, **fields: Any) -> Event:
    """An upsert of this version."""
    return {"namespace": namespace, "id": id_, "updated_at": at, "text": f"at {at}", "vector": VECTOR, **fields}


def patch(namespace: str, id_: str, at: float, **fields: Any) -> Event:
    """A patch of this version."""
    return {"namespace": namespace, "id": id_, "op": "patch", "updated_at": at, **fields}


def forget(namespace: str, at: float, *filters: Mapping[str, Any]) -> Event:
    """A deletion of many up to this version."""
    return {"op": "delete_where", "namespace": namespace, "updated_at": at, "filters": list(filters)}


def owned_by(owner: str) -> Mapping[str, Any]:
    """The filter of an owner's documents."""
    return {"field": "owner", "op": "eq", "value": owner}


def write(index: Index, *batches: Sequence[Event]) -> None:
    """Apply batches one after the other; a patch may find no document."""
    for batch in batches:
        asyncio.run(index.write(in_flight(batch)))


def documents(index: Index, namespace: str) -> dict[str, dict[str, Any]]:
    """The fields of the documents that a query of the namespace could find, by id."""
    found = [point["payload"] for point in index.points()]
    return {each["id"]: each for each in found if each.get(NAMESPACE) == namespace}


def test_a_namespace_is_forgotten_whole_or_by_filter(index: Index, namespace: str) -> None:
    """Documents up to the version go, with the counts in one line; later ones and those of others stay."""
    kept = f"{namespace}x"
    first = [upsert(namespace, "a", 1, owner="x"), upsert(namespace, "b", 1, owner="y"), upsert(kept, "a", 1)]
    write(index, [*first, upsert(namespace, "c", 9, owner="x"), upsert(namespace, "d", 5, owner="x")])
    with capture_logs() as lines:
        write(index, [forget(namespace, 5, owned_by("x"))])
    assert documents(index, namespace).keys() == {"b", "c"}
    (line,) = [line for line in lines if line["event"] == "namespace forgotten"]
    assert (line["namespace"], line["deleted"], line["later_versions"]) == (namespace, 2, 1)
    write(index, [forget(namespace, 5)])
    assert documents(index, namespace).keys() == {"c"}
    assert documents(index, kept).keys() == {"a"}


@pytest.mark.parametrize("filters", [[], [{"none_of": [{"any_of": [owned_by("y"), owned_by("z")]}]}]])
def test_what_is_late_does_not_come_back(index: Index, namespace: str, filters: list[Any]) -> None:
    """An older upsert behind the deletion is not there, nor a patch of it; another that no filter names is."""
    write(index, [forget(namespace, 5, *filters)])
    write(index, [upsert(namespace, "a", 5, owner="x"), upsert(namespace, "b", 6, owner="x")])
    write(index, [upsert(namespace, "c", 4, owner="y")], [patch(namespace, "a", 5, price=1)])
    assert documents(index, namespace).keys() == ({"b", "c"} if filters else {"b"})
    write(index, [patch(namespace, "c", 4.5, owner="x")], [patch(namespace, "b", 6.5, price=1)])
    assert documents(index, namespace).keys() == {"b"}


def test_what_goes_by_its_id_at_its_version_comes_back(index: Index, namespace: str) -> None:
    """Unlike what matched a filter: an upsert of the same version is there again, and a later one never goes."""
    gone = {"namespace": namespace, "id": "a", "op": "delete", "updated_at": 1}
    write(index, [upsert(namespace, "a", 1)], [gone])
    assert not documents(index, namespace)
    write(index, [upsert(namespace, "a", 1)])
    assert documents(index, namespace).keys() == {"a"}
    write(index, [upsert(namespace, "a", 2)], [gone])
    assert documents(index, namespace).keys() == {"a"}


def test_a_late_patch_of_what_is_forgotten_is_no_dead_letter(index: Index, namespace: str) -> None:
    """A patch as old as the deletion of the whole namespace has nothing left to change."""
    write(index, [upsert(namespace, "a", 1)], [forget(namespace, 5)])
    assert asyncio.run(index.write(in_flight([patch(namespace, "a", 3, price=1)]))) == [None]
    (missing,) = asyncio.run(index.write(in_flight([patch(namespace, "a", 7, price=1)])))
    assert isinstance(missing, InputError)


@pytest.mark.parametrize("each", [{"op": "eq", "value": "public"}, {"op": "none_of", "value": ["public"]}])
def test_no_filter_is_on_the_namespace(each: Event) -> None:
    """The event has its own: a late document would pass by the filter, as it has no namespace until it is checked."""
    with pytest.raises(InputError, match="leave the filter out") as caught:
        deletion(filters=[{"any_of": [owned_by("x"), {"field": "namespace", **each}]}])
    assert caught.value.field == "filters.0.any_of.1.field"


class Watching(ServerTransport):
    """Notes after each request whether a query of the namespace could find one of the forgotten ids."""

    def __init__(self, index: Index, namespace: str) -> None:
        super().__init__(index.engine)
        self.namespace = namespace
        self.seen: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on, and look."""
        answer = await super().handle_async_request(request)
        where = {"must": [{"key": NAMESPACE, "match": {"value": self.namespace}}]}
        asked = httpx.Request(
            "POST", "http://qdrant/collections/documents/points/scroll", json={"filter": where, "limit": 100}
        )
        found = await super().handle_async_request(asked)
        self.seen |= {point["payload"]["id"] for point in (found.read(), found.json())[1]["result"]["points"]}
        return answer


@pytest.mark.parametrize("filters", [[], [owned_by("x")]])
def test_a_late_document_is_never_seen(index: Index, namespace: str, filters: list[Any]) -> None:
    """Between the requests by which it is refused, no query would find it."""
    write(index, [forget(namespace, 5, *filters)])
    watching = Watching(index, namespace)
    late = in_flight([upsert(namespace, "late", 4, owner="x"), upsert(namespace, "new", 6, owner="x")])
    asyncio.run(index.writer(watching).call("documents", late, TIMEOUT))
    assert watching.seen == {"new"}


class Between(ServerTransport):
    """Before the first write of a point another batch is applied whole."""

    def __init__(self, index: Index, other: Sequence[Event]) -> None:
        super().__init__(index.engine)
        self.index = index
        self.other = list(other)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        if request.method == "PUT" and (other := in_flight(self.other)):
            self.other = []
            await self.index.write(other)
        return await super().handle_async_request(request)


@pytest.mark.parametrize("filters", [[], [owned_by("x")]])
def test_a_write_that_the_deletion_overtook_is_undone(index: Index, namespace: str, filters: list[Any]) -> None:
    """An indexer reads no tombstone, another one deletes, and only then the first one writes: the document goes."""
    between = Between(index, [forget(namespace, 5, *filters)])
    asyncio.run(index.writer(between).call("documents", in_flight([upsert(namespace, "a", 4, owner="x")]), TIMEOUT))
    assert documents(index, namespace) == {}


def test_two_deletions_at_once_are_both_remembered(index: Index, namespace: str) -> None:
    """One indexer writes a tombstone between another's reading and writing of it: what either forgot stays away."""
    between = Between(index, [forget(namespace, 5, owned_by("y"))])
    made = in_flight([forget(namespace, 5, owned_by("x"))])
    assert asyncio.run(index.writer(between).call("documents", made, TIMEOUT)) == [None]
    write(index, [upsert(namespace, owner, 4, owner=owner) for owner in "xyz"])
    assert documents(index, namespace).keys() == {"z"}


@pytest.mark.parametrize("requests", range(8))
def test_a_crash_within_a_deletion_is_repaired(tmp_path: Path, requests: int) -> None:
    """Wherever the indexer ends, the next reading of the event deletes what is left, from contexts, too."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured(before=1, after=1))
        asyncio.run(index.create())
        turns = [
            upsert("public", f"t{turn}", 1.0, session="s", turn=turn, text=f"word{turn}", owner="xyxy"[turn])
            for turn in range(4)
        ]
        index.apply([[turns]], 0)
        index.apply([[[forget("public", 5, owned_by("x"))]]], 0, [requests])
        points = [point for point in index.points() if FORGOTTEN not in point["payload"]]
        assert {point["payload"]["id"] for point in points} == {"t1", "t3"}
        found = contexts(points)
        for name, window, _, terms in expected(points, 1, 1):
            assert (found[name][0], found[name][2]) == (window, terms)


def published(made: EventInFlight) -> list[OutputRecord]:
    """The records of an event that is applied, where the documents topic has three partitions."""
    flow, written = Dataflow("test"), list[list[OutputRecord]]()
    batches = op.input("batches", flow, TestingSource([(KEY, [made])]))
    op.output("out", last_stage("publish", batches, DocumentFinaliser("watermarks", 3, NOBODY)), TestingSink(written))
    run_main(flow)
    [records] = written
    return records


def test_a_deletion_moves_the_watermark(index: Index, namespace: str) -> None:
    """Its record names the namespace and the offset of the event: cached answers and cursors end with it."""
    write(index, [upsert(namespace, "later", 9)])
    made = deletion(7, namespace=namespace, updated_at=5.0)
    assert asyncio.run(index.write([made])) == [None]
    [record] = published(made)
    assert (record.topic, record.key, record.value) == ("watermarks", f"documents|{namespace}|0".encode(), b"7")


def test_an_empty_namespace_has_no_watermark(index: Index, namespace: str) -> None:
    """A deletion that leaves no document removes those of all partitions; one by a filter moves its own."""
    write(index, [upsert(namespace, "a", 1, owner="x")])
    by_filter = deletion(6, namespace=namespace, updated_at=5.0, filters=[owned_by("x")])
    assert asyncio.run(index.write([by_filter])) == [None]
    assert [record.value for record in published(by_filter)] == [b"6"]
    whole = deletion(7, namespace=namespace, updated_at=5.0)
    assert asyncio.run(index.write([whole])) == [None]
    records = published(whole)
    assert [record.key for record in records] == [f"documents|{namespace}|{number}".encode() for number in range(3)]
    table = WatermarkTable()
    for number in range(3):
        table.put(f"documents|{namespace}|{number}".encode(), b"1")
    for record in records:
        table.put(record.key or b"", record.value)
    assert len(table) == 0


OWNERS = ("x", "y")
IDS = ("a", "b", "c")


@st.composite
def partitions(draw: st.DrawFn) -> list[list[Event]]:
    """Events of several partitions: those of a document are in one, in the order of their versions; deletions anywhere.

    No patch changes the field that filters name, and all versions differ.
    """
    versions = draw(st.permutations(range(1, 19)))
    parts: list[list[Event]] = [[], [], []]
    for place, id_ in enumerate(IDS):
        for at in sorted(draw(st.lists(st.sampled_from(versions[place * 4 : place * 4 + 4]), unique=True, max_size=4))):
            kind = draw(st.sampled_from(["upsert", "upsert", "patch", "delete"]))
            fields: Event = {"owner": draw(st.sampled_from(OWNERS))} if kind == "upsert" else {}
            fields |= {"price": at} if kind == "patch" else {}
            event = upsert("", id_, at, **fields) if kind == "upsert" else patch("", id_, at, op=kind, **fields)
            parts[place % 2].append(event)
    for at in versions[12:]:
        if draw(st.booleans()):
            filters = draw(st.sampled_from([[], [owned_by("x")], [owned_by("y")]]))
            part = draw(st.sampled_from(parts))
            part.insert(draw(st.integers(0, len(part))), forget("", at, *filters))
    return parts


def model(parts: Sequence[Sequence[Event]]) -> dict[str, tuple[Any, Any]]:
    """Owner and price of each document that is left, by the rules alone."""
    events = [event for part in parts for event in part]
    forgotten = [event for event in events if event.get("op") == "delete_where"]
    left: dict[str, tuple[Any, Any]] = {}
    for id_ in IDS:
        found: Event | None = None
        for event in (event for event in events if event.get("id") == id_):
            match event.get("op"):
                case None:
                    found = event
                case "delete":
                    found = None
                case _ if found is not None:
                    found = found | {"price": event["price"]}
        if found is not None and not any(
            each["updated_at"] >= found["updated_at"]
            and all(each["value"] == found["owner"] for each in each["filters"])
            for each in forgotten
        ):
            left[id_] = found["owner"], found.get("price")
    return left


@settings(max_examples=sized(40, nightly=1500), deadline=None)
@given(partitions(), st.integers(0, 10**6), st.lists(st.integers(0, 25), max_size=3), st.integers(1, 3))
def test_any_order_leaves_the_same_documents(
    index: Index, parts: list[list[Event]], seed: int, crashes: list[int], size: int
) -> None:
    """Three indexers apply their partitions at the same time, end at any request, and read again what they had read."""
    namespace = f"m{next(_NUMBERS)}"
    parts = [[{**event, "namespace": namespace} for event in part] for part in parts]

    async def indexer(place: int) -> None:
        part = parts[place]
        chance = random.Random(seed + place)
        writer = index.writer(Interleaved(index.engine, chance, crashes[place] if place < len(crashes) else None))
        start = 0
        while start < len(part):
            try:
                await writer.call("documents", in_flight(part[start : start + size]), TIMEOUT)
            except Crash:
                # The offsets of an earlier batch may not have been written, either.
                start = max(0, start - size * chance.randrange(3))
            else:
                start += size

    async def scenario() -> None:
        await asyncio.gather(*map(indexer, range(len(parts))))

    asyncio.run(scenario())
    found = {id_: (each["owner"], each.get("price")) for id_, each in documents(index, namespace).items()}
    assert found == model(parts)
    own = [point["payload"] for point in index.points() if NAMESPACE not in point["payload"]]
    assert all(FORGOTTEN in payload for payload in own), "a document is left hidden"


def test_a_known_tombstone_is_not_read_again(index: Index, namespace: str) -> None:
    """Each batch of a namespace asks for the hash of its tombstone, and for the filters only if that is another one."""
    asked: list[bytes] = []

    class Noting(ServerTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked.append(request.content)
            return await super().handle_async_request(request)

    write(index, [forget(namespace, 5, owned_by("x"))])
    writer, _ = index.stages(index.client(Noting(index.engine)))
    for number, read in ((1, True), (2, False), (3, False)):
        batch = in_flight([upsert(namespace, f"d{number}", 9, owner="x")])
        assert asyncio.run(writer.call("documents", batch, TIMEOUT)) == [None]
        assert any(FORGOTTEN.encode() in body for body in asked) is read
        asked.clear()
    write(index, [forget(namespace, 10, owned_by("x"))])
    batch = in_flight([upsert(namespace, "d4", 9, owner="x")])
    assert asyncio.run(writer.call("documents", batch, TIMEOUT)) == [None]
    assert documents(index, namespace) == {}


def test_a_tombstone_is_bounded(index: Index, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One filter too many is refused, by name and with the cure; nothing is deleted, and the others still hold."""
    write(index, [upsert(namespace, "a", 1, owner="x"), forget(namespace, 5, owned_by("z"))])
    monkeypatch.setattr(deletions, "MOST_BYTES", 80)
    (refused,) = asyncio.run(index.write([deletion(namespace=namespace, updated_at=5.0, filters=[owned_by("x")])]))
    assert isinstance(refused, InputError)
    assert refused.field == "filters"
    assert "delete the whole namespace" in str(refused)
    assert documents(index, namespace).keys() == {"a"}
    write(index, [forget(namespace, 5)])
    assert documents(index, namespace) == {}


def test_a_filter_that_the_index_refuses_is_in_no_tombstone(
    index: Index, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error names the field, if filters need an index, and documents go on being written."""
    monkeypatch.setattr(Catalogue, "capabilities_of", lambda *_: capable(limits=STRICT))
    made = deletion(namespace=namespace, updated_at=5.0, filters=[{"all_of": [owned_by("x")]}])
    (refused,) = asyncio.run(index.write([made]))
    assert isinstance(refused, InputError)
    assert refused.field == "filters.0.all_of.0.field"
    write(index, [upsert(namespace, "a", 1, owner="x")])
    assert documents(index, namespace).keys() == {"a"}


def test_counts_are_not_exact_where_strict_mode_forbids_it(index: Index, namespace: str) -> None:
    """A collection without exact searches refuses exact counts, too: the deletion asks for none."""
    asked: list[bytes] = []

    class Noting(ServerTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked.extend([request.content] if request.url.path.endswith("/count") else [])
            return await super().handle_async_request(request)

    client = index.client(Noting(index.engine))
    client.limits["documents"] = Limits(exact=False)
    writer, _ = index.stages(client)
    assert asyncio.run(writer.call("documents", in_flight([forget(namespace, 5)]), TIMEOUT)) == [None]
    assert len(asked) == 2
    assert all(b'"exact":false' in body for body in asked)

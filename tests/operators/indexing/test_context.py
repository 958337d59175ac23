"""Contexts converge: whatever the order, the interleaving and the crashes, they are those of the documents there."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from operators.clients.qdrant_edge.shards import Engine
from schemas.errors import InputError
from tests.operators.indexing.documents import in_flight
from tests.operators.indexing.neighbours import TIMEOUT, Event, Index, contexts, expected, settings, writing_contexts
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized

WORDS = ("lantern", "harbour", "violin", "orchard")

events = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abcdefgh"),
        "updated_at": st.integers(1, 4).map(float),
        "vector": st.lists(st.integers(1, 3).map(float), min_size=3, max_size=3),
    },
    optional={
        "op": st.sampled_from(("upsert", "upsert", "delete")),
        "session": st.integers(1, 2),
        "turn": st.integers(0, 3),
        "text": st.sampled_from(WORDS),
        "namespace": st.sampled_from(("public", "other")),
        "classification": st.sampled_from(("public", "restricted", "unheard of")),
        "labels": st.lists(st.sampled_from(("draft", "board")), max_size=2),
    },
)
batches = st.lists(st.lists(events, min_size=1, max_size=6), max_size=4)


def of_indexer(batch: list[Event], place: int) -> list[Event]:
    """The events with ids of this indexer's own: all events of a document go through one partition."""
    return [{**event, "id": f"{event['id']}{place}"} for event in batch]


def check(index: Index, ids: Collection[str] | None = None) -> None:
    """Every context in the index, or those of these documents, are what they must be."""
    points = index.points()
    context = index.settings.context
    found = contexts(points)
    for id_, window, dense, terms in expected(points, context.before, context.after):
        if ids is not None and id_ not in ids:
            continue
        held, vector, indices = found[id_]
        assert held == window
        assert vector == pytest.approx(dense, abs=1e-5)
        assert indices == terms


def turn(id_: str, turn: int, text: str, *, session: int = 1, version: float = 1.0) -> Event:
    """A turn of a conversation."""
    return {"id": id_, "turn": turn, "session": session, "text": text, "updated_at": version, "vector": [1.0, 2.0, 3.0]}


def test_neighbours_that_come_later_change_and_go(tmp_path: Path) -> None:
    """A context follows its neighbours: those that arrive, change, move to another group, and are deleted."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())

        def held() -> dict[str, str]:
            check(index)
            return {id_: "".join(window) for id_, (window, _, _) in sorted(contexts(index.points()).items())}

        index.apply([[[turn("c", 3, "lantern"), turn("a", 1, "harbour")]]], 0)
        assert held() == {"a": "ac", "c": "ac"}
        index.apply([[[turn("b", 2, "violin")], [turn("c", 3, "orchard", version=2.0)]]], 0)
        assert held() == {"a": "ab", "b": "abc", "c": "bc"}
        index.apply([[[turn("b", 2, "violin", session=2, version=2.0)]]], 0)
        assert held() == {"a": "ac", "b": "b", "c": "ac"}
        index.apply([[[{"id": "a", "op": "delete", "updated_at": 2.0}]]], 0)
        assert held() == {"b": "b", "c": "c"}


@pytest.mark.parametrize("hidden", [{"classification": "restricted"}, {"labels": ["board"]}, {"classification": ""}])
def test_a_context_is_of_what_the_same_sources_see(tmp_path: Path, hidden: Event) -> None:
    """A neighbour that is hidden leaves the contexts of the others, and is in them again once it is shown."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())

        def held() -> dict[str, str]:
            check(index)
            return {id_: "".join(window) for id_, (window, _, _) in sorted(contexts(index.points()).items())}

        index.apply([[[turn("a", 1, "harbour"), turn("b", 2, "violin"), turn("c", 3, "lantern")]]], 0)
        assert held() == {"a": "ab", "b": "abc", "c": "bc"}
        index.apply([[[{**turn("b", 2, "violin", version=2.0), **hidden}]]], 0)
        assert held() == {"a": "ac", "b": "b", "c": "ac"}
        index.apply([[[{**turn("c", 3, "lantern", version=2.0), **hidden}]]], 0)
        assert held() == {"a": "a", "b": "bc", "c": "bc"}
        index.apply([[[turn("b", 2, "violin", version=3.0)]]], 0)
        assert held() == {"a": "ab", "b": "ab", "c": "c"}


def test_a_deletion_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    """The document is gone when the indexer that deleted it crashes: its successor still finds what it was in."""
    for crash in range(4):
        with Engine(tmp_path / str(crash)) as engine:
            index = Index(engine, settings(before=1, after=1))
            asyncio.run(index.create())
            index.apply([[[turn("a", 1, "harbour"), turn("b", 2, "violin"), turn("c", 3, "lantern")]]], 0)
            index.apply([[[{"id": "b", "op": "delete", "updated_at": 2.0}]]], 0, [crash])
            check(index)
            assert set(contexts(index.points())) == {"a", "c"}


@pytest.mark.parametrize("crash", [False, True])
def test_neighbours_that_change_while_a_document_leaves(tmp_path: Path, crash: bool) -> None:
    """A context that a deleted document has left is still checked once it is written, also by a successor."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=0))
        asyncio.run(index.create())
        index.apply([[[turn("f", 1, "harbour"), turn("g", 2, "violin"), turn("d", 3, "lantern")]]], 0)
        # As the first deletes what stood between the two, the second moves the other neighbour away.
        leaving = [{"id": "g", "op": "delete", "updated_at": 2.0}]
        moving = [turn("f", 1, "harbour", session=2, version=2.0)]
        asyncio.run(index.beside(leaving, moving, crash=crash))
        check(index)
        assert contexts(index.points())["d"][0] == ["d"]


def test_no_context_is_ever_written_with_the_vector_of_a_document_that_was_hidden_meanwhile(tmp_path: Path) -> None:
    """Not even for the moment until it is written again: between its payload and its vector a neighbour is hidden."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())
        own = turn("b", 2, "violin") | {"vector": [0.0, 1.0, 0.0]}
        secret = turn("a", 1, "harbour", version=2.0) | {"vector": [1.0, 0.0, 0.0], "labels": ["board"]}
        index.apply([[[turn("a", 1, "lantern")]]], 0)
        written = orjson.loads(asyncio.run(index.first_contexts([own], [secret])))
        vectors = [each["update_vectors"]["points"][0] for each in written["operations"] if "update_vectors" in each]
        assert [each["vector"]["dense_context"] for each in vectors] == [[0.0, 1.0, 0.0]] * len(vectors)
        assert vectors
        check(index)


SECRET: Event = {"classification": "restricted"}


@pytest.mark.parametrize(
    "shown",
    [
        turn("b", 2, "orchard", version=2.0),
        turn("b", 2, "orchard", version=2.0) | {"labels": ["board"]},
        turn("b", 2, "orchard", version=2.0) | {"classification": "internal"},
        {"id": "b", "text": "orchard", "updated_at": 2.0, "vector": [1.0, 2.0, 3.0]},
    ],
    ids=["public", "labels", "another tier", "public, and alone"],
)
def test_contexts_that_are_written_too_late_are_not_those_of_a_document_that_is_shown(
    tmp_path: Path, shown: Event
) -> None:
    """A dead indexer's write for a hidden document does not bring the shown one the words of hidden neighbours."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())
        index.apply([[[turn("a", 1, "harbour") | SECRET, turn("b", 2, "lantern") | SECRET]]], 0)
        asyncio.run(index.late([turn("a", 1, "violin", version=2.0) | SECRET], [shown]))
        check(index, ["b"])
        index.apply([[[turn("a", 1, "violin", version=2.0) | SECRET]]], 0)
        check(index)


def test_contexts_that_are_written_too_late_have_no_words_that_their_document_has_lost(tmp_path: Path) -> None:
    """A document alone, hidden and then shown with another text, has no context of its hidden text."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())
        alone: Event = {"id": "b", "vector": [1.0, 2.0, 3.0]}
        hidden = alone | SECRET | {"text": "violin", "updated_at": 1.0}
        asyncio.run(index.late([hidden], [alone | {"text": "orchard", "updated_at": 2.0}]))
        check(index)


def test_a_refused_context_does_not_call_its_document_refused(tmp_path: Path) -> None:
    """The document is in the index, and the reason of the dead letter says so."""

    class Refusing(ServerTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if writing_contexts(request):
                return httpx.Response(400, json={"status": {"error": "no context today"}}, request=request)
            return await super().handle_async_request(request)

    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=1, after=1))
        asyncio.run(index.create())
        writer, context = index.stages(index.client(Refusing(engine)))
        made = in_flight([turn("a", 1, "lantern")])
        assert asyncio.run(writer.call("documents", made, TIMEOUT)) == [None]
        [error] = asyncio.run(context.call("documents", made, TIMEOUT))
        assert error is not None
        with pytest.raises(
            InputError, match=r"^the document is written, and its context is refused: qdrant: status 400$"
        ):
            context.on_result(made[0], error)
        assert [point["payload"]["id"] for point in index.points()] == ["a"]


def test_many_documents_of_equal_order(tmp_path: Path) -> None:
    """More than one page of them: the ids decide."""
    with Engine(tmp_path) as engine:
        index = Index(engine, settings(before=2, after=2))
        asyncio.run(index.create())
        index.apply([[[turn(f"d{number}", 1, "harbour") for number in range(300)]]], 0)
        check(index)
        index.apply([[[turn("d7", 1, "violin", version=2.0)]]], 0)
        check(index)


@pytest.mark.slow
@profile(max_examples=sized(10, nightly=100))
@given(
    st.lists(batches, min_size=1, max_size=3),
    st.integers(0, 2**16),
    st.lists(st.integers(0, 12), max_size=3),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_contexts_converge(
    tmp_path_factory: pytest.TempPathFactory,
    indexers: list[list[list[Event]]],
    seed: int,
    crashes: list[int],
    before: int,
    after: int,
) -> None:
    """Whatever is written, moved, reclassified and deleted, by however many at once, with crashes in between."""
    with Engine(tmp_path_factory.mktemp("index")) as engine:
        index = Index(engine, settings(before=before, after=after))
        asyncio.run(index.create())
        own = [[of_indexer(batch, place) for batch in each] for place, each in enumerate(indexers)]
        index.apply(own, seed, crashes)
        check(index)

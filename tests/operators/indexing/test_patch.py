"""Patches: fields change without the text, and any order of arrival gives one document."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.clients.qdrant_edge.shards import Engine
from operators.indexing.apply import DocumentEmbedder, Writer
from operators.indexing.document import DocumentInFlight
from schemas.errors import DeadLetterClass, InputError
from tests.operators.indexing.documents import decoder, document
from tests.operators.indexing.neighbours import Index, contexts, expected
from tests.operators.indexing.neighbours import settings as configured
from tests.operators.samples import DIMENSION, message
from tests.tiers import sized

VECTOR = [1.0] * DIMENSION
NOBODY: Any = None
_NUMBERS = itertools.count()

Event = dict[str, Any]


def upsert(at: float, **fields: Any) -> Event:
    """An upsert of this version."""
    return {"id": "d", "updated_at": at, "text": f"at {at}", "vector": VECTOR, **fields}


def patch(at: float, **fields: Any) -> Event:
    """A patch of this version."""
    return {"id": "d", "op": "patch", "updated_at": at, **fields}


def delete(at: float) -> Event:
    """A deletion of this version."""
    return {"id": "d", "op": "delete", "updated_at": at}


def payload(index: Index, id_: str = "d") -> dict[str, Any] | None:
    """The document's fields in the index, without those of the index's own."""
    found = [point["payload"] for point in index.points() if point["payload"]["id"] == id_]
    return {name: value for name, value in found[0].items() if not name.startswith("_")} if found else None


def write(index: Index, events: Sequence[Event]) -> list[DocumentInFlight]:
    """Write a batch; the documents that were not found."""
    made = [document(offset, **event) for offset, event in enumerate(events)]
    outcomes = asyncio.run(index.write(made))
    assert all(outcome is None or isinstance(outcome, InputError) for outcome in outcomes)
    return [each for each, outcome in zip(made, outcomes, strict=True) if outcome is not None]


def fresh() -> Callable[[Sequence[Event]], list[Event]]:
    """Gives events a document that no other example has."""
    number = next(_NUMBERS)
    return lambda events: [{**event, "id": f"d{number}"} for event in events]


VALUES = (
    st.none()
    | st.integers(-5, 5)
    | st.integers(0, 40).map(lambda eighths: eighths / 8)
    | st.sampled_from(["a", "A"])
    | st.just({"x": [None, 1]})
)
FIELDS = st.dictionaries(st.sampled_from(["price", "stock", "access_note"]), VALUES, min_size=1)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Upserts and patches with different versions, in any order."""
    kinds = draw(st.lists(st.sampled_from([upsert, patch, patch]), min_size=1, max_size=6))
    events = [kind(float(at), **draw(FIELDS)) for at, kind in enumerate([upsert, *kinds], 1)]
    return draw(st.permutations(events))


def model(events: Sequence[Event]) -> dict[str, Any]:
    """The document that these events make, by the rule alone: of each field the value with the highest version."""
    latest = max((event for event in events if event.get("op") is None), key=lambda event: event["updated_at"])
    fields = {name: value for name, value in latest.items() if name not in {"vector", "updated_at"}}
    for event in sorted(events, key=lambda event: event["updated_at"]):
        if event.get("op") == "patch" and event["updated_at"] > latest["updated_at"]:
            fields |= {name: value for name, value in event.items() if name not in {"id", "op", "updated_at"}}
    return {name: value for name, value in fields.items() if value is not None}


@settings(max_examples=sized(25, nightly=400), deadline=None)
@given(histories(), st.integers(1, 3), st.booleans())
@example([upsert(1, price=1), patch(2, price=2), upsert(3, price=3)], 1, False)
def test_any_order_gives_one_document(index: Index, events: list[Event], size: int, twice: bool) -> None:
    """In whatever order and batches events come, each value is that of the highest version, and no vector is lost."""
    events = fresh()(events)
    rest: Sequence[Event] = events
    # A patch without a document is sent again, as a dead letter is.
    while rest:
        batches = [rest[start : start + size] for start in range(0, len(rest), size)]
        missing = [each for batch in batches for each in write(index, batch)]
        rest = [{**each.event.model_dump(exclude_unset=True)} for each in missing]
    if twice:
        write(index, events)
        write(index, events[::-1])
    found = payload(index, events[0]["id"])
    assert found is not None
    found.pop("updated_at")
    assert {**found, "namespace": None, "destination": None} == {
        **model(events),
        "namespace": None,
        "destination": None,
    }
    (point,) = (point for point in index.points() if point["payload"]["id"] == events[0]["id"])
    assert "dense" in point["vector"]


@settings(max_examples=sized(12, nightly=200), deadline=None)
@given(st.data(), st.integers(0, 10**6))
def test_indexers_that_crash_and_interleave_lose_no_patch(index: Index, data: st.DataObject, seed: int) -> None:
    """Two indexers apply patches and upserts of one document at the same time, one of them crashes: the model holds."""
    of = fresh()
    events = of(data.draw(histories()))
    write(index, of([upsert(0.5)]))
    half = data.draw(st.integers(0, len(events)))
    crashes = [data.draw(st.integers(0, 12))]
    index.apply([[events[:half]], [events[half:]]], seed, crashes)
    found = payload(index, events[0]["id"])
    assert found is not None
    wanted = model(events)
    assert {name: found.get(name) for name in ("text", "price", "stock", "access_note")} == {
        name: wanted.get(name) for name in ("text", "price", "stock", "access_note")
    }


@pytest.mark.parametrize("before", [[], [upsert(1), delete(2)]])
def test_a_patch_of_no_document_is_not_found(index: Index, before: list[Event]) -> None:
    """It is rejected as `not_found`, whether the document was never there or is deleted, and makes no document."""
    of = fresh()
    write(index, of(before))
    (made,) = [document(0, **event) for event in of([patch(3, price=1)])]
    (outcome,) = asyncio.run(index.write([made]))
    assert isinstance(outcome, InputError)
    assert (outcome.kind, outcome.field) == (DeadLetterClass.NOT_FOUND, "id")
    writer = Writer(NOBODY, NOBODY, NOBODY, NOBODY, 1.0)
    with pytest.raises(InputError):
        writer.on_result(made, outcome)
    assert payload(index, made.event.id) is None


def test_a_deletion_takes_the_document_with_its_patches(index: Index) -> None:
    """A deletion as late as the upsert deletes, however late the patches are; an older one deletes nothing."""
    of = fresh()
    write(index, of([upsert(2), patch(9, price=1), delete(1)]))
    (named,) = of([{}])
    assert payload(index, named["id"]) is not None
    assert write(index, of([delete(3)])) == []
    assert payload(index, named["id"]) is None


@pytest.mark.parametrize("size", [1, 2])
def test_of_equal_versions_the_last_event_holds(index: Index, size: int) -> None:
    """An upsert behind a patch of the same version replaces it, in the same batch, too; a patch behind one holds."""
    for events, price in (
        ([patch(5, price=1), upsert(5, price=2)], 2),
        ([upsert(5, price=2), patch(5, price=1)], 1),
        ([patch(5, price=1), upsert(4, price=2)], 1),
    ):
        made = fresh()([upsert(3, price=0), *events])
        for batch in (made[:1], *(made[at : at + size] for at in range(1, 3, size))):
            write(index, batch)
        found = payload(index, made[0]["id"])
        assert found is not None
        assert found["price"] == price


def test_a_number_that_the_index_rounds_is_written_once(index: Index) -> None:
    """A number that comes back from the index with another last digit makes no patch, and no upsert, wait for ever."""
    of = fresh()
    write(index, of([upsert(1), patch(5, price=1.4251517517286419e-185)]))
    write(index, of([upsert(2.0), patch(5, price=1.4251517517286419e-185), patch(6, stock=2)]))
    found = payload(index, of([{}])[0]["id"])
    assert found is not None
    assert (found["text"], found["price"], found["stock"]) == ("at 2.0", pytest.approx(1.4251517517286419e-185), 2)


def test_a_patch_needs_no_model() -> None:
    """The embedder isn't asked for a patched document."""
    stage = DocumentEmbedder(NOBODY, 1.0)
    assert asyncio.run(stage.call("documents", [document(**patch(1, price=2))], 1.0)) == [None]


def test_times_and_orders_follow_a_patch(index: Index) -> None:
    """A patched `created_at` moves the document in lookups by time, and `accessed_at` is a time as an upsert has it."""
    of = fresh()
    write(index, of([upsert(1, created_at=100.0)]))
    write(index, of([patch(2, created_at=200.0, accessed_at=300.0, access_count=7)]))
    (found,) = (point["payload"] for point in index.points() if point["payload"]["id"] == of([{}])[0]["id"])
    assert (found["_created"], found["created_at"], found["accessed_at"], found["access_count"]) == (
        200_000,
        "1970-01-01T00:03:20.000Z",
        "1970-01-01T00:05:00.000Z",
        7,
    )
    write(index, of([patch(3, created_at=None)]))
    (found,) = (point["payload"] for point in index.points() if point["payload"]["id"] == of([{}])[0]["id"])
    assert (found["_created"], "created_at" in found) == (0, False)


def test_a_hidden_document_leaves_the_contexts_of_its_neighbours(tmp_path: Path) -> None:
    """A patch of the classification takes a document's words out of its neighbours' contexts."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured(before=1, after=1))
        asyncio.run(index.create())
        turns = [{"id": f"t{turn}", "session": "s", "turn": turn, **_turn(turn)} for turn in range(DIMENSION)]
        hide = {"id": "t1", "op": "patch", "updated_at": 5.0, "classification": "restricted"}
        index.apply([[turns, [hide, {"id": "t2", "op": "patch", "updated_at": 5.0, "price": 1}]]], 0)
        points = index.points()
        found = contexts(points)
        for name, window, unit, terms in expected(points, 1, 1):
            assert found[name][0] == window
            assert found[name][1] == pytest.approx(unit, abs=1e-5)
            assert found[name][2] == terms


def _turn(turn: int) -> Mapping[str, Any]:
    vector = [0.0] * DIMENSION
    vector[turn] = 1.0
    return {"text": f"word{turn} said", "vector": vector, "updated_at": 1.0}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("text", {"text": "new"}),
        ("title", {"title": None}),
        ("vector", {"vector": VECTOR}),
        ("lang", {"lang": "de"}),
        ("body", {"body": {"summary": "new"}}),
        ("extra", {"extra": "new"}),
    ],
)
def test_a_patch_of_a_searched_field_is_refused(field: str, changes: dict[str, Any]) -> None:
    """A field that is embedded or searched by words can't be patched, and the refusal names it."""
    strict = decoder(searched=("title", "body.summary"), read=("text", "extra"))
    with pytest.raises(InputError, match=f"{field}: a patch changes no field that is embedded") as caught:
        strict(message(patch(1, price=1, **changes)))
    assert caught.value.field == field


def test_a_patch_of_nothing_is_refused() -> None:
    """A patch that names its document alone changes nothing, and says so."""
    with pytest.raises(InputError, match="a patch needs a field that it changes"):
        decoder()(message({"id": "d", "op": "patch"}))

"""A refused event costs no more than a good one: however many problems it has, few are put into words."""

import difflib
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.indexing.decode import DocumentDecoder
from operators.runtime.stage import run_step
from operators.wire.message import Message, Rejected
from operators.wire.parsing import parse_refused
from schemas import errors, event
from schemas.document import MAX_DOCUMENT_PARTS, DocumentEvent
from schemas.errors import MAX_WORDED
from schemas.headers import MAX_ATTRIBUTE_CHARS, MAX_ATTRIBUTES
from schemas.query import QueryEvent
from schemas.recipes import recipe
from tests.adversary.refused import DOCUMENT_BYTES, DOCUMENTS, ENVELOPE, ENVELOPES, QUERIES, QUERY_BYTES
from tests.operators.indexing import documents
from tests.operators.samples import decoder, message, way_out
from tests.tiers import sized

pytestmark = pytest.mark.slow

MOST_TIMES: Final = 10
"""A refused event's CPU time at most, in that of the dearest good event of its size."""

MOST_MEMORY: Final = 100
"""Bytes of memory that an event takes at most for each of its own."""

_QUERY: Final = decoder()
_DOCUMENT: Final = documents.decoder(max_bytes=DOCUMENT_BYTES)
_ATTRIBUTES: Final = tuple((f"ce_x{at}", b"v") for at in range(50_000))

IN_HEADERS: Final = "attributes in headers"
SENT: Final = (*QUERIES, *ENVELOPES, IN_HEADERS)
"""The kinds of queries."""

DEAREST_QUERY: Final = "values of every filter"
"""The kind of the good query that takes most time."""

WORDY: Final = QueryEvent, DocumentEvent


class Counted(NamedTuple):
    """The calls of what is dear."""

    worded: list[object]
    compared: list[object]


def counting(patch: pytest.MonkeyPatch) -> Counted:
    """Count the problems that are put into words, and the names that are compared with others."""
    calls = Counted([], [])
    compare, word = difflib.get_close_matches, errors.explain_problem

    def compared(*given: Any, **named: Any) -> Any:
        calls.compared.append(given)
        return compare(*given, **named)

    def worded(*given: Any) -> str:
        calls.worded.append(given)
        return word(*given)

    patch.setattr(difflib, "get_close_matches", compared)
    for module in (event, recipe):
        patch.setattr(module, "explain_problem", worded)
    return calls


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The calls of a test."""
    return counting(monkeypatch)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile, which a test's own garbage would have a part in."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def ended(sent: Message, decode: Callable[[Message], Any], *, answers: bool) -> Rejected | None:
    """Decode a message, and end it if it is refused; the refusal."""
    (item,) = run_step("decode", [sent], decode)
    if not isinstance(item, Rejected):
        return None
    way_out(tells=answers).refuse(item)
    return item


def query(kind: str) -> Rejected | None:
    """Decode and end the query of that kind."""
    if kind == IN_HEADERS:
        attributed = message(b'{"query_id": "q", "text": "t"}', headers=(("ce_specversion", b"1.0"), *_ATTRIBUTES))
        return ended(attributed, _QUERY, answers=True)
    value, headers = (ENVELOPES[kind], ENVELOPE) if kind in ENVELOPES else (QUERIES[kind], ())
    return ended(message(value, headers=headers), _QUERY, answers=True)


def document(kind: str, decode: DocumentDecoder = _DOCUMENT) -> Rejected | None:
    """Decode and end the document of that kind."""
    return ended(message(DOCUMENTS[kind]), decode, answers=False)


def taken(run: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    run()
    return time.process_time() - began


def in_proportion(run: Callable[[], object], good: Callable[[], object]) -> bool:
    """True if one run in three takes at most MOST_TIMES of the good one's time; the first that does is the last."""
    return any(taken(run) <= MOST_TIMES * taken(good) for _ in range(3))


def memory(run: Callable[[], object]) -> int:
    """The most bytes that were in use at one time."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", SENT)
def test_few_problems_of_a_query_are_worded(kind: str, counted: Counted) -> None:
    """Whatever is wrong with a query, and however often, MAX_WORDED problems are put into words."""
    query(kind)
    assert len(counted.worded) <= MAX_WORDED
    assert len(counted.compared) <= MAX_WORDED


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_few_problems_of_a_document_are_worded(kind: str, counted: Counted) -> None:
    """Likewise of a document."""
    document(kind)
    assert len(counted.worded) <= MAX_WORDED
    assert len(counted.compared) <= MAX_WORDED


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", SENT[:: sized(3, nightly=1)])
def test_a_query_costs_no_more_than_a_good_one(kind: str) -> None:
    """CPU time and memory, of decoding and of what tells its caller."""
    assert query(DEAREST_QUERY) is None
    assert in_proportion(lambda: query(kind), lambda: query(DEAREST_QUERY))
    assert memory(lambda: query(kind)) <= MOST_MEMORY * QUERY_BYTES


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", tuple(DOCUMENTS)[:: sized(3, nightly=1)])
def test_a_document_costs_no_more_than_a_good_one(kind: str) -> None:
    """Likewise for documents of 1 MB."""
    assert document("unknown fields") is None
    assert in_proportion(lambda: document(kind), lambda: document("unknown fields"))
    assert memory(lambda: document(kind)) <= MOST_MEMORY * DOCUMENT_BYTES


def _value(chance: random.Random, room: int) -> Any:
    """A JSON value of at most so many values, often thousands of one."""
    simple = chance.choice((None, True, 7, -1.5, 10**18, "", "eq", "x" * chance.choice((1, 300)), "\u0301" * 40))
    count = chance.choice((0, 1, 3, 70, 1500, 20_000))
    if count > room or chance.random() < 0.2:
        return simple
    inside = _value(chance, room // max(count, 10))
    if chance.random() < 0.5:
        return [inside] * count
    names = (*QueryEvent.model_fields, "score", "field", "op", "value", "gte", "to", "_a", "id")
    return {chance.choice((chance.choice(names), f"name{at}")): inside for at in range(count)}


@given(st.randoms(use_true_random=False))
def test_any_event_of_the_size_is_told_in_few_words(chance: random.Random) -> None:
    """Of any query or document MAX_WORDED problems at most are put into words, and its caller stays legible."""
    model = chance.choice(WORDY)
    fields = {
        chance.choice((*model.model_fields, "unknown")): _value(chance, 30_000) for _ in range(chance.randrange(12))
    }
    value = orjson.dumps({**fields, "query_id": "q", "id": "d"})
    sent = message(value)
    with pytest.MonkeyPatch.context() as patch:
        calls = counting(patch)
        ended(sent, _QUERY if model is QueryEvent else _DOCUMENT, answers=True)
    assert len(calls.worded) <= MAX_WORDED
    assert len(calls.compared) <= MAX_WORDED
    assert parse_refused(sent).query_id == "q"


def test_how_many_more_there_are_is_said() -> None:
    """Beside the first problems, the number of the others."""
    fields = {f"f{at}": 1 for at in range(MAX_WORDED + 7)}
    refused = ended(message({"query_id": "q", "text": "t", **fields}), _QUERY, answers=True)
    assert refused is not None
    assert refused.reason.endswith("; and 7 more")
    assert refused.reason.count("no such key") == MAX_WORDED


def test_many_parameters_are_told_in_few_words(counted: Counted) -> None:
    """Unknown parameters of several stages share the one bound."""
    changes = {stage: {f"p{at}": 1 for at in range(300)} for stage in ("score", "dedupe", "rerank")}
    refused = ended(message({"query_id": "q", "text": "t", "overrides": changes}), _QUERY, answers=True)
    assert refused is not None
    assert refused.reason.endswith(f"; and {900 - MAX_WORDED} more")
    assert len(counted.compared) == MAX_WORDED


@pytest.mark.parametrize("part", [[], {}, {"a": 1}], ids=["lists", "objects", "keys"])
def test_the_most_parts_are_read_and_no_more(part: Any) -> None:
    """Keys, objects and arrays are counted together, wherever they are."""
    each = 1 + len(part)
    room = MAX_DOCUMENT_PARTS - 4
    allowed = {"id": "d", "text": "t", "payload": [part] * (room // each)}
    assert ended(message(allowed), _DOCUMENT, answers=False) is None
    refused = ended(message({**allowed, "payload": [part] * (room // each + 1)}), _DOCUMENT, answers=False)
    assert refused is not None
    assert refused.reason == f"value: more than {MAX_DOCUMENT_PARTS} keys, objects and arrays"


def test_a_good_query_is_far_from_the_bound() -> None:
    """All filters that a query may have, with all bounds, and all metadata that it may have."""
    bounds = {"field": "a", "op": "range", "value": {"gte": 1, "lt": 2}}
    empty: list[list[int]] = [[]] * 1350
    asked = {"query_id": "q", "text": "t", "filters": [bounds] * 64, "metadata": {"a": empty}}
    assert ended(message(asked), _QUERY, answers=True) is None
    assert ended(message({**asked, "filters": [], "metadata": {"a": empty * 3}}), _QUERY, answers=True) is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({f"x{at}": "v" for at in range(MAX_ATTRIBUTES - 4)}, None),
        ({f"x{at}": "v" for at in range(MAX_ATTRIBUTES - 3)}, "a CloudEvent has at most 64 attributes"),
        ({"subject": "x" * MAX_ATTRIBUTE_CHARS}, None),
        ({"subject": "x" * (MAX_ATTRIBUTE_CHARS + 1)}, "subject: 4097 characters, at most 4096"),
    ],
    ids=["as many", "one too many", "as long", "one character too long"],
)
def test_a_cloud_events_attributes_are_bounded(more: dict[str, str], said: str | None) -> None:
    """Their number and their length, as headers and in an envelope."""
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **more}
    asked = {"query_id": "q", "text": "t"}
    headers = tuple((f"ce_{name}", value.encode()) for name, value in attributes.items())
    binary = ended(message(asked, headers=headers), _QUERY, answers=True)
    structured = ended(message({**attributes, "data": asked}, headers=ENVELOPE), _QUERY, answers=True)
    for refused in (binary, structured):
        assert (refused is None) == (said is None)
        assert refused is None or (said or "") in refused.reason

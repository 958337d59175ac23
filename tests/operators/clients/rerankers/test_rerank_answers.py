"""The form of a cross-encoder's answer, dialect by dialect: one wrong thing in it, and all of it is rejected."""

import json
import math
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.rerankers.cross_encoders import read_scores
from schemas.errors import BackendBadResponse
from tests.operators.clients.rerankers.dialects import (
    DIALECTS,
    EVERY_DIALECT,
    EVERY_SERVER,
    INDEXED,
    QUERY,
    SPOKEN,
    TEXTS,
    Dialect,
    failure,
    read_locally,
    request_of,
    right_scores,
)
from tests.operators.clients.rerankers.servers import relevance
from tests.tiers import sized

REQUEST = request_of(*TEXTS)


def reject(dialect: Dialect, answer: bytes) -> None:
    """Assert that `answer` is a bad response."""
    assert type(failure(lambda: read_locally(dialect, answer, [REQUEST]))) is BackendBadResponse


def altered(dialect: Dialect, old: bytes, new: bytes) -> bytes:
    """The right answer with one thing in it replaced."""
    right = orjson.dumps(dialect.right([REQUEST]))
    assert right.count(old) == 1
    return right.replace(old, new)


@EVERY_SERVER
def test_right_answer_is_read(dialect: Dialect) -> None:
    """The answer that the wrong ones are made of is right when nothing in it is wrong."""
    answer = orjson.dumps(dialect.right([REQUEST]))
    assert read_locally(dialect, answer, [REQUEST]) == [right_scores(REQUEST)]


SCORES = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "null", '"0.5"', '""', "true", "false", "[0.5]", "{}"),
    *("1e39", "-3.5e38", "1" + "0" * 400, "0x1", ".5", "", "[]"),
]


@EVERY_DIALECT
@pytest.mark.parametrize("score", SCORES, ids=[score[:12] for score in SCORES])
def test_score_that_is_not_a_finite_number_rejects_all(dialect: Dialect, score: str) -> None:
    """One score that isn't a number, isn't finite or is beyond 32 bits rejects the whole answer."""
    reject(dialect, altered(dialect, orjson.dumps(relevance(QUERY, TEXTS[1])), score.encode()))


@EVERY_DIALECT
@pytest.mark.parametrize(("score", "read"), [("0", 0.0), ("-17", -17.0), ("3.4e38", 3.4e38), ("1e-400", 0.0)])
def test_any_finite_number_is_a_score(dialect: Dialect, score: str, read: float) -> None:
    """Integers, logits below zero and whatever 32 bits can hold are scores."""
    answer = altered(dialect, orjson.dumps(relevance(QUERY, TEXTS[1])), score.encode())
    assert read_locally(dialect, answer, [REQUEST]) == [{**right_scores(REQUEST), "b": read}]


INDICES = ["0", "3", "-1", "1.0", "true", '"1"', "null", "[1]", "1e0", "1e999", "9" * 30, "NaN", "{}"]


@INDEXED
@pytest.mark.parametrize("index", INDICES, ids=[index[:12] for index in INDICES])
def test_index_that_was_not_asked_for_rejects_all(dialect: Dialect, index: str) -> None:
    """An index that is repeated, out of range, negative or not an integer rejects the whole answer."""
    reject(dialect, altered(dialect, b'"index":1', b'"index":' + index.encode()))


@INDEXED
@pytest.mark.parametrize("name", ["index", "score"])
def test_entry_without_index_or_score_rejects_all(dialect: Dialect, name: str) -> None:
    """An entry that lacks its index or its score rejects the whole answer."""
    answer = dialect.right([REQUEST])
    entry = dialect.server().entries(answer)[-1]
    del entry[name if name == "index" else dialect.api.key]
    reject(dialect, orjson.dumps(answer))


@EVERY_DIALECT
@pytest.mark.parametrize("left", [1, 2])
def test_what_an_answer_leaves_out_has_no_score(dialect: Dialect, left: int) -> None:
    """A document that an answer leaves out has no score; without indexes nothing says which one that is."""
    answer = dialect.right([REQUEST])
    entries = dialect.server().entries(answer)
    # A single entry would answer the control request, too, which has one text.
    del entries[2 if dialect.api.pairs else left :]
    if dialect.api.pairs:
        with pytest.raises(BackendBadResponse, match=r"scores for 3 texts|predictions for 3"):
            read_scores(dialect.api, answer, 3, backend="backend")
        return
    kept = {"abc"[entry["index"]] for entry in entries}
    right = {point: score for point, score in right_scores(REQUEST).items() if point in kept}
    assert read_locally(dialect, orjson.dumps(answer), [REQUEST]) == [right]


@EVERY_SERVER
def test_empty_results_score_nothing(dialect: Dialect) -> None:
    """An answer without any score is one to a part of a query, whose other parts may have some."""
    answer = dialect.right([REQUEST])
    dialect.server().entries(answer).clear()
    if not dialect.api.pairs:
        assert read_locally(dialect, orjson.dumps(answer), [REQUEST]) == [{}]
    else:
        reject(dialect, orjson.dumps(answer))


def _renamed(answer: Any) -> Any:
    return {f"_{name}": value for name, value in answer.items()} if isinstance(answer, dict) else {"results": answer}


def _more(answer: Any, entries: list[Any], entry: Any) -> Any:
    entries.append(entry)
    return answer


CONTAINERS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "null": lambda answer, entries: None,
    "number": lambda answer, entries: 1,
    "string": lambda answer, entries: "abc",
    "empty object": lambda answer, entries: {},
    "empty list": lambda answer, entries: [],
    "in a list": lambda answer, entries: [answer],
    "in an object": lambda answer, entries: {"answer": answer},
    "other name": lambda answer, entries: _renamed(answer),
    "entries by index": lambda answer, entries: {str(place): entry for place, entry in enumerate(entries)},
    "scores alone": lambda answer, entries: [0.5] * len(entries),
    "an error": lambda answer, entries: {"error": "overloaded", "message": "overloaded"},
    "entry of null": lambda answer, entries: _more(answer, entries, None),
    "entry of a list": lambda answer, entries: _more(answer, entries, [0, 0.5]),
}


@EVERY_DIALECT
@pytest.mark.parametrize("change", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_other_shape_is_a_bad_response(dialect: Dialect, change: Callable[[Any, list[Any]], Any]) -> None:
    """The right scores in another container, or something else beside them, are BackendBadResponse."""
    answer = dialect.right([REQUEST])
    changed = change(answer, dialect.server().entries(answer))
    if changed == [] and not dialect.api.members and not dialect.api.pairs:
        # An answer without scores is read: what is missing is for the stage to judge.
        assert read_locally(dialect, b"[]", [REQUEST]) == [{}]
    else:
        reject(dialect, orjson.dumps(changed))


@EVERY_DIALECT
@pytest.mark.parametrize("body", [b"", b" ", b"<html>", b"overloaded", b"\xff", b"[" * 5000, b"{} {}"])
def test_body_that_is_not_json_is_a_bad_response(dialect: Dialect, body: bytes) -> None:
    """An empty body or one that isn't JSON is BackendBadResponse."""
    reject(dialect, body)


@EVERY_DIALECT
def test_half_an_answer_is_a_bad_response(dialect: Dialect) -> None:
    """However much of a right answer is cut off, the rest is BackendBadResponse."""
    right = orjson.dumps(dialect.right([REQUEST]))
    for end in range(len(right) - 1, -1, -sized(3, nightly=1)):
        reject(dialect, right[:end])


def _form(dialect: Dialect) -> tuple[object, ...]:
    return dialect.api.members, dialect.api.key, dialect.api.labels


FOREIGN = [
    pytest.param(spoken, read, id=f"{name} read as {reader}")
    for name, spoken in SPOKEN.items()
    for reader, read in DIALECTS.items()
    if _form(spoken) != _form(read)
]


@pytest.mark.parametrize(("spoken", "read"), FOREIGN)
def test_another_dialects_right_answer_is_a_bad_response(spoken: Dialect, read: Dialect) -> None:
    """A server of another dialect than configured is told by its answer, never read in part."""
    reject(read, orjson.dumps(spoken.right([REQUEST])))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**65) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
PLACE = st.integers(0, 2)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("score"), PLACE, st.floats(width=32, allow_nan=False, allow_infinity=False)),
        st.tuples(st.sampled_from(["index", "score"]), PLACE, PLACE | JSON),
        st.tuples(st.sampled_from(["add", "replace", "repeat", "drop"]), PLACE, JSON),
    ),
    max_size=3,
)


def edit(entries: list[Any], kind: str, place: int, value: object) -> None:
    """Change one thing in the entries of an answer."""
    if kind == "add" or place >= len(entries):
        entries.append(value)
    elif kind == "replace":
        entries[place] = value
    elif kind == "repeat":
        entries.append(entries[place])
    elif kind == "drop":
        del entries[place]
    else:
        entry = entries[place][0] if isinstance(entries[place], list) and entries[place] else entries[place]
        if isinstance(entry, dict):
            keys = (key for key in ("relevance_score", "logit", "score") if key in entry)
            entry[next(keys, kind) if kind == "score" else kind] = value


@EVERY_DIALECT
@settings(max_examples=sized(20, nightly=1000))
@given(st.data())
def test_any_answer_is_scores_or_a_bad_response(dialect: Dialect, data: st.DataObject) -> None:
    """Whatever a server answers, it becomes finite scores of the documents that were asked for, or BackendBadResponse;
    documents are left out only where that is a verdict.
    """
    nearly = dialect.right([REQUEST])
    for change in data.draw(EDITS):
        edit(dialect.server().entries(nearly), *change)
    answer = data.draw(st.just(nearly) | JSON)
    try:
        # The standard library writes NaN, infinities and integers of any length, as servers do.
        (scores,) = read_locally(dialect, json.dumps(answer).encode(), [REQUEST])
    except BackendBadResponse:
        return
    assert isinstance(scores, dict)
    assert scores.keys() <= REQUEST.documents.keys()
    assert len(scores) == 3 or not dialect.api.pairs
    assert all(type(score) is float and math.isfinite(score) for score in scores.values())


@INDEXED
@given(st.permutations(range(3)))
def test_order_of_entries_does_not_matter(dialect: Dialect, order: list[int]) -> None:
    """Each document gets the score of its own index, in whatever order they come."""
    answer = dialect.right([REQUEST])
    entries = dialect.server().entries(answer)
    entries[:] = [entries[place] for place in order]
    assert read_locally(dialect, orjson.dumps(answer), [REQUEST]) == [right_scores(REQUEST)]

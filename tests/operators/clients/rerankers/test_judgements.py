"""The form of a cross-encoder's JSON that becomes scores."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers.cross_encoders import APIS, read_scores
from schemas.errors import BackendBadResponse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
NEARLY = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"index": st.integers(-1, 4) | JSON, "score": st.floats() | st.integers() | JSON, "document": JSON},
    ),
    max_size=5,
)
LIST = APIS["tei"]
"""An API whose answer is the list alone."""

SCORE = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-(2**63), 2**64 - 1)


@given(JSON | NEARLY, st.integers(1, 4))
def test_any_json_is_scores_or_a_bad_response(entries: object, count: int) -> None:
    """Whatever the entries are, they become finite scores of known documents or raise BackendBadResponse."""
    try:
        scores = read_scores(LIST, entries, count, backend="backend")
    except BackendBadResponse:
        return
    assert isinstance(entries, list)
    assert len(scores) == len(entries)
    for index, score in scores.items():
        assert 0 <= index < count
        assert math.isfinite(score)


@given(st.lists(SCORE, min_size=1, max_size=40), st.randoms(use_true_random=False), st.data())
def test_any_selection_in_any_order_is_read_right(scores: list[float], random: Any, data: st.DataObject) -> None:
    """Each document of the answer gets its own score, in whatever order they come and whichever are left out."""
    kept = data.draw(st.sets(st.integers(0, len(scores) - 1)))
    entries = [{"index": index, "relevance_score": scores[index], "document": None} for index in kept]
    random.shuffle(entries)
    found = read_scores(APIS["cohere"], {"results": entries}, len(scores), backend="backend")
    assert found == {index: float(scores[index]) for index in kept}


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, None, "0.5", True, False, [0.5], {}, 10**400])
def test_score_that_is_not_a_finite_number_rejects_all(score: object) -> None:
    """One score that isn't a finite number rejects the whole list."""
    entries = [{"index": 0, "score": 0.5}, {"index": 1, "score": score}]
    with pytest.raises(BackendBadResponse, match="finite"):
        read_scores(LIST, entries, 2, backend="backend")


@pytest.mark.parametrize("index", [-1, 2, 0, True, 1.0, "1", None, 10**400])
def test_index_that_was_not_asked_for_rejects_all(index: object) -> None:
    """An index out of range, negative, repeated or not an integer rejects the whole list."""
    entries = [{"index": 0, "score": 0.5}, {"index": index, "score": 0.5}]
    with pytest.raises(BackendBadResponse, match="index"):
        read_scores(LIST, entries, 2, backend="backend")


@pytest.mark.parametrize(
    "entries", [None, {}, "ab", 1, [None], [[0, 0.5]], [{"index": 0}], [{"score": 0.5}], [{"index": 0, "s": 1}]]
)
def test_other_shapes_are_a_bad_response(entries: object) -> None:
    """An answer that isn't a list of entries with both fields is BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        read_scores(LIST, entries, 2, backend="backend")


def test_full_judgements_leave_nothing_out() -> None:
    """Of the texts of several queries all have a score, or the answer is none: a missing one may be anybody's."""
    entries = [{"index": 1, "score": 0.5}, {"index": 0, "score": 2}]
    assert read_scores(APIS["vllm_score"], {"data": entries}, 2, backend="backend") == {0: 2.0, 1: 0.5}
    with pytest.raises(BackendBadResponse, match="2 scores for 3"):
        read_scores(APIS["vllm_score"], {"data": entries}, 3, backend="backend")
    assert read_scores(APIS["tei"], entries, 3, backend="backend") == {0: 2.0, 1: 0.5}


@pytest.mark.parametrize("answer", [[1], None, "output", {"output": []}, {"results": []}, {"output": {"data": []}}])
def test_only_objects_lead_to_the_list(answer: object) -> None:
    """The list of an answer is found by the names of the API alone."""
    with pytest.raises(BackendBadResponse, match="not a list"):
        read_scores(APIS["dashscope"], answer, 1, backend="backend")

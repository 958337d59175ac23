"""What an embedder's JSON must be to become unit vectors."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.embedders.bi_encoders import unit_embeddings
from schemas.errors import BackendBadResponse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1)


@given(st.lists(st.lists(JSON, max_size=4) | JSON, max_size=4), st.integers(1, 4))
def test_any_json_is_vectors_or_a_bad_response(rows: list[Any], dimension: int) -> None:
    """Whatever the rows are, they become unit vectors of one dimension or raise BackendBadResponse."""
    try:
        embeddings = unit_embeddings(rows, dimension, backend="backend")
    except BackendBadResponse:
        return
    assert len(embeddings) == len(rows)
    for row, embedding in zip(rows, embeddings, strict=True):
        assert {type(value) for value in row} <= {int, float}
        assert embedding.vector.shape == (dimension,)
        assert math.isclose(np.linalg.norm(embedding.vector.astype(float)), 1, abs_tol=1e-5)


@given(st.integers(1, 5).flatmap(lambda size: st.lists(st.lists(NUMBER, min_size=size, max_size=size), min_size=1)))
def test_numbers_keep_their_direction(rows: list[list[float]]) -> None:
    """Finite vectors of one dimension, of any length but zero, come out in order with their direction."""
    rows = [row if any(row) else [1, *row[1:]] for row in rows]
    for row, embedding in zip(rows, unit_embeddings(rows, len(rows[0]), backend="backend"), strict=True):
        assert embedding.vector.dtype == np.float32
        peak = max(map(abs, row))
        scaled = [value / peak for value in row]
        length = math.hypot(*scaled)
        assert np.allclose(embedding.vector, [value / length for value in scaled], atol=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, True]],
        [[1.0, None]],
        [[1.0, "2"]],
        [[1.0, [2.0]]],
        [[1.0, math.nan]],
        [[1.0, math.inf]],
        [[10**400, 1]],
        [[]],
        [[1.0, 0.0], [1.0]],
        ["ab"],
        [{"0": 1.0}],
        [None],
    ],
)
def test_wrong_vectors_are_a_bad_response(rows: list[Any]) -> None:
    """One thing wrong in one vector rejects all, beside a vector that is right."""
    for beside in ([], [[0.6, 0.8]]):
        with pytest.raises(BackendBadResponse):
            unit_embeddings([*beside, *rows], 2, backend="backend")


@pytest.mark.parametrize("dimension", [1, 3])
def test_other_dimension_is_a_bad_response(dimension: int) -> None:
    """Vectors of another dimension than the one expected are BackendBadResponse."""
    with pytest.raises(BackendBadResponse, match=f"than {dimension}"):
        unit_embeddings([[0.6, 0.8]], dimension, backend="backend")


def test_vectors_own_their_memory() -> None:
    """A vector kept in a cache doesn't keep its batch."""
    first, second = unit_embeddings([[0.6, 0.8], [1.0, 0.0]], 2, backend="backend")
    assert first.vector.base is None
    assert second.vector.base is None


def test_a_vector_of_zeros_is_none() -> None:
    """A text without a direction is one that the server cannot digest: its call is divided."""
    for zeros in ([0.0, 0.0], [0, -0.0]):
        with pytest.raises(BackendBadResponse, match="a vector of zeros"):
            unit_embeddings([[0.0, 2.0], zeros, [1e-300, 0.0]], 2, backend="backend")

"""The model against outputs of the reference implementation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operators.clients.local.minilm import SHA256, MiniLM

pytestmark = pytest.mark.weights

GOLDEN = json.loads((Path(__file__).parents[4] / "data" / "minilm_golden.json").read_text())
CLS, SEP = 101, 102
CASES = [case for case in GOLDEN["cases"] if case["input_ids"] != [CLS, SEP]]
"""The reference takes the special tokens' mean for the vector of a text without any other."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:20])
def test_one_text_is_embedded_as_the_reference_does(minilm: MiniLM, case: dict[str, Any]) -> None:
    """Token ids are the reference's, and the vector to 1e-4."""
    (found,) = minilm.encode([case["text"]])
    assert [CLS, *found.token_ids, SEP] == case["input_ids"]
    np.testing.assert_allclose(found.vector, case["embedding"], atol=1e-4)


def test_texts_of_all_lengths_are_embedded_together_as_they_are_alone(minilm: MiniLM) -> None:
    """Neither padding nor the company of other texts changes a vector, and the texts' order is kept."""
    cases = CASES * 3
    found = minilm.encode([case["text"] for case in cases])
    for case, embedding in zip(cases, found, strict=True):
        np.testing.assert_allclose(embedding.vector, case["embedding"], atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:20])
def test_with_8_bits_a_vector_points_where_the_references_does(int8: MiniLM, case: dict[str, Any]) -> None:
    """The cosine to the reference's vector is above .98, and the token ids are the same."""
    (found,) = int8.encode([case["text"]])
    assert [CLS, *found.token_ids, SEP] == case["input_ids"]
    assert float(found.vector @ np.array(case["embedding"])) > 0.98


def test_with_8_bits_a_vector_depends_on_its_text_alone(int8: MiniLM) -> None:
    """Whatever other texts a call has, a text's vectors are the same bit for bit."""
    texts = [case["text"] for case in CASES]
    for text, together in zip(texts, int8.encode(texts, "document"), strict=True):
        (alone,) = int8.encode([text])
        assert np.array_equal(alone.vector, together.vector)
        assert alone.tokens is not None
        assert together.tokens is not None
        assert np.array_equal(alone.tokens, together.tokens)


def test_the_weights_are_those_of_the_reference() -> None:
    """The published file that the project checks for is the one that the reference ran."""
    assert GOLDEN["safetensors_sha256"] == SHA256

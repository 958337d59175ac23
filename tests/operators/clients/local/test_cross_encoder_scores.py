"""The cross-encoder's scores against BERT written down a second time, in numpy, one pair at a time without padding."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import random_bert
from bench.random_bert import Tensors
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.rerankers import RerankRequest

WORDS = random_bert.words(500)
IDS = {word: index for index, word in enumerate(WORDS, start=len(random_bert.SPECIAL))}
CLS, SEP = 2, 3
Matrix = NDArray[np.float64]

erf = np.vectorize(math.erf, otypes=[float])


def logit(tensors: Tensors, heads: int, query: str, text: str) -> float:
    """The published equations: embeddings, layers, tanh over the first token, classifier; exact GELU; in float64."""
    left = [CLS, *(IDS[word] for word in query.split()), SEP]
    right = [*(IDS[word] for word in text.split()), SEP]

    def dense(name: str, value: Matrix) -> Matrix:
        product: Matrix = value @ tensors[f"{name}.weight"].T.astype(float) + tensors[f"{name}.bias"]
        return product

    def norm(name: str, value: Matrix) -> Matrix:
        mean, variance = value.mean(axis=-1, keepdims=True), value.var(axis=-1, keepdims=True)
        scaled: Matrix = (value - mean) / np.sqrt(variance + 1e-12)
        shifted: Matrix = scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        return shifted

    state = tensors["embeddings.word_embeddings.weight"][left + right].astype(float)
    state += tensors["embeddings.position_embeddings.weight"][: len(state)]
    if "embeddings.token_type_embeddings.weight" in tensors:
        state += tensors["embeddings.token_type_embeddings.weight"][[0] * len(left) + [1] * len(right)]
    state = norm("embeddings.LayerNorm", state)
    layers = {int(name.split(".")[2]) for name in tensors if name.startswith("encoder.")}
    for name in (f"encoder.layer.{index}" for index in sorted(layers)):
        query_, key, value = (
            np.split(dense(f"{name}.attention.self.{part}", state), heads, axis=1) for part in ("query", "key", "value")
        )
        context = []
        for head in range(heads):
            weights = np.exp(query_[head] @ key[head].T / math.sqrt(query_[head].shape[1]))
            context.append(weights / weights.sum(axis=1, keepdims=True) @ value[head])
        attended = dense(f"{name}.attention.output.dense", np.concatenate(context, axis=1))
        state = norm(f"{name}.attention.output.LayerNorm", state + attended)
        wide = dense(f"{name}.intermediate.dense", state)
        active = wide * (1 + erf(wide / math.sqrt(2))) / 2
        state = norm(f"{name}.output.LayerNorm", state + dense(f"{name}.output.dense", active))
    pooled = np.tanh(dense("pooler.dense", state[0]))
    return float(dense("classifier", pooled).item())


def ragged(random: np.random.Generator, queries: int, documents: int, longest: int) -> list[RerankRequest]:
    """Requests with texts of 0 to `longest` words."""

    def text() -> str:
        return " ".join(random.choice(WORDS, random.integers(0, longest, endpoint=True)))

    return [
        RerankRequest(text(), {f"{index}-{n}": text() for n in range(documents)}, "docs", "space")
        for index in range(queries)
    ]


def scored(encoder: CrossEncoder, requests: Sequence[RerankRequest]) -> list[dict[str, float]]:
    """The scores of requests that all succeed."""
    found = []
    for outcome in asyncio.run(encoder.score(requests, timeout=60)):
        assert isinstance(outcome, dict)
        found.append(outcome)
    return found


@pytest.mark.parametrize("token_types", [True, False], ids=["types", "no-types"])
@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "seed"), [(1, 8, 1, 1), (2, 32, 2, 2), (3, 48, 12, 3), (6, 24, 4, 4)]
)
def test_scores_are_those_of_the_equations(
    tmp_path: Path, layers: int, hidden: int, heads: int, seed: int, token_types: bool
) -> None:
    """Every logit equals numpy's to 1e-4, for any shape, with and without token types, empty texts among others."""
    tensors = random_bert.write(tmp_path, layers=layers, hidden=hidden, heads=heads, seed=seed, token_types=token_types)
    requests = ragged(np.random.default_rng(seed), queries=4, documents=6, longest=40)
    requests.append(RerankRequest("", {"empty": "", "short": WORDS[0]}, "docs", "space"))
    for request, found in zip(requests, scored(CrossEncoder(tmp_path), requests), strict=True):
        expected = {point: logit(tensors, heads, request.query, text) for point, text in request.documents.items()}
        assert found == pytest.approx(expected, abs=1e-4)
        assert list(found) == list(request.documents)


def test_a_score_is_the_same_alone_and_in_any_company(tmp_path: Path) -> None:
    """Scored with others, padded to their length, in another order or alone: the same to 1e-5."""
    random_bert.write(tmp_path, layers=3, hidden=48, heads=4, positions=128)
    encoder = CrossEncoder(tmp_path)
    requests = ragged(np.random.default_rng(5), queries=5, documents=8, longest=50)
    together = scored(encoder, requests)
    backwards = scored(encoder, requests[::-1])[::-1]
    assert len({round(score, 4) for scores in together for score in scores.values()}) > 30
    for request, found, again in zip(requests, together, backwards, strict=True):
        assert again == pytest.approx(found, abs=1e-5)
        for point in request.documents:
            (alone,) = scored(encoder, [replace(request, documents={point: request.documents[point]})])
            assert alone[point] == pytest.approx(found[point], abs=1e-5)


def test_a_long_document_is_cut_and_a_query_of_half_the_length_is_not(tmp_path: Path) -> None:
    """Of 16 tokens three are special and six the query's, which keeps them all; the document keeps seven."""
    tensors = random_bert.write(tmp_path, positions=16)
    encoder = CrossEncoder(tmp_path)
    query, text = " ".join(WORDS[:6]), " ".join(WORDS[20:60])
    (found,) = scored(encoder, [RerankRequest(query, {"long": text}, "docs", "space")])
    assert found["long"] == pytest.approx(logit(tensors, 2, query, " ".join(WORDS[20:27])), abs=1e-4)


def test_a_query_that_leaves_no_room_is_cut_to_half(tmp_path: Path) -> None:
    """Two texts too long for each other share the 13 tokens there are; a short document is never cut for the query."""
    tensors = random_bert.write(tmp_path, positions=16)
    encoder = CrossEncoder(tmp_path)
    query, text = " ".join(WORDS[:30]), " ".join(WORDS[100:140])
    requests = [RerankRequest(query, {"long": text, "short": " ".join(WORDS[100:102])}, "docs", "space")]
    (found,) = scored(encoder, requests)
    to_float16 = [logit(tensors, 2, " ".join(WORDS[:n]), " ".join(WORDS[100 : 100 + 13 - n])) for n in (6, 7)]
    assert any(found["long"] == pytest.approx(half, abs=1e-4) for half in to_float16)
    assert found["short"] == pytest.approx(logit(tensors, 2, " ".join(WORDS[:11]), " ".join(WORDS[100:102])), abs=1e-4)


def test_case_and_broken_characters_are_read_as_the_tokenizer_reads_them(tmp_path: Path) -> None:
    """A lone surrogate reads as a question mark, here an unknown word, and spoils no other text's score."""
    tensors = random_bert.write(tmp_path)
    encoder = CrossEncoder(tmp_path)
    texts = {"broken": f"{WORDS[0]} \ud83d", "mended": f"{WORDS[0].upper()} ?", "other": WORDS[1]}
    (found,) = scored(encoder, [RerankRequest(WORDS[2], texts, "docs", "space")])
    assert found["broken"] == pytest.approx(found["mended"], abs=1e-5)
    assert found["other"] == pytest.approx(logit(tensors, 2, WORDS[2], WORDS[1]), abs=1e-4)

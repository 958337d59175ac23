"""The cross-encoder as a reranker: shared passes, failures, time-outs, closing."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tokenizers import Tokenizer

from bench import random_bert
from operators.clients.local import inference
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.rerankers import Capacity, Reranker, RerankRequest
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable

WORDS = random_bert.words(300)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small model's directory."""
    random_bert.write(tmp_path / "small-bert")
    return tmp_path / "small-bert"


def request(number: int, documents: int = 3, words: int = 4) -> RerankRequest:
    """A query with documents of this many words, its own points and its own namespace."""
    texts = {f"{number}-{each}": " ".join(WORDS[number + each :][:words]) for each in range(documents)}
    return RerankRequest(WORDS[number], texts, "docs", f"space-{number}")


def score(encoder: CrossEncoder, requests: Sequence[RerankRequest]) -> list[Scores | BackendError]:
    """Score in a loop of its own."""
    return asyncio.run(encoder.score(requests, timeout=60))


class Passes:
    """The batches of the encoder's forward passes; each waits at the gate, which stands open until it is shut."""

    def __init__(self, encoder: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        forward = encoder._exported.forward

        def watched(pairs: Sequence[Any]) -> Any:
            self.shapes.append((len(pairs), max(len(pair.ids) for pair in pairs)))
            self.begun.set()
            assert self.gate.wait(10)
            return forward(pairs)

        monkeypatch.setattr(encoder._exported, "forward", watched)

    async def beginning(self) -> None:
        """Wait until one has begun."""
        assert await asyncio.to_thread(self.begun.wait, 10)


def test_it_is_a_reranker_of_texts_named_after_its_directory(directory: Path) -> None:
    """It needs no vectors, and a call takes any queries of any namespaces up to its number of documents."""
    reranker: Reranker = CrossEncoder(directory, cores=inference.Cores(1), documents=64)
    assert (reranker.reads, reranker.model) == ("text", "small-bert")
    assert reranker.capacity == Capacity(queries=64, documents=64)
    (directory / "onnx").mkdir()
    assert CrossEncoder(directory / "onnx" / "..").model == "small-bert"


def test_outcomes_are_the_requests_own_in_their_order(directory: Path) -> None:
    """Each request has its documents scored as it has when it is the only one."""
    encoder = CrossEncoder(directory)
    requests = [request(number, documents=1 + number, words=1 + 3 * number) for number in (4, 1, 3, 0, 2)]
    together = score(encoder, requests)
    for each, found in zip(requests, together, strict=True):
        (alone,) = score(encoder, [each])
        assert isinstance(found, dict)
        assert isinstance(alone, dict)
        assert list(found) == list(each.documents)
        assert found == pytest.approx(alone, abs=1e-5)


def test_nothing_is_scored_as_nothing(directory: Path) -> None:
    """No requests have no outcomes, and a request without documents has no scores."""
    encoder = CrossEncoder(directory)
    empty = RerankRequest("words", {}, "docs", "space")
    assert score(encoder, []) == []
    assert score(encoder, [empty]) == [{}]
    first, second = score(encoder, [empty, request(1)])
    assert first == {}
    assert isinstance(second, dict)
    assert len(second) == 3


def test_queries_share_passes_within_the_budget(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pairs of many queries are one pass; long ones are cut into passes of the budget, longest first."""
    encoder = CrossEncoder(directory, cores=inference.Cores(1))
    passes = Passes(encoder, monkeypatch)
    score(encoder, [request(number) for number in range(8)])
    assert passes.shapes == [(24, 8)]
    passes.shapes.clear()
    score(encoder, [request(number, documents=4, words=5 * number) for number in range(12)])
    assert sum(pairs for pairs, _ in passes.shapes) == 48
    assert all(pairs * longest <= inference.TOKEN_BUDGET for pairs, longest in passes.shapes)
    assert [longest for _, longest in passes.shapes] == sorted((longest for _, longest in passes.shapes), reverse=True)


def test_cores_run_passes_side_by_side(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pairs are cut into a pass a core, which are under way together; what they score is what one core scores."""
    encoder = CrossEncoder(directory, cores=inference.Cores(2))
    passes = Passes(encoder, monkeypatch)
    asked = [request(number) for number in range(8)]
    together = score(encoder, asked)
    assert passes.shapes == [(12, 8), (12, 8)]
    for found, alone in zip(together, score(CrossEncoder(directory, cores=inference.Cores(1)), asked), strict=True):
        assert found == pytest.approx(alone, abs=1e-5)


def replace_weight(directory: Path, name: str, row: int, value: float) -> None:
    """Write a value into one row of a weight."""
    model = onnx.load(directory / "model.onnx")
    (found,) = (each for each in model.graph.initializer if each.name == name)
    weight = numpy_helper.to_array(found).copy()
    weight[row] = value
    found.CopyFrom(numpy_helper.from_array(weight, name))
    onnx.save(model, directory / "model.onnx")


def test_a_score_that_is_no_number_fails_its_request_alone(directory: Path) -> None:
    """A NaN fails the request that it is in, and what shared its pass is scored."""
    replace_weight(directory, "embeddings.word_embeddings.weight", len(random_bert.SPECIAL) + 200, np.nan)
    encoder = CrossEncoder(directory)
    bad = RerankRequest(WORDS[0], {"fine": WORDS[1], "poison": WORDS[200]}, "docs", "space")
    before, failed, after = score(encoder, [request(1), bad, request(2)])
    assert isinstance(failed, BackendBadResponse)
    assert str(failed) == "reranker: a score that is not a finite number"
    assert score(encoder, [request(1), request(2)]) == [pytest.approx(before), pytest.approx(after)]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_score_is_a_bad_response(directory: Path, value: float) -> None:
    """An infinity would make every other score of its query the same, so it is refused."""
    replace_weight(directory, "classifier.bias", 0, value)
    assert [type(outcome) for outcome in score(CrossEncoder(directory), [request(1)])] == [BackendBadResponse]


def test_a_pass_that_fails_fails_those_in_it(directory: Path) -> None:
    """A token that the graph doesn't know fails the requests in its pass; others are scored; no text is quoted."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.add_tokens(["outsider"])
    tokenizer.save(str(directory / "tokenizer.json"))
    encoder = CrossEncoder(directory)
    bad = RerankRequest("outsider", {"a": WORDS[1], "long": " ".join(WORDS[:250])}, "docs", "space")
    apart = request(3, documents=1, words=250)
    failed, company, fine = score(encoder, [bad, request(1), apart])
    assert isinstance(failed, BackendBadResponse)
    assert isinstance(company, BackendBadResponse)
    assert str(failed) == "reranker: a forward pass failed: InvalidArgument"
    assert [fine] == [pytest.approx(found) for found in score(encoder, [apart])]


async def test_a_timeout_stops_between_two_passes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call out of time ends with the pass under way, so that the next call needn't wait for its rest."""
    encoder = CrossEncoder(directory, cores=inference.Cores(1))
    passes = Passes(encoder, monkeypatch)
    passes.gate.clear()
    with pytest.raises(BackendTimeout):
        await encoder.score([request(0, documents=20, words=100)], timeout=0.2)
    passes.gate.set()
    (found,) = await encoder.score([request(1)], timeout=60)
    assert isinstance(found, dict)
    await encoder.aclose()
    # A slow machine may not have come to the first pass by then.
    assert passes.shapes in ([(2, 104), (3, 8)], [(3, 8)])


async def test_a_cancelled_call_stops_between_two_passes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one that is cancelled."""
    encoder = CrossEncoder(directory, cores=inference.Cores(1))
    passes = Passes(encoder, monkeypatch)
    passes.gate.clear()
    call = asyncio.create_task(encoder.score([request(0, documents=20, words=100)], timeout=60))
    await passes.beginning()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    passes.gate.set()
    await encoder.score([request(1)], timeout=60)
    await encoder.aclose()
    assert passes.shapes == [(2, 104), (3, 8)]


async def test_a_closed_cross_encoder_is_unavailable(directory: Path) -> None:
    """After `aclose` a call fails as a backend does."""
    encoder = CrossEncoder(directory, cores=inference.Cores(1))
    await encoder.score([request(1)], timeout=60)
    await encoder.aclose()
    with pytest.raises(BackendUnavailable):
        await encoder.score([request(1)], timeout=60)

"""The attributes of a reranker's span, as OpenInference names them."""

import pytest

from operators.query.outcome import Outcome, Results
from operators.ranking.candidate import Candidate
from operators.ranking.run import ModelScores
from operators.telemetry.traces import RERANKED, reranker_attributes
from tests.operators.recorded import Recorded


def outcome(count: int, *, scored: bool = True) -> Outcome:
    """Candidates d0, d1, ..., of which the model likes the last one best."""
    candidates = [Candidate(f"d{place}", 1.0 - place / count) for place in range(count)]
    scores = {candidate.id: float(place) for place, candidate in enumerate(candidates)}
    return Outcome(
        results=Results(candidates), rerank_scores=ModelScores(scores, count, model="minilm") if scored else None
    )


def test_the_first_documents_in_and_the_best_out_are_named() -> None:
    """By id and score, each list in its own order."""
    told = reranker_attributes("minilm", 3, outcome(3))
    assert told == {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": "minilm",
        "reranker.top_k": 3,
        "reranker.input_documents.0.document.id": "d0",
        "reranker.input_documents.0.document.score": 1.0,
        "reranker.input_documents.1.document.id": "d1",
        "reranker.input_documents.1.document.score": pytest.approx(2 / 3),
        "reranker.input_documents.2.document.id": "d2",
        "reranker.input_documents.2.document.score": pytest.approx(1 / 3),
        "reranker.output_documents.0.document.id": "d2",
        "reranker.output_documents.0.document.score": 2.0,
        "reranker.output_documents.1.document.id": "d1",
        "reranker.output_documents.1.document.score": 1.0,
        "reranker.output_documents.2.document.id": "d0",
        "reranker.output_documents.2.document.score": 0.0,
    }


def test_a_reranker_that_failed_has_no_output() -> None:
    """The documents that it was asked about are named all the same."""
    told = reranker_attributes("minilm", 3, outcome(3, scored=False))
    assert not any(name.startswith("reranker.output_documents") for name in told)
    assert told["reranker.input_documents.2.document.id"] == "d2"


def test_a_span_holds_all_that_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    """However many candidates are read, no attribute is dropped, the model's name neither, and nothing is logged."""
    recorded = Recorded()
    attributes = reranker_attributes("minilm", 200, outcome(200))
    recorded.trace().child("rerank", 0.0, {"gen_ai.request.model": "minilm", **attributes})
    kept = recorded.spans["rerank"].attributes
    assert kept == {"gen_ai.request.model": "minilm", **attributes}
    assert sum(name.endswith(".id") for name in kept) == 2 * RERANKED
    assert caplog.messages == []

"""OpenInference's attributes of RERANKER spans, so that tools for language models show what a reranker did.

Source: the OpenInference semantic conventions, `spec/reranker.md` of Arize-ai/openinference. Documents are named by id
and score; texts are in no attribute.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from operators.query.outcome import Outcome

DOCUMENTS: Final = 10
"""How many documents are named, of those that went in and of those that came out. A span holds 128 attributes unless it
is configured otherwise: each one more drops the oldest, and each costs some microseconds.
"""


def reranker(model: str, top: int, outcome: Outcome) -> dict[str, str | int | float]:
    """The attributes of a reranker that read the first `top` candidates: names the first of these, and its best."""
    read = outcome.candidates[:top]
    scores = outcome.rerank_scores.scores if outcome.rerank_scores is not None else {}
    ordered = sorted(scores.items(), key=lambda each: -each[1])
    return {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": model,
        "reranker.top_k": top,
        **_documents("reranker.input_documents", ((each.id, each.score) for each in read)),
        **_documents("reranker.output_documents", ordered),
    }


def _documents(prefix: str, documents: Iterable[tuple[str, float]]) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for place, (id_, score) in enumerate(islice(documents, DOCUMENTS)):
        found[f"{prefix}.{place}.document.id"] = id_
        found[f"{prefix}.{place}.document.score"] = score
    return found

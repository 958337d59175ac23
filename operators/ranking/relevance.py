"""The stage `rerank`: a model's scores, merged into the order before them."""

from operators.ranking.candidate import Candidate, best_first_by_id
from operators.ranking.distance import pick
from operators.ranking.head import follow, rescaled
from operators.ranking.run import Run
from schemas.recipes.stages import Rerank


def rerank(candidates: list[Candidate], stage: Rerank, run: Run) -> list[Candidate]:
    """Put the reranked candidates first, by weight * model score + (1 - weight) * score, both min-max over them.

    A candidate that the model left out is dropped, and with it the tail, which no model has read. Otherwise the tail
    follows in its order, with min-max scores minus 1, so that scores never rise with rank. Candidates with equal scores
    go by the document's id. A model that selects moves one candidate to the front. Without a model nothing changes.
    Source: own; that what a reranker leaves out is dropped is the contract of memini's `rerank.Reranker`.
    """
    if run.model is None:
        return candidates
    if run.model.selects:
        return pick(candidates, run.model, stage, run)
    scores, top, _ = run.model
    read = [candidate for candidate in candidates[:top] if candidate.id in scores]
    tail = candidates[top:] if len(read) == len(candidates[:top]) else []
    relevance, of_relevance = rescaled([scores[candidate.id] for candidate in read])
    order, of_order = rescaled([candidate.score for candidate in read])
    before = [candidate.score for candidate in read]
    for candidate, new, old in zip(read, relevance, order, strict=True):
        candidate.score = stage.weight * new + (1 - stage.weight) * old
    columns = {"score": (scores[candidate.id] for candidate in read), "relevance": relevance, "order": order}
    run.explain(stage, read, before, columns, {"top": top}, {"relevance_scale": of_relevance, "order_scale": of_order})
    follow(tail, stage, run, {"top": top})
    run.reranked = True
    return best_first_by_id(read) + tail

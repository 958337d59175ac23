"""Linear fusion: an absolute similarity, which means the same for every query."""

from collections.abc import Sequence

from operators.ranking.candidate import Candidate, Leg, best_first, in_order, union
from operators.ranking.fusion import cut
from operators.ranking.run import Run
from schemas.leg import KEYWORD, VECTOR
from schemas.recipes.fusion import Linear


def linear(legs: Sequence[Leg], stage: Linear, run: Run) -> list[Candidate]:
    """alpha * cosine + (1 - alpha) * BM25 / the greatest BM25, at most 1; a leg that did not answer leaves all weight
    to the other.

    A candidate that the vector leg did not return counts its bound, one that the keyword leg did not return counts 0.
    Source: MemPalace's `reranker.rerank`, which works on the distance that a search returned; the similarity is our
    own.
    """
    found = in_order(legs)
    by_name = {leg.name: leg for leg in found}
    vector, keyword = by_name.get(VECTOR), by_name.get(KEYWORD)
    alpha = 0.0 if vector is None else 1.0 if keyword is None else stage.alpha
    weights = {VECTOR: alpha, KEYWORD: 1 - alpha if keyword is not None else 0.0}
    cosines = vector.scored() if vector is not None else {}
    bm25 = keyword.scored() if keyword is not None else {}
    least = bound(vector) if vector is not None else 0.0
    greatest = max(bm25.values(), default=0.0)
    candidates = [Candidate(id_, 0.0, payload) for id_, payload in union(found).items()]
    similar = [max(0.0, cosines.get(candidate.id, least)) for candidate in candidates]
    matching = [bm25.get(candidate.id, 0.0) / greatest if greatest > 0 else 0.0 for candidate in candidates]
    for candidate, cosine, share in zip(candidates, similar, matching, strict=True):
        candidate.score = min(1.0, weights[VECTOR] * cosine + weights[KEYWORD] * share)
    if run.explanations is not None:
        columns = {VECTOR: similar, KEYWORD: matching}
        for leg in found:
            weight, column = weights.get(leg.name, 0.0), columns.get(leg.name, [0.0] * len(candidates))
            noted = {
                candidate.id: {"normalised": value, "weight": weight, "contribution": weight * value}
                for candidate, value in zip(candidates, column, strict=True)
            }
            run.explanations.leg(leg, noted)
    shared = {"weights": weights, "bound": least, "greatest": greatest}
    run.explain(stage, candidates, None, {"cosine": similar, "keyword": matching}, shared)
    return cut(best_first(candidates), stage.limit)


def bound(vector: Leg) -> float:
    """The greatest cosine of a document that the vector leg did not return: its smallest, at least 0; 0 if it is empty.

    Source: own.
    """
    return max(0.0, min(vector.scored().values(), default=0.0))

"""Graph: neighbours that match the query raise a candidate's score. Pure.

Only a neighbour's semantic value counts, so that documents with many edges don't raise each other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from operators.ranking.candidate import Candidate
from operators.ranking.run import number

_HEAVIEST: Final = 1e6


def edges(payload: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The payload's edges as (neighbour, weight); other entries are skipped, and a missing weight is 1."""
    listed = payload.get("edges")
    if not isinstance(listed, list):
        return []
    found = []
    for edge in listed:
        if isinstance(edge, dict) and isinstance(to := edge.get("to"), str):
            weight = number(edge.get("weight", 1.0), 0.0, _HEAVIEST)
            if weight is not None:
                found.append((to, weight))
    return found


def boosts(candidates: Sequence[Candidate], semantic: Sequence[float], decay: float, most: int) -> list[float]:
    """Each candidate's sum of edge weight * its neighbour's semantic value * `decay`, over its heaviest edges.

    A candidate's edges are its own and those of other candidates to it; loops don't count. At most `most` count, ties
    by the neighbour's id; an edge to a document that is no candidate is one of them and adds nothing.
    Source: the graph signal of engrava's `search_hybrid`.
    """
    documents = [candidate.document for candidate in candidates]
    value = dict(zip(reversed(documents), reversed(semantic), strict=True))
    neighbours: dict[str, list[tuple[float, str]]] = {document: [] for document in documents}
    for candidate, document in zip(candidates, documents, strict=True):
        for to, weight in edges(candidate.payload):
            if to == document:
                continue
            neighbours[document].append((-weight, to))
            if to in neighbours:
                neighbours[to].append((-weight, document))
    gained = {}
    for document, found in neighbours.items():
        found.sort()
        gained[document] = sum(-weight * value.get(to, 0.0) * decay for weight, to in found[:most])
    return [gained[document] for document in documents]

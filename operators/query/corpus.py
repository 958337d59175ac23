"""The documents over which the rarity of a search's terms is counted, where Qdrant's own count isn't to be used."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

NOTHING: Final[Mapping[str, Any]] = {"must": [{"has_id": []}]}
"""The filter that no document matches: over no documents, Qdrant's IDF of every term is ln 2."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents that `where` matches, None is all.

    `watermark` is how far they are indexed, None if that isn't known.
    """

    where: Mapping[str, Any] | None
    watermark: tuple[str, ...] | None


def weighed(body: Mapping[str, Any], rarity: Sequence[float]) -> Mapping[str, Any]:
    """A search by terms with each weighed by its rarity, and not by Qdrant's count of it."""
    terms = body["query"]
    # Qdrant's factor can't be left out; over no documents it is the same for all terms, and is divided out.
    values = [value * each / math.log(2) for value, each in zip(terms["values"], rarity, strict=True)]
    return {**body, "query": {**terms, "values": values}, "params": {"idf": {"corpus": NOTHING}}}


def rarity(documents: int, frequency: int) -> float:
    """BM25's ln(1 + (N - df + 0.5) / (df + 0.5)), always positive. Source: the IDF of BM25 in Qdrant."""
    # Documents written between two counts are in one of them only.
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))

"""MaxSim, the formula of late interaction: one for documents whose token vectors Qdrant keeps and for all others.

score = sum over the query's tokens of weight * best dot product with a token of the document, divided by the sum of the
weights. Both sides are rounded as Qdrant rounds them, which computes the sum of stored documents itself.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

DECIMALS: Final = 4
"""Of token vectors as they are sent: a rounding below what 16 bits can tell, at half the bytes."""


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """A query's token vectors, as long as their weights and rounded to DECIMALS."""

    tokens: NDArray[np.float32]

    @classmethod
    def of(cls, tokens: NDArray[np.float32], weights: NDArray[np.float32]) -> Self:
        """The query of these unit vectors, at least one, and of one positive weight each."""
        # Of mean 1: only their ratios count, and the vectors of a query of everyday tokens alone would round to zero.
        lengths = weights / weights.mean(dtype=np.float64)
        return cls(np.round(tokens * lengths[:, None], DECIMALS).astype(np.float32))

    @property
    def total(self) -> float:
        """The sum of the weights, by which a sum of best dot products becomes a score."""
        return float(len(self.tokens))

    def score(self, document: NDArray[np.float16]) -> float:
        """The score of a document with these token vectors, -1 to 1; 0, as of unrelated ones, if it has none.

        Source: ColBERT's MaxSim (Khattab and Zaharia 2020); weights, and the division by their sum, are our own.
        """
        if not len(document):
            return 0.0
        products = self.tokens.astype(np.float16).astype(np.float32) @ document.astype(np.float32).T
        return float(products.max(axis=1).sum(dtype=np.float64)) / self.total


def to_float16(tokens: NDArray[np.float32]) -> NDArray[np.float16]:
    """A document's token vectors with the 16 bits a component that the index would keep of them."""
    return np.round(tokens, DECIMALS).astype(np.float16)

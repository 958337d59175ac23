"""The keyword leg's terms: texts as sparse vectors, the same that a Qdrant server makes with its `qdrant/bm25`."""

from dataclasses import dataclass

import qdrant_edge

from operators.query.terms import SparseVector
from schemas.errors import ConfigError

NO_LANGUAGE = "none"


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """What an index's terms were made with, and its queries' must be.

    `k` is the saturation of term frequency, `b` the share of length normalisation (0 to 1), `avg_len` the expected
    length of a document in terms. `language` chooses stemmer and stop words; "none" has neither.
    """

    k: float = 1.2
    b: float = 0.75
    avg_len: float = 256.0
    language: str = "english"


class Bm25:
    """The analyser and the weights of one collection; raises ConfigError for parameters that the model refuses.

    `name` tells it from every other.
    """

    def __init__(self, parameters: Bm25Parameters | None = None) -> None:
        self.parameters = parameters or Bm25Parameters()
        self.name = repr(self.parameters)
        try:
            self._model = qdrant_edge.Bm25(_config(self.parameters))
        except ValueError as error:
            raise ConfigError(f"bm25: {error}") from error

    def document(self, text: str) -> SparseVector:
        """Return an indexed text's terms, weighted by their frequency in it; without terms it is empty."""
        return _sparse(self._model.embed_document(_readable(text)))

    def query(self, text: str) -> SparseVector | None:
        """Return a query's terms, each of weight 1, or None if it has none."""
        sparse = _sparse(self._model.embed_query(_readable(text)))
        return sparse if sparse.indices else None


def _config(parameters: Bm25Parameters) -> qdrant_edge.Bm25Config:
    neutral = parameters.language == NO_LANGUAGE
    return qdrant_edge.Bm25Config(
        k=parameters.k,
        b=parameters.b,
        avg_len=parameters.avg_len,
        language=None if neutral else parameters.language,
        stopwords=qdrant_edge.StopwordsSet() if neutral else None,
        stemmer=qdrant_edge.DisabledStemmer() if neutral else None,
    )


def _readable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't hold, as question marks: they separate words."""
    return text.encode(errors="replace").decode()


def _sparse(vector: qdrant_edge.SparseVector) -> SparseVector:
    return SparseVector(vector.indices, vector.values)

"""What a Qdrant collection can be asked for, as far as queries must know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from operators.query.indexed import Ask

MOST: Final = 1000
"""Candidates that a leg is asked for at most, whatever the collection allows."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one collection can do.

    - `name` is the collection's own, where the configuration may name an alias of it; `making`: how often a collection
      was seen to be made again under the name that is configured; `shards` is in how many parts
      Qdrant counts how rare a term is; `counted`: there are several, and it can be counted over all of them.
    - `sparse`: it has the sparse vector that the keyword leg searches; `scoring`: or its text index ranks. `tokens`: it
      has the token vectors that late interaction reads. `similar`: nearer dense vectors have higher scores.
    - `dense_context`, `sparse_context`: it has these vectors of documents with their neighbours, for the context legs.
    - `most` is how many points one search may return, `values` how many values one facet may count, None without a
      bound; `exact`: whether a search may pass the vector index by; `hnsw_ef`: how many candidates it may look at in
      that index; `conditions`: how many conditions a filter may have, None without a bound.
    - `indexed`: for each field what its index can be asked for, None where filters need no index. `orders`: each field
      that an index gives an order by, with the index's type, None where all that is configured is there.
    """

    name: str
    most: int = MOST
    exact: bool = True
    sparse: bool = True
    tokens: bool = True
    shards: int = 1
    counted: bool = False
    hnsw_ef: int | None = None
    indexed: Mapping[str, frozenset[Ask]] | None = None
    conditions: int | None = None
    orders: Mapping[str, str] | None = None
    scoring: bool = False
    similar: bool = True
    values: int | None = None
    dense_context: bool = False
    sparse_context: bool = False
    making: int = 0

    @property
    def keywords(self) -> bool:
        """Whether the keyword leg has something to search."""
        return self.sparse or self.scoring

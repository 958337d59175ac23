"""Qdrant collections: which one holds a destination, or a part of it, and what one can be asked for."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from operators.access.filters import Ask
from schemas.document import DESTINATION
from schemas.errors import invalid


@dataclass(frozen=True)
class Destinations:
    """Destinations, and by destination its parts, by the Qdrant collection that holds them."""

    destinations: Mapping[str, str]
    collections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def collection(self, destination: str, part: str | None) -> str:
        """The Qdrant collection. Raises InputError `invalid` if there is none."""
        held = self.destinations.get(destination)
        if held is None:
            raise invalid("destination", "not configured", destination)
        if part is not None:
            held = self.collections.get(destination, {}).get(part)
            if held is None:
                raise invalid("collection", "not configured for this destination", part)
        return held

    def conditions(self, destination: str, collection: str) -> list[dict[str, Any]]:
        """Conditions that tell the destination's documents from others in the same collection; [] if there are none.

        The parts of one destination are in collections of their own.
        """
        if self._shares[collection] < 2:
            return []
        return [{"key": DESTINATION, "match": {"value": destination}}]

    @cached_property
    def _shares(self) -> Counter[str]:
        parts = (held for each in self.collections.values() for held in each.values())
        return Counter([*self.destinations.values(), *parts])


MOST: Final = 1000
"""Candidates that a leg is asked for at most, whatever the collection allows."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one collection.

    - `name` is the collection's own, where the configuration may name an alias of it; `making`: how often a collection
      was seen to be made again under the name that is configured.
    - `sparse`: it has the sparse vector that the keyword leg searches; `scoring`: or its text index ranks. `tokens`: it
      has the token vectors that late interaction reads. `without_idf`: its sparse vectors of BM25 terms whose rarity
      Qdrant does not count, and for which it refuses a corpus. `similar`: nearer dense vectors have higher scores.
    - `dense_context`, `sparse_context`: it has these vectors of documents with their neighbours, for the context legs.
    - `learned`, `fuzzy`: it has the sparse vector of a sparse encoder, that of trigrams, for the legs of these names;
      `fuzzy` is None where none is configured.
    - `most` is how many points one search may return; `exact`: whether a search may pass the vector index by;
      `hnsw_ef`: how many candidates it may look at in that index; `conditions`: how many conditions a filter may have,
      None without a bound.
    - `expires`: its documents expire at the time that they name. `alias` is the name to ask it by where the key may not
      ask by its own; None: its own.
    - `indexed`: for each field what its index can be asked for, None where filters need no index. `orders`: each field
      that an index gives an order by, with the index's type, None where all that is configured is there.
      `groups`: each field that an index tells the values of apart, None likewise.
    """

    name: str
    most: int = MOST
    exact: bool = True
    sparse: bool = True
    tokens: bool = True
    hnsw_ef: int | None = None
    indexed: Mapping[str, frozenset[Ask]] | None = None
    conditions: int | None = None
    orders: Mapping[str, str] | None = None
    groups: frozenset[str] | None = None
    scoring: bool = False
    similar: bool = True
    dense_context: bool = False
    sparse_context: bool = False
    learned: bool = False
    fuzzy: bool | None = None
    making: int = 0
    expires: bool = False
    alias: str | None = None
    without_idf: frozenset[str] = frozenset()

    @property
    def keywords(self) -> bool:
        """True if the keyword leg has something to search."""
        return self.sparse or self.scoring

    def matches_words(self, columns: Iterable[str]) -> bool:
        """True if filters may ask for words of these fields: by an index, or where filters need none."""
        return self.indexed is None or all(Ask.TEXT in self.indexed.get(column, ()) for column in columns)

"""Qdrant collections: which one holds a destination, or a part of it, and what one can be asked for."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, Self

from operators.access.filters import Condition, condition
from operators.access.indexes import Ask, on_index
from schemas.document import CREATED, DESTINATION, TEXT, VERSION, WHOLE_TITLE
from schemas.errors import invalid
from schemas.filters import AnyFilter


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
        """Conditions that tell the destination's documents from others in the same collection; [] if there are none."""
        if self._shares[collection] < 2:
            return []
        return [{"key": DESTINATION, "match": {"value": destination}}]

    @cached_property
    def _shares(self) -> Counter[str]:
        parts = (held for each in self.collections.values() for held in each.values())
        return Counter([*self.destinations.values(), *parts])


MOST: Final = 1000
"""Candidates that a leg is asked for at most, whatever the collection allows."""

Modifier = Literal["idf", "none"]
"""Qdrant's modifier of a sparse vector: idf weighs terms by their rarity. Dense vectors have none."""

OWN: Final[Mapping[str, Modifier | None]] = {"dense": "none", "sparse": "idf", "tokens": "none"}
"""The vectors of a collection of rankstream's own, as far as it has them in any case."""

ORDERED: Final[Mapping[str, str]] = {"created_at": CREATED, "updated_at": VERSION}
"""Fields that every collection can be ordered by -> the index's own, which are made from them."""

MADE_FROM: Final[Mapping[str, str]] = {key: name for name, key in ORDERED.items()}

_GROUPING: Final = frozenset({Ask.KEYWORD, Ask.INTEGER, Ask.BOOL, Ask.UUID})
"""Questions to an index that tells values apart."""

_ORDERING: Final = {Ask.DATETIME: "datetime", Ask.INTEGER_RANGE: "integer", Ask.FLOAT: "float"}
"""Questions to an index that gives an order, and its type: the last, for numbers may answer for times, too."""


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of one collection, in three maps.

    - `vectors`: for each key of qdrant.vectors that is configured, the vector's modifier; None where the collection
      lacks it, or has it with other parameters than it can be searched by.
    - `fields`: for each field the questions that its index answers.
    - `limits`: those of its strict mode, as Qdrant names them.

    `name` is the collection's own, where the configuration may name an alias of it; `alias` is the name to ask it by
    where the key may not ask by its own. `making` counts how often a collection was seen to be made again under the
    configured name. `expires`: documents expire when they say. `foreign`: another tool made it, with its own indexes.
    """

    name: str
    vectors: Mapping[str, Modifier | None] = field(default_factory=lambda: OWN)
    fields: Mapping[str, frozenset[Ask]] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    alias: str | None = None
    making: int = 0
    expires: bool = False
    foreign: bool = False

    def has(self, vector: str) -> bool:
        """True if the vector of this key can be searched."""
        return self.vectors.get(vector) is not None

    def without(self, *vectors: str) -> Self:
        """The same without these vectors."""
        return replace(self, vectors={key: each for key, each in self.vectors.items() if key not in vectors})

    @cached_property
    def keywords(self) -> bool:
        """True if the keyword leg has something to search: its vector, or an index of the text that ranks."""
        return self.has("sparse") or Ask.RANKED in self.fields.get(TEXT, ())

    @cached_property
    def most(self) -> int:
        """The points that one search may return."""
        return min(MOST, int(self.limits.get("max_query_limit", MOST)))

    @cached_property
    def exact(self) -> bool:
        """True if a search may pass the vector index by."""
        return bool(self.limits.get("search_allow_exact", True))

    @cached_property
    def conditions(self) -> int | None:
        """The conditions that a filter may have; None without a bound."""
        bound: int | None = self.limits.get("filter_max_conditions")
        return bound

    @cached_property
    def indexed(self) -> Mapping[str, frozenset[Ask]] | None:
        """For each field what its index can be asked for; None where filters need no index."""
        return self.fields if self.limits.get("unindexed_filtering_retrieve") is False else None

    @cached_property
    def orders(self) -> Mapping[str, str] | None:
        """Each field that an index gives an order by, with its type; None where all that is configured is there."""
        if not self.foreign:
            return None
        # A field that answers everything is none of the payload.
        asked = ((name, asks) for name, asks in self.fields.items() if len(asks) < len(Ask))
        return {name: kind for name, asks in asked for ask, kind in _ORDERING.items() if ask in asks}

    @cached_property
    def groups(self) -> frozenset[str] | None:
        """Each field that an index tells the values of apart; None where all that is configured is there."""
        if not self.foreign and self.indexed is None:
            return None
        fields = {field for field, asks in self.fields.items() if asks & _GROUPING}
        own = {"title"} if WHOLE_TITLE in fields else set()
        return frozenset(own.union(field for field in fields if not field.startswith("_")))

    def condition(self, wanted: AnyFilter) -> Condition:
        """The filter as a condition that the collection's indexes answer, as far as they can."""
        return condition(on_index(wanted, self.indexed), self.fields)

    def matches_words(self, columns: Iterable[str]) -> bool:
        """True if filters may ask for words of these fields: by an index, or where filters need none."""
        return self.indexed is None or all(Ask.TEXT in self.indexed.get(column, ()) for column in columns)

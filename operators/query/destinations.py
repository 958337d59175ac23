"""Places: which Qdrant collection holds a destination, or a part of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
        """What tells the destination's documents from others in the same Qdrant collection; nothing if there are none.

        The parts of one destination are in collections of their own.
        """
        if self._shares[collection] < 2:
            return []
        return [{"key": DESTINATION, "match": {"value": destination}}]

    @cached_property
    def _shares(self) -> Counter[str]:
        parts = (held for each in self.collections.values() for held in each.values())
        return Counter([*self.destinations.values(), *parts])

"""Changes of points that exist: some of their vectors and payload fields, the others as they are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """New vectors and payload fields of one point; a vector that is None is taken away."""

    id: str
    vectors: Mapping[str, Any]
    payload: Mapping[str, Any]

    def operations(self) -> Iterator[Mapping[str, Any]]:
        """The change as Qdrant's operations, the payload last."""
        given = {name: vector for name, vector in self.vectors.items() if vector is not None}
        if given:
            yield {"update_vectors": {"points": [{"id": self.id, "vector": given}]}}
        if gone := sorted(self.vectors.keys() - given.keys()):
            yield {"delete_vectors": {"points": [self.id], "vector": gone}}
        yield {"set_payload": {"points": [self.id], "payload": self.payload}}

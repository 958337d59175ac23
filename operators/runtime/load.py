"""The load of a stage's backend, as whoever measures it is told."""

from typing import Protocol


class Load(Protocol):
    """What is told of a stage's calls, on the event loop's thread."""

    def began(self, units: int, waited: float) -> None:
        """A call begins, with so many units; the longest that one of them waited, in seconds."""
        ...

    def under_way(self, calls: int) -> None:
        """So many calls are under way now."""
        ...

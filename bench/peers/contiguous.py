"""The offsets that may be committed while queries are answered out of order."""


class Contiguous:
    """One partition's: everything before `position` is answered."""

    def __init__(self, first: int) -> None:
        self.position = first
        self._done: set[int] = set()

    def answered(self, offset: int) -> None:
        """The query at the offset is answered."""
        self._done.add(offset)
        while self.position in self._done:
            self._done.remove(self.position)
            self.position += 1

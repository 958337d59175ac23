"""A request to a backend, divided into slices, and the parts of its outcome so far."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.errors import BackendError

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Request, Outcome]):
    """One request of `units`; `taken` of them are in calls, or have an outcome already.

    `tenant` is the tenant that it is made for. A truncated request has fewer units than it was made with; `lost` says
    why, None if it is time that was too short.
    """

    query: Request
    deadline: float
    units: int
    tenant: object = None
    taken: int = 0
    lost: BackendError | None = None
    whole: bool = True
    parts: "dict[int, tuple[int, Outcome]]" = field(default_factory=dict)

    def answer(self, slice_: "Slice[Request, Outcome]", outcome: Outcome) -> None:
        """Note the outcome of a slice of its units."""
        self.parts[slice_.start] = slice_.stop, outcome

    def truncate(self, units: int, lost: BackendError | None = None) -> None:
        """Truncate to the first `units` units; discard later outcomes."""
        if units < self.units:
            self.units = units
            self.whole = False
            self.lost = lost
            self.taken = min(self.taken, units)
            self.parts = {start: part for start, part in self.parts.items() if start < units}

    @property
    def waiting(self) -> int:
        """The number of units that are in no call yet."""
        return self.units - self.taken

    @property
    def answered(self) -> int:
        """The number of units that have an outcome, from the first on without a gap."""
        end = 0
        while (part := self.parts.get(end)) is not None:
            end = part[0]
        return end

    @property
    def complete(self) -> bool:
        """True if all its units have an outcome."""
        return self.answered >= self.units

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes of its slices, in the order of their units."""
        return [self.parts[start][1] for start in sorted(self.parts)]


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Generic[Request, Outcome]):
    """The units of a request, from `start` to before `stop`, that are in one call."""

    request: PendingRequest[Request, Outcome]
    start: int
    stop: int

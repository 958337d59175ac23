"""The canonical query: what an event asks, normalised, with nothing left to a default. Every stage reads this one."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from operators.query.cursor import After, Cursor, Offset
from schemas.filters import Filter, OrderBy
from schemas.normalization import nfc
from schemas.query import QueryEvent


class Shape(Enum):
    """How a query is answered, by what it has and hasn't."""

    FAST_PATH = auto()
    LOOKUP = auto()
    SEARCH = auto()


@dataclass(frozen=True, slots=True)
class Canonical:
    """One query. `limit` is the page's size, 1 to 200; `now` the query's clock in Unix seconds.

    `source` is who asks, as far as is known; `cursor` is the one that came with it, read.
    """

    source: str | None
    destination: str
    collection: str | None
    namespace: str
    subject: str | None
    actor_type: str | None
    text: str | None
    vector: Sequence[float] | None
    filters: tuple[Filter, ...]
    order_by: OrderBy | None
    limit: int
    cursor: Cursor | None
    now: float
    shape: Shape

    @property
    def skip(self) -> int:
        """Candidates of a merged pool that earlier pages have given."""
        position = self.cursor.position if self.cursor is not None else None
        return position.skip if isinstance(position, Offset) else 0

    @property
    def after(self) -> After:
        """Where an ordered lookup goes on."""
        position = self.cursor.position if self.cursor is not None else None
        return position if isinstance(position, After) else _START


_START: Final = After(None, 0)


def canonical(
    event: QueryEvent, source: str | None, destination: str, namespace: str, now: float, cursor: Cursor | None = None
) -> Canonical:
    """The event's canonical query; `destination`, `namespace` and `now` stand in for what it doesn't say."""
    text = nfc(event.text) if event.text is not None else None
    return Canonical(
        source=source,
        destination=event.destination if event.destination is not None else destination,
        collection=event.collection,
        namespace=event.namespace if event.namespace is not None else namespace,
        subject=event.subject,
        actor_type=event.actor_type,
        text=text if text and not text.isspace() else None,
        vector=event.vector,
        filters=tuple(event.filters),
        order_by=event.order_by,
        limit=event.page_size,
        cursor=cursor,
        now=event.now if event.now is not None else now,
        shape=shape(event),
    )


def shape(event: QueryEvent) -> Shape:
    """How the event is answered: by its shape alone, without an opt-in.

    Reflections alone are ranked, whatever they are found by.
    """
    searched = event.vector is not None or bool(event.text and event.text.strip())
    if searched or event.reflections_only:
        return Shape.SEARCH
    plain = not event.filters and event.actor_type is None and event.cursor is None and event.order_by is None
    return Shape.FAST_PATH if plain and event.subject is not None else Shape.LOOKUP

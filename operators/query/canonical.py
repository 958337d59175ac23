"""The canonical query: the event, normalised, with every default filled in. All stages read this one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from operators.query.cursor import After, Cursor, PoolSlice
from operators.wire.reply import ReplyTo
from schemas.query import QueryEvent, Wish
from schemas.texts import nfc

_RESULTS: Final = ReplyTo()


class QueryShape(Enum):
    """The shape of a query, by its fields, which decides how it is answered."""

    FAST_PATH = auto()
    LOOKUP = auto()
    SEARCH = auto()


@dataclass(frozen=True, slots=True)
class CanonicalQuery:
    """One query: its event, and what that means with every default filled in.

    `source` is the one that asks, as far as it is known; `limit` the page's size, 1 to 200; `now` the query's clock in
    Unix seconds. `cursor` is the one that came with the query, read; `reply` the place that it chose for its result.
    `understood` are the wishes that its text says or that came with it, None until they are read; their words are not
    in `text`.
    """

    event: QueryEvent
    source: str | None
    destination: str
    namespace: str
    text: str | None
    limit: int
    now: float
    shape: QueryShape
    cursor: Cursor | None = None
    reply: ReplyTo = _RESULTS
    understood: tuple[Wish, ...] | None = None

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The event as a recorded pool holds it."""
        # The cursor cannot be read without its secret: what it says of the page is recorded apart.
        return self.event.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"cursor"})

    @property
    def given(self) -> frozenset[bytes]:
        """Digests of results that must not be given again, where other states of the index gave them."""
        return frozenset(self.cursor.given) if self.cursor is not None and self.cursor.continued else frozenset()

    @property
    def position(self) -> PoolSlice | After | None:
        """The end of the page before; None on the first page."""
        return self.cursor.position if self.cursor is not None else None

    @property
    def skip(self) -> int:
        """Candidates of a merged pool that earlier pages have given."""
        position = self.position
        return position.skip if isinstance(position, PoolSlice) else 0

    @property
    def after(self) -> After:
        """The record after which an ordered lookup goes on."""
        position = self.position
        return position if isinstance(position, After) else _START


_START: Final = After(None, 0)


def canonicalise(
    event: QueryEvent,
    source: str | None,
    destination: str,
    namespace: str,
    now: float,
    cursor: Cursor | None = None,
    reply: ReplyTo = _RESULTS,
) -> CanonicalQuery:
    """The event's canonical query; `destination`, `namespace` and `now` are the defaults of fields that it lacks."""
    text = nfc(event.text) if event.text is not None else None
    return CanonicalQuery(
        event,
        source,
        destination=event.destination if event.destination is not None else destination,
        namespace=event.namespace if event.namespace is not None else namespace,
        text=text if text and not text.isspace() else None,
        limit=event.page_size,
        now=event.now if event.now is not None else now,
        shape=shape(event),
        cursor=cursor,
        reply=reply,
        understood=tuple(event.understood) if event.understood is not None else None,
    )


def shape(event: QueryEvent) -> QueryShape:
    """The event's shape. Reflections alone are ranked; blank text alone is a search that finds nothing."""
    searched = event.vector is not None or bool(event.text and event.text.strip())
    looked_up = event.filters or event.subject is not None or event.actor_type is not None or event.order_by is not None
    if searched or event.reflections_only or not looked_up:
        return QueryShape.SEARCH
    plain = not event.filters and event.actor_type is None and event.cursor is None and event.order_by is None
    return QueryShape.FAST_PATH if plain and event.subject is not None else QueryShape.LOOKUP

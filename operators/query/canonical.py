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

    `source` is the one that asks, as far as it is known; `limit` the page's size, 1 to 200; `now` its clock in Unix
    seconds; `cursor` the one that came with it, read; `reply` the place that it chose for its result. `understood` are
    the wishes that its text says or that came with it; once they are read, their words are not in `text`.
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
    understood: tuple[Wish, ...] = ()
    by_model: bool = False

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
    def skip(self) -> int:
        """Candidates of a merged pool that earlier pages have given."""
        cursor = self.cursor
        return cursor.position.skip if cursor is not None and isinstance(cursor.position, PoolSlice) else 0

    @property
    def after(self) -> After:
        """The record after which an ordered lookup goes on."""
        cursor = self.cursor
        return cursor.position if cursor is not None and isinstance(cursor.position, After) else START


START: Final = After(None, 0)


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
    text = nfc(event.text) if event.text and not event.text.isspace() else None
    kind = shape(event)
    return CanonicalQuery(
        event,
        source,
        destination=event.destination if event.destination is not None else destination,
        namespace=event.namespace if event.namespace is not None else namespace,
        text=text,
        limit=event.page_size,
        now=event.now if event.now is not None else now,
        shape=kind,
        cursor=cursor,
        reply=reply,
        understood=tuple(event.understood or ()),
        by_model=event.rerank and text is not None and kind is QueryShape.SEARCH and not event.reflections_only,
    )


def shape(event: QueryEvent) -> QueryShape:
    """The event's shape. Reflections alone are ranked; blank text alone is a search that finds nothing."""
    searched = event.vector is not None or bool(event.text and event.text.strip())
    looked_up = event.filters or event.subject is not None or event.actor_type is not None or event.order_by is not None
    if searched or event.reflections_only or not looked_up:
        return QueryShape.SEARCH
    plain = not event.filters and event.actor_type is None and event.cursor is None and event.order_by is None
    return QueryShape.FAST_PATH if plain and event.subject is not None else QueryShape.LOOKUP

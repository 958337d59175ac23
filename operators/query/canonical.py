"""The canonical query: the event, normalised, with every default filled in, and its plan. All stages read this one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from operators.access.firewall import AccessFilter
from operators.query.cursor import After, Cursor, PoolSlice
from operators.query.plan import RankingPlan
from operators.query.returned import hide
from operators.query.ruling import Ruling
from operators.ranking.run import Alike, Facts, Matches
from operators.text.dates import TemporalExpression
from operators.text.wishes import read_wishes, take_away
from operators.wire.reply import ReplyTo
from schemas.query import GeoDistance, Order, QueryEvent, QueryShape, Wish
from schemas.recipes.stages import Temporal, Wishes
from schemas.result import Denial
from schemas.texts import nfc

_RESULTS: Final = ReplyTo()

START: Final = After(None, 0)


@dataclass(frozen=True)
class Query:
    """One query: its event, what that means with every default filled in, and the decisions about it.

    `source` is the one that asks, as far as it is known; `limit` the page's size, 1 to 200; `now` the query's clock in
    Unix seconds; `cursor` the one that came with it, read; `reply` the place that it chose for its result. `understood`
    are the wishes that its text says or that came with it; their words are not in `text`. `ruling` are the rules that
    work for it, None where its namespace has none. A denied query has no collection, and no access filter.
    """

    event: QueryEvent
    plan: RankingPlan
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
    ruling: Ruling | None = None
    collection: str = ""
    denial: Denial | None = None
    access_filter: AccessFilter | None = None

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The event as a recorded pool holds it."""
        # The cursor cannot be read without its secret: what it says of the page is recorded apart.
        return self.event.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"cursor"})

    @cached_property
    def given(self) -> frozenset[bytes]:
        """Digests of results that must not be given again, where other states of the index gave them."""
        return frozenset(self.cursor.given) if self.cursor is not None and self.cursor.continued else frozenset()

    @cached_property
    def skip(self) -> int:
        """Candidates of a merged pool that earlier pages have given."""
        cursor = self.cursor
        return cursor.position.skip if cursor is not None and isinstance(cursor.position, PoolSlice) else 0

    @property
    def after(self) -> After:
        """The record after which an ordered lookup goes on."""
        cursor = self.cursor
        return cursor.position if cursor is not None and isinstance(cursor.position, After) else START

    @property
    def centre(self) -> GeoDistance | None:
        """The point that the first results of a lookup are nearest to; None where no distance orders it."""
        order = self.event.order_by
        return order.centre if order is not None and self.shape is not QueryShape.SEARCH else None

    @property
    def extractor(self) -> str | None:
        """Which extractor reads the time in the query (`rules` or `chat`); None if no stage that runs uses it."""
        temporal = self.plan.recipe.stage(Temporal)
        if temporal is None or temporal.boost <= 0 or self.event.reflections_only:
            return None
        return temporal.extractor

    @property
    def by_model(self) -> bool:
        """True if a model may rank its candidates. Reflections alone are ranked by cosine."""
        searched = self.text is not None and self.shape is QueryShape.SEARCH
        return self.event.rerank and searched and not self.event.reflections_only

    @cached_property
    def reranks(self) -> int:
        """The number of candidates that the reranker reads."""
        return self.plan.profile.rerank_top if self.plan.recipe.reranking is not None and self.by_model else 0

    @property
    def picks(self) -> int:
        """The number of top candidates that the chat model picks from; 0 with an order, or on later pages."""
        picking, first = self.plan.picking, self.event.order_by is None and not self.given
        return picking.top_k if picking is not None and first and self.by_model else 0

    def facts(
        self,
        now: float | None,
        temporal_expression: TemporalExpression | None,
        matches: Matches | None = None,
        *,
        alike: Alike | None = None,
    ) -> Facts:
        """The facts of the query for the recipe's stages; `now` in Unix seconds, None if it has no clock."""
        event, plan, understood = self.event, self.plan, self.understood
        if event.order_by is not None:
            # It goes before an order in words.
            understood = tuple(each for each in understood if not isinstance(each, Order))
        return Facts(
            now=now,
            cycle=event.current_cycle,
            text=self.text,
            temporal_expression=temporal_expression,
            matches=matches,
            alike=alike,
            include_reflections=plan.include_reflections,
            reflections_only=event.reflections_only,
            decay=plan.decay,
            decay_half_life=plan.profile.half_life_days,
            explain=event.explain,
            understood=understood,
            visible=partial(hide, hidden=plan.hidden),
            wording=plan.wording,
        )


def address_of(event: QueryEvent, destination: str, namespace: str) -> tuple[str, str]:
    """The event's destination and namespace; these are the defaults of one that lacks them."""
    destination = event.destination if event.destination is not None else destination
    return destination, event.namespace if event.namespace is not None else namespace


def canonicalise(
    event: QueryEvent,
    plan: RankingPlan,
    source: str | None,
    destination: str,
    namespace: str,
    now: float,
    cursor: Cursor | None = None,
    reply: ReplyTo = _RESULTS,
) -> Query:
    """The event's query, by its plan and address; `now` is its clock unless it has one.

    If the recipe needs no legs, a lookup becomes a ranked search. A later page of the fast path has the shape of a
    lookup, and the order of the pages before: it is not ranked. Where the recipe has the stage `wishes`, their words
    are taken away from the text.
    """
    text = nfc(event.text) if event.text and not event.text.isspace() else None
    shape, understood = event.shape, tuple(event.understood or ())
    now = event.now if event.now is not None else now
    wishes = plan.recipe.stage(Wishes)
    if wishes is None or shape is not QueryShape.SEARCH or event.reflections_only:
        understood = ()
    elif text is not None and event.understood is None:
        text, understood = read_wishes(text, wishes.kinds, event.lang, plan.wording.languages, now)
    elif text is not None:
        text = take_away(text, understood)
    begins = cursor is None or isinstance(cursor.position, PoolSlice)
    if shape is QueryShape.LOOKUP and event.order_by is None and plan.recipe.fusion.unasked and begins:
        shape = QueryShape.SEARCH
    return Query(
        event,
        plan,
        source,
        destination,
        namespace,
        text,
        limit=event.page_size,
        now=now,
        shape=shape,
        cursor=cursor,
        reply=reply,
        understood=understood,
    )

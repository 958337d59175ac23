"""The query event: one JSON object per message of the queries topic; and the wishes that its words say.

Wishes are the conditions and the order that a query says in words, as results report them and queries may send them.

Promises:
- A result's wishes may be sent back as they are, or changed.
- A wish's `words` are taken away from the text that is searched, wherever it comes from.
"""

from collections.abc import Mapping
from enum import Enum, auto
from math import copysign
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from schemas.facets import Facets
from schemas.fields import (
    MAX_METADATA_BYTES,
    SCHEMA_VERSION,
    AnyId,
    MaybeName,
    Metadata,
    Name,
    QueryId,
    SchemaVersion,
    Strict,
    Timestamp,
    Vector,
    missing_if_empty,
)
from schemas.filters import DocumentFilters, FieldName, FilterField, InCircle, Number, find_values, spellings
from schemas.geo import GeoCircle, GeoPoint, read_coordinates
from schemas.texts import nfc

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200

MAX_CURSOR_CHARS: Final = 512

MAX_QUERY_PARTS: Final = 4096
"""Keys, objects and arrays of a query event: it can use some 600 of filters, 2,000 of metadata, and a recipe's."""

MAX_PASSAGES: Final = 10
MAX_TRIED: Final = 16
MAX_NEIGHBOURS: Final = 16
MAX_EXCERPT: Final = 100_000


def _text(value: Any) -> Any:
    if value in ("none", "full") or (type(value) is int and 1 <= value <= MAX_EXCERPT):
        return value
    raise ValueError(f"none, full, or a number of characters from 1 to {MAX_EXCERPT} is expected")


class Returned(Strict):
    """The parts of documents that results have. What is missing is the policy's, the profile's, or else as it says."""

    fields: Annotated[list[FieldName], Field(max_length=64)] | None = None
    """Payload fields of each result, dotted paths for nested ones; missing: all."""
    text: Annotated[Literal["none", "full"] | int, BeforeValidator(_text)] | None = None
    """Text of each result: none, full, or the most characters from the best passage's beginning on; missing: full."""
    passages: Annotated[int, Field(ge=0, le=MAX_PASSAGES)] | None = None
    """Passages of each result at most, the best first; missing: 0, without them."""
    neighbours: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] | None = None
    """Documents before and behind each result, by the order of qdrant.context; missing: 0, no such."""

    def over(self, other: "Returned | None") -> "Returned":
        """Combine the parts: this one's, and the other's where this one says nothing."""
        own = {name: value for name, value in self if value is not None}
        return self if other is None else other.model_copy(update=own)


class GeoDistance(GeoPoint):
    """The distance from a point to those in a field."""

    field: FilterField

    def of(self, payload: Mapping[str, Any]) -> list[float]:
        """Metres to each point that the field has."""
        values = [value for path in spellings(self.field) for value in find_values(payload, path)]
        elements = (each for value in values for each in (value if isinstance(value, list) else [value]))
        return [self.coordinates.distance(at) for each in elements if (at := read_coordinates(each)) is not None]

    def within(self, metres: float) -> InCircle:
        """The filter for points that are less far away."""
        area = GeoCircle(lat=self.lat, lon=self.lon, radius_m=metres)
        return InCircle(field=self.field, op="geo_radius", value=area)


class OrderBy(Strict):
    """The order of results: by one indexed field, or by the distance to a point."""

    named: FieldName | None = Field(default=None, alias="field")
    geo_distance: GeoDistance | None = None
    direction: Literal["asc", "desc"] = "asc"

    @property
    def field(self) -> str:
        """The field that is read."""
        return self.geo_distance.field if self.geo_distance is not None else self.named or ""

    @property
    def centre(self) -> GeoDistance | None:
        """The point that the first results are nearest to; of the farthest ones that on the other side of the earth."""
        point = self.geo_distance
        if point is None or self.direction == "asc":
            return point
        return point.model_copy(update={"lat": -point.lat, "lon": point.lon - copysign(180, point.lon)})

    @model_validator(mode="after")
    def _one_order(self) -> Self:
        if (self.named is None) == (self.geo_distance is None):
            raise ValueError("one of field and geo_distance is expected")
        return self


MAX_GROUP_SIZE: Final = 50

GroupSize = Annotated[int, Field(ge=0, le=MAX_GROUP_SIZE)]
"""Documents that are returned of a group; 0: queries are not grouped."""

GroupScore = Literal["max", "sum", "avg"]
"""The combination of the scores of a group's documents."""

CursorPolicy = Literal["strict", "continue"]


MAX_WISHES: Final = 16
MAX_ABOUT: Final = 8

_Words = Annotated[str, StringConstraints(max_length=512)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]

_WORDS: Final = "Words of the text that say it; they are taken away from what is searched. Empty: none are."
_UNIT: Final = (
    "Unit of the bounds, such as EUR, GB, cm, year, or date: then they are days as numbers, such as 20260601."
)
_FIELD: Final = (
    "Payload field by which candidates are judged. In a query: the field that is read first; missing or null: the"
    " candidates decide. In a result: the field that was read; null: their texts decided, or nothing."
)


class Limit(Strict):
    """A limit on a number, a date or a size: bounds, or one `value`."""

    kind: Literal["limit"] = "limit"
    words: _Words = Field(default="", description=_WORDS)
    gt: Number | None = Field(default=None, description="More than this.")
    gte: Number | None = Field(default=None, description="This or more.")
    lt: Number | None = Field(default=None, description="Less than this.")
    lte: Number | None = Field(default=None, description="This or less.")
    value: _Name | None = Field(default=None, description="Exactly this, such as the size 42 or XL.")
    unit: _Name | None = Field(default=None, description=_UNIT)
    about: Annotated[list[_Name], Field(max_length=MAX_ABOUT)] = Field(default=[])
    """Subject of the limit, such as price, width or players."""
    field: FieldName | None = Field(default=None, description=_FIELD)

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.value is None and all(each is None for each in (self.gt, self.gte, self.lt, self.lte)):
            raise ValueError("gt, gte, lt, lte or value must be given")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the lower bound {self.low:g} is above the upper bound {self.high:g}")
        return self

    @property
    def low(self) -> float | None:
        return self.gt if self.gte is None else self.gte

    @property
    def high(self) -> float | None:
        return self.lt if self.lte is None else self.lte

    def holds(self, number: float) -> bool:
        """True if the number is within the bounds."""
        above = (self.gt is None or number > self.gt) and (self.gte is None or number >= self.gte)
        return above and (self.lt is None or number < self.lt) and (self.lte is None or number <= self.lte)


class Exclusion(Strict):
    """Something that is not wanted."""

    kind: Literal["exclusion"] = "exclusion"
    words: _Words = Field(default="", description=_WORDS)
    without: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Thing that is not wanted: documents that name all of these words fail."""


class Order(Strict):
    """An order by a field: the cheapest, the newest."""

    kind: Literal["order"] = "order"
    words: _Words = Field(default="", description=_WORDS)
    about: Annotated[list[_Name], Field(min_length=1, max_length=MAX_ABOUT)]
    """Subject of the order, such as price, date or weight."""
    direction: Literal["asc", "desc"] = "asc"
    field: FieldName | None = Field(default=None, description=_FIELD)


Wish = Annotated[Limit | Exclusion | Order, Field(discriminator="kind")]

Understood = Annotated[list[Wish], Field(max_length=MAX_WISHES)]


def _missing_if_blank(value: str | None) -> str | None:
    return nfc(value) if value is not None and value.strip() else None


MAX_EXAMPLES: Final = 32

_Examples = Annotated[list[AnyId], Field(max_length=MAX_EXAMPLES)]


class Like(Strict):
    """Documents that the results are to be like, or unlike. None of them is a result."""

    ids: _Examples = Field(default=[], description="Ids of documents that the results are to be like.")
    unlike: _Examples = Field(default=[], description="Ids of documents that they are to be unlike.")
    text: Annotated[str | None, AfterValidator(_missing_if_blank)] = None
    """Text of a document that is not indexed, which they are to be like; not with a `text` of the query."""
    strategy: Literal["average_vector", "best_score"] = "average_vector"
    """Qdrant's strategy of recommendation: near to the mean of the documents, or to any one of them."""

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not (self.ids or self.unlike or self.text):
            raise ValueError("ids, unlike or text must be given")
        return self

    @property
    def every_id(self) -> list[str]:
        """The ids of all its documents, each once."""
        return list(dict.fromkeys((*self.ids, *self.unlike)))


class QueryShape(Enum):
    """The shape of a query, by its fields, which decides how it is answered."""

    FAST_PATH = auto()
    LOOKUP = auto()
    SEARCH = auto()


class QueryEvent(Strict):
    """One query. Unknown fields are an error."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    query_id: QueryId
    """Identifier of the caller, returned in the result. Two events with the same id are two queries."""
    text: str | None = None
    """Search text, which may be a keyword expression; blank text counts as none."""
    vector: Vector | None = Field(default=None, description="Its embedding; missing: the embedder computes it.")
    like: Like | None = None
    """Documents that the results are to be like, in place of a text or beside it."""
    understood: Understood | None = None
    """Wishes, as a result has them: these hold, and none are read from the text, from which their words are taken away;
    []: none; missing: they are read where the recipe has the stage `wishes`."""
    namespace: MaybeName = Field(default=None, description="Tenant; missing: the configured default, never all.")
    destination: Name | None = Field(default=None, description="Logical store, mapped to a Qdrant collection.")
    collection: MaybeName = Field(default=None, description="Part of the destination, mapped likewise.")
    source: Name | None = None
    """Sender of the query, for the policies; ignored if `policies.identity` uses a header or the topic."""
    lang: MaybeName = Field(
        default=None, description="Language of the text, such as de, for stop words, wishes and rules."
    )
    subject: MaybeName = Field(default=None, description="Return only documents of this subject.")
    actor_type: MaybeName = Field(default=None, description="Return only documents of this type of actor.")
    filters: DocumentFilters = Field(default=[], description="Conditions on payload fields, all of which must hold.")
    order_by: OrderBy | None = None
    """Order of the results by an indexed field; missing: a lookup's newest first, else by rank."""
    group_by: FieldName | None = None
    """Indexed field: one result for all documents with the same value; missing: the profile's, or else the default."""
    group_size: GroupSize | None = None
    """Documents of a group at most, the best included; 0: no groups; missing: the profile's, or else the default."""
    group_score: GroupScore | None = None
    """Score of a group: of its best document (max), or combined of all its candidates (sum, avg); missing: the
    profile's, or else the default."""
    facets: Facets | None = None
    """Values of fields to count among all that matches. With them, also with none of them, `total` counts it, too."""
    limit: int = Field(
        default=0,
        description=f"Results on a page: 0 or less means {DEFAULT_LIMIT}, more than {MAX_LIMIT} means {MAX_LIMIT}.",
    )
    cursor: Annotated[
        Annotated[str, StringConstraints(max_length=MAX_CURSOR_CHARS)] | None, AfterValidator(missing_if_empty)
    ] = None
    """`next_cursor` of a result; with the same query it asks for the next page. facets, limit, return, explain, debug,
    timeout_ms, metadata and cursor_policy may differ from page to page."""
    cursor_policy: CursorPolicy = "strict"
    """After a change of the index: strict refuses the cursor as expired, continue gives the next page and warns."""
    profile: MaybeName = None
    """Profile, a trade of quality against time; missing or unknown: `balanced`."""
    recipe: MaybeName = Field(default=None, description="Recipe that ranks the candidates; missing: the profile's.")
    overrides: dict[str, JsonValue] | None = None
    """Changes to parameters of the recipe: {stage: {parameter: value}}."""
    rules: Annotated[dict[str, JsonValue], Field(max_length=MAX_TRIED)] | None = None
    """Rules to try with this query alone: {id: rule}, each in place of the rule of its id, or beside those in force;
    null: without the rule of that id."""
    rerank: bool = Field(default=True, description="false: no model is asked; the other stages of the recipe run.")
    post: bool = True
    """false: the fused list is the answer; no stage behind the fusion runs, and no model."""
    min_relevance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Leave out what has less relevance; missing: the profile's, or else the default."""
    returned: Returned | None = Field(default=None, alias="return")
    """Parts of the documents that the results have; missing: all of each."""
    explain: bool = Field(default=False, description="Return a score explanation with each result.")
    debug: bool = Field(default=False, description="Return the stages that the query passed, with candidates and time.")
    record: bool = Field(default=False, description="Return the candidate pool, for offline ranking.")
    include_reflections: bool | None = None
    """false drops documents of the type reflection; missing: the recipe decides."""
    reflections_only: bool = Field(default=False, description="Rank all reflections, and no other documents.")
    reflection_boost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Factor for the scores of reflections, with any recipe."""
    now: Timestamp | None = Field(default=None, description="Clock of the query; missing: the record's timestamp.")
    current_cycle: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    """Clock in cycles, for the recency of the stage `weighted` and with `reflections_only`; not with `now`."""
    timeout_ms: Annotated[int, Field(gt=0)] | None = None
    """Milliseconds from sending until the query's deadline; missing: limits.timeout."""
    reply_to: str | None = None
    """Topic for the result: kafka.topics.results or one of kafka.topics.reply_to."""
    metadata: Metadata | None = Field(
        default=None,
        description=f"Returned unchanged; at most {MAX_METADATA_BYTES} bytes of JSON, integers of 64 bits.",
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        asked = (self.text, self.vector, self.like, self.subject, self.actor_type)
        if asked.count(None) == len(asked) and not (self.filters or self.reflections_only or self.facets):
            names = "text, vector, like, filters, subject, actor_type, facets or reflections_only"
            raise ValueError(f"{names} must be given")
        if self.order_by is not None and self.reflections_only:
            raise ValueError("order_by and reflections_only: reflections are in the order of their ranks")
        if self.now is not None and self.current_cycle is not None:
            raise ValueError("now and current_cycle are two clocks: at most one may be given")
        if self.reflections_only and self.include_reflections is False:
            raise ValueError("reflections_only and include_reflections: false leave nothing")
        if (like := self.like) is not None:
            text = self.text is not None and bool(self.text.strip())
            if like.text is not None and text:
                raise ValueError("text and like.text: at most one may be given")
            if not (like.ids or like.text or text or self.vector is not None):
                raise ValueError("like.unlike: what is wanted must be given, too, by ids, text or vector")
            if self.reflections_only:
                raise ValueError("like and reflections_only: reflections are ranked by text or vector")
        return self

    @property
    def shape(self) -> QueryShape:
        """The event's shape. Reflections alone are ranked; blank text alone is a search that finds nothing."""
        conditions = self.filters or self.facets or self.actor_type is not None or self.order_by is not None
        searched = self.vector is not None or self.like is not None or bool(self.text and self.text.strip())
        if searched or self.reflections_only or not (conditions or self.subject is not None):
            return QueryShape.SEARCH
        return QueryShape.LOOKUP if conditions or self.cursor is not None else QueryShape.FAST_PATH

    @property
    def page_size(self) -> int:
        """The number of results on a page, from 1 to MAX_LIMIT."""
        return min(self.limit, MAX_LIMIT) if self.limit > 0 else DEFAULT_LIMIT

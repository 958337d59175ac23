"""The query event: what a producer asks, one JSON object a message on the queries topic."""

from typing import Annotated, Final, Literal, Self

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    field_validator,
    model_validator,
)

from schemas.filters import Filters, OrderBy
from schemas.timestamp import Timestamp

SCHEMA_VERSION: Final = 1
MAX_METADATA_BYTES: Final = 4096
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200

MAX_CURSOR_CHARS: Final = 512

MAX_FLOAT32: Final = (2 - 2**-23) * 2.0**127
"""The largest number that a vector in the index can hold."""


def _integer(value: object) -> object:
    # True and 1.0 are equal to 1, and no version.
    if type(value) is not int:
        raise ValueError("an integer is expected")
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_integer)]
"""The version of an event that says so: the integer 1."""

Component = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32, allow_inf_nan=False)]
Vector = Annotated[list[Component], Field(min_length=1, max_length=65_536)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class QueryEvent(BaseModel):
    """One query. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: SchemaVersion = SCHEMA_VERSION
    query_id: Annotated[str, StringConstraints(min_length=1, max_length=512)] = Field(
        description="The caller's own identifier, echoed. Two events with one id are two queries."
    )
    text: str | None = Field(default=None, description="What is looked for.")
    vector: Vector | None = Field(default=None, description="The query's own vector, in place of the embedder's.")
    namespace: Name | None = Field(default=None, description="The tenant; missing: the configured default, never all.")
    destination: Name | None = Field(default=None, description="The logical store, mapped to a Qdrant collection.")
    collection: Name | None = Field(default=None, description="A part of the destination, mapped likewise.")
    source: Name | None = Field(
        default=None, description="Who asks, for the policies, unless these know it from a header or the topic."
    )
    subject: Name | None = Field(default=None, description="Only documents of this subject.")
    actor_type: Name | None = Field(default=None, description="Only documents of this type of actor.")
    filters: Filters = Field(default=[], description="Conditions on payload fields, all of which must hold.")
    order_by: OrderBy | None = Field(default=None, description="The order of a lookup; missing: the newest first.")
    limit: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=f"Results wanted: 0 means {DEFAULT_LIMIT}, more than {MAX_LIMIT} means {MAX_LIMIT}.",
    )
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=MAX_CURSOR_CHARS)] | None = Field(
        default=None, description="A result's `next_cursor`, with the query as it was: its next page."
    )
    profile: Name | None = Field(
        default=None, description="What the query gets for the time that it has; missing or unknown: `balanced`."
    )
    recipe: Name | None = Field(default=None, description="How it is ranked; missing: as its profile says.")
    overrides: dict[str, JsonValue] | None = Field(
        default=None, description="Parameters of the recipe to change: {stage: {parameter: value}}."
    )
    rerank: bool = Field(
        default=True, description="False skips the stages on distance and every reranker; the other stages stay."
    )
    explain: bool = Field(default=False, description="Say of each result how it came to its score.")
    debug: bool = Field(default=False, description="Say what each stage found, and how long it took.")
    record: bool = Field(default=False, description="Put the candidates of every leg into the result.")
    include_reflections: bool | None = Field(
        default=None, description="False leaves reflections out; missing: as the recipe says."
    )
    reflections_only: bool = Field(default=False, description="Rank every reflection, and nothing else.")
    reflection_boost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Multiplies the scores of reflections, in a recipe with that stage."
    )
    now: Timestamp | None = Field(default=None, description="The caller's clock; missing: the message's timestamp.")
    current_cycle: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = Field(
        default=None, description="The caller's clock in cycles, for the blend's recency; not together with `now`."
    )
    timeout_ms: Annotated[int, Field(gt=0)] | None = Field(default=None, description="How long an answer is of use.")
    reply_to: str | None = Field(
        default=None, description="The topic for the result: one of those that the configuration lets a query choose."
    )
    metadata: dict[str, JsonValue] | None = Field(
        default=None, description=f"Echoed untouched; at most {MAX_METADATA_BYTES} bytes of JSON, integers of 64 bits."
    )

    @field_validator("metadata")
    @classmethod
    def _bounded_metadata(cls, metadata: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if metadata is not None and (size := len(orjson.dumps(metadata))) > MAX_METADATA_BYTES:
            raise ValueError(f"{size} bytes of JSON, at most {MAX_METADATA_BYTES}")
        return metadata

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        searched = self.vector is not None or bool(self.text and self.text.strip())
        if not (searched or self.filters or self.subject is not None or self.actor_type is not None):
            raise ValueError("text, vector, filters, subject or actor_type must be given")
        if self.order_by is not None and (searched or self.reflections_only):
            raise ValueError("order_by is for lookups: text, vector and reflections are in the recipe's order")
        if self.now is not None and self.current_cycle is not None:
            raise ValueError("now and current_cycle are two clocks: at most one may be given")
        if self.reflections_only and self.include_reflections is False:
            raise ValueError("reflections_only and include_reflections: false leave nothing")
        return self

    @property
    def page_size(self) -> int:
        """Results to answer with, from 1 to MAX_LIMIT."""
        return min(self.limit or DEFAULT_LIMIT, MAX_LIMIT)

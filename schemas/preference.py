"""The records of experiments: what two rankings showed for a query, and which of them its user preferred."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.fields import DocumentId, Name, Strict

Side = Literal["a", "b"]
"""The ranking that put a result on the page: `a` is the query's own recipe, `b` the experiment's."""

Count = Annotated[int, Field(ge=0)]


class Click(Strict):
    """A result that the user acted on, however often."""

    id: DocumentId
    rank: Annotated[int, Field(ge=0, description="Rank on the page, from 0.")]
    side: Side
    actions: Annotated[list[Name], Field(min_length=1)]
    """The names of the actions, each once, sorted."""


class Preference(Strict):
    """One query of an experiment whose window has closed: a message of the topic `preferences`, keyed by query_id."""

    schema_version: Literal[1] = 1
    experiment: Name
    query_id: str
    namespace: str
    issued: Count = Field(description="The query's timestamp in Kafka, in ms.")
    a: Count = Field(description="Clicks on results of the query's own recipe, each result and action once.")
    b: Count = Field(description="Clicks on results of the experiment's recipe.")
    preferred: Literal["a", "b", "tie"] = Field(description="The side with more clicks.")
    clicks: list[Click]
    robot: bool = Field(default=False, description="Whether there were more clicks than a person makes.")


class DraftedResult(Strict):
    """A result of an experiment's page, and the side that put it there; in a shadow `b` is never shown."""

    id: DocumentId
    side: Side


class PairedRankings(Strict):
    """Two rankings of one query: a message of the topic `experiments`, keyed by query_id."""

    schema_version: Literal[1] = 1
    experiment: Name
    mode: Literal["shadow", "interleave"]
    query_id: str
    namespace: str
    issued: Count = Field(description="The query's timestamp in Kafka, in ms.")
    text: str | None = Field(default=None, description="The query's text, where the experiment names its namespaces.")
    kinds: list[str] = Field(default=[], description="Kinds of queries that it is of: by its recipe, and by its text.")
    incomplete: list[Side] = Field(default=[], description="Rankings that lost a part: then neither is compared.")
    a: list[DocumentId] = Field(description="The first documents of the query's own recipe, best first.")
    b: list[DocumentId] = Field(description="Those of the experiment's recipe.")
    page: list[DraftedResult] = Field(description="The page's results in their order.")
    overlap: Annotated[float, Field(ge=0, le=1)] = Field(description="Rank-biased overlap of `a` and `b`, p = .9.")
    cpu_ms: Annotated[float, Field(ge=0)] = Field(description="CPU time of the second ranking in ms.")
    calls: Count = Field(default=0, description="Requests to backends that only the second ranking needed.")
    unread: Count = 0
    """Documents among those that a reranker reads first for `b` that it did not read for `a`: they have no score."""

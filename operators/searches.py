"""Searches: what each leg is asked for a query."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from operators.dispatcher import Lane
from operators.inflight import InFlight
from operators.telemetry import QueryTrace
from schemas.document import CONTENT, CREATED, NAMESPACE, REFLECTION, TYPE
from schemas.leg import KEYWORD, STRUCTURED, VECTOR
from schemas.recipes.fusion import Weighted
from schemas.recipes.parameters import Stage
from schemas.recipes.recipe import STAGES
from schemas.recipes.stages import Composite
from schemas.settings import QdrantSettings

MOST: Final = 1000
"""Candidates that a leg is asked for at most."""

BEYOND: Final = 3
"""Times the page is asked for where a stage on distance moves candidates."""

_ALONE: Final = frozenset({"id", TYPE, "created_at", "updated_at", "cycle"})
"""What ranking reads of reflections."""

_SIGNALS: Final[tuple[Stage, ...]] = (Weighted(graph_weight=1.0), Composite(recency=1.0, importance=1.0))
_RECORDED: Final = frozenset().union(
    *(stage.model_construct().reads for stage in STAGES.values()), *(stage.reads for stage in _SIGNALS)
) - {CONTENT}
"""What any recipe reads: a recorded pool has all of it."""


@dataclass(frozen=True, slots=True)
class Search:
    """One query's request to one leg, and where to record it."""

    body: Mapping[str, Any]
    trace: QueryTrace


@dataclass(frozen=True, slots=True)
class Searches:
    """Writes each query's requests under one configuration."""

    dense: str
    sparse: str
    idf_of_namespace: bool

    @classmethod
    def of(cls, settings: QdrantSettings) -> "Searches":
        """The requests that the settings ask for."""
        return cls(settings.vectors.dense, settings.vectors.sparse, settings.idf == "namespace")

    def __call__(self, query: InFlight) -> dict[Lane, Search]:
        """The query's requests by (leg, collection); a leg that it has nothing for is left out."""
        query.started = monotonic()
        tenant = {"must": [{"key": NAMESPACE, "match": {"value": query.namespace}}]}
        common = {
            "filter": _filter(query, tenant),
            "limit": depth(query),
            "with_payload": sorted(fields(query)) or False,
        }
        bodies: dict[str, dict[str, Any]] = {}
        for leg in legs(query):
            if leg == VECTOR and (vector := vector_of(query)) is not None:
                bodies[leg] = {"query": vector, "using": self.dense, **common}
                if query.event.reflections_only:
                    bodies[leg]["params"] = {"exact": True}
            elif leg == KEYWORD and query.terms is not None:
                terms = {"indices": query.terms.indices, "values": query.terms.values}
                bodies[leg] = {"query": terms, "using": self.sparse, **common}
                if self.idf_of_namespace:
                    bodies[leg]["params"] = {"idf": {"corpus": tenant}}
            elif leg == STRUCTURED:
                bodies[leg] = {"order_by": {"key": CREATED, "direction": "desc"}, **common}
        return {(leg, query.collection): Search(body, query.trace) for leg, body in bodies.items()}


def legs(query: InFlight) -> tuple[str, ...]:
    """The legs that the query's recipe wants; of reflections alone the nearest, without a vector the newest."""
    if query.event.reflections_only:
        return (VECTOR,) if vector_of(query) is not None else (STRUCTURED,)
    return query.plan.recipe.fusion.legs


def depth(query: InFlight) -> int:
    """How many candidates each leg is asked for."""
    if query.event.reflections_only:
        return MOST
    wanted = max(query.event.page_size, query.plan.profile.over_sample)
    if query.plan.recipe.distance and query.event.rerank:
        wanted = max(wanted, BEYOND * query.event.page_size)
    return min(wanted, MOST)


def fields(query: InFlight) -> frozenset[str]:
    """The payload fields that ranking, or a recorded pool, needs."""
    wanted = query.plan.recipe.reads | _ALONE if query.event.reflections_only else query.plan.recipe.reads
    return wanted | _RECORDED if query.event.record else wanted


def vector_of(query: InFlight) -> Any:
    """The query's vector, its own before the embedder's; None without one, and for a zero vector."""
    if query.event.vector is not None:
        return query.event.vector if any(query.event.vector) else None
    return query.embedding.vector if query.embedding is not None else None


def _filter(query: InFlight, tenant: Mapping[str, Any]) -> Mapping[str, Any]:
    reflections = {"key": TYPE, "match": {"value": REFLECTION}}
    if query.event.reflections_only:
        return {"must": [*tenant["must"], reflections]}
    return tenant if query.plan.include_reflections else {**tenant, "must_not": [reflections]}

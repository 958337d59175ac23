"""Strict mode as Qdrant 1.19 has it: which requests a collection refuses, and in which words.

Not played: the limits of rate, of the vectors' and the payload's bytes, and of resident memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from operators.clients.qdrant_edge.shards import Refusal
from tests.qdrant_server.unindexed import Schema, conditions, one_unindexed

Body = Mapping[str, Any]

DEFAULT_LIMIT = 10
TENANT_ADVICE = (
    "Use tenant-specific filter, enable global vector indexing or enable strict mode `search_allow_exact` option"
)
INDEXING_ADVICE = (
    "Enable vector indexing, use a prefetch query with indexed vectors or enable strict mode "
    "`search_allow_exact` option"
)


@dataclass(frozen=True, slots=True)
class Strict:
    """The restrictions of one collection, and what of it they look at."""

    config: Body
    settings: Body
    indexes: Mapping[str, Schema]
    points: int

    def check(self, route: tuple[str, str], body: Any, timeout: int | None) -> None:
        """Raise Refusal (400) where strict mode forbids the request."""
        if not self.config.get("enabled") or route not in CHECKED:
            return
        if route == ("POST", "points/query/batch"):
            self._limit(len(body["searches"]), "search_max_batchsize", "search batch size")
        for kind, request in _requests(route, body):
            self._request(kind, request)
        if timeout is not None:
            self._limit(timeout, "max_timeout", "timeout")

    def _request(self, kind: str, body: Body) -> None:
        filter_ = body.get("filter")
        match kind:
            case "query":
                self._full_scan(body)
                self._limit(body.get("limit", DEFAULT_LIMIT), "max_query_limit", "limit")
                self._filter(filter_, "unindexed_filtering_retrieve")
                self._params(body.get("params") or {})
            case "scroll" | "facet":
                self._limit(body.get("limit"), "max_query_limit", "limit")
                self._filter(filter_, "unindexed_filtering_retrieve")
                self._exact(body)
            case "count":
                self._filter(filter_, "unindexed_filtering_retrieve")
                self._exact({"exact": True, **body})
            case "upsert" | "update_vectors":
                name = "upsert limit" if kind == "upsert" else "update limit"
                self._limit(len(body["points"]), "upsert_max_batchsize", name)
                self._size()
                self._lengths(body["points"])
            case "delete" | "set_payload":
                self._filter(filter_, "unindexed_filtering_update")
            case "create_index":
                self._index_count()

    def _limit(self, value: float | None, setting: str, name: str) -> None:
        limit = self.config.get(setting)
        if limit is not None and value is not None and value > limit:
            description = f'Limit exceeded {_shown(value)} > {_shown(limit)} for "{name}"'
            raise refused(description, f'Reduce the "{name}" parameter to or below {_shown(limit)}.')

    def _exact(self, body: Body) -> None:
        if self.config.get("search_allow_exact") is False and body.get("exact"):
            raise refused("Exact search disabled!", "Set exact=false.")

    def _params(self, params: Body) -> None:
        self._limit((params.get("quantization") or {}).get("oversampling"), "search_max_oversampling", "oversampling")
        self._limit(params.get("hnsw_ef"), "search_max_hnsw_ef", "hnsw_ef")
        self._filter((params.get("idf") or {}).get("corpus"), "unindexed_filtering_retrieve")
        self._exact(params)

    def _filter(self, filter_: Body | None, setting: str) -> None:
        if filter_ is None:
            return
        missing = one_unindexed(filter_, self.indexes) if self.config.get(setting) is False else None
        if missing is not None:
            key, kinds = missing
            description = (
                f'Index required but not found for "{key}" of one of the following types: [{", ".join(kinds)}]'
            )
            raise refused(description, "Create an index for this key or use a different filter.")
        count, limit = _count(filter_), self.config.get("filter_max_conditions")
        if limit is not None and count > limit:
            advice = "Reduce the amount of conditions of your filter."
            raise refused(f"Filter condition limit reached ({count} > {limit})", advice)
        size, limit = _size(filter_), self.config.get("condition_max_size")
        if limit is not None and size > limit:
            raise refused(f"Condition size limit reached ({size} > {limit})", "Reduce the size of your condition.")

    def _full_scan(self, body: Body) -> None:
        query, using = body.get("query"), body.get("using") or ""
        vectors = self.settings.get("vectors", {})
        if self.config.get("search_allow_exact") is not False or query is None:
            return
        if using in self.settings.get("sparse_vectors", {}):
            return
        params = vectors if "size" in vectors and using == "" else vectors.get(using, {})
        every, own = self.settings.get("hnsw_config", {}), params.get("hnsw_config", {})
        m = own.get("m", every.get("m", 16))
        if m > 0:
            return
        where = f" on '{using}'" if using else ""
        if not any(self._is_tenant(each) for each in conditions(body.get("filter") or {})):
            reason = "global vector indexing is disabled (hnsw_config.m = 0)"
            raise refused(f"Request is forbidden{where} because {reason}", TENANT_ADVICE)
        if own.get("payload_m", every.get("payload_m", m)) == 0:
            reason = "vector indexing is disabled (hnsw_config.m = 0 and hnsw_config.payload_m = 0)"
            raise refused(f"Request is forbidden{where} because {reason}", INDEXING_ADVICE)

    def _is_tenant(self, condition: Body) -> bool:
        schema = self.indexes.get(condition.get("key", ""))
        return isinstance(schema, Mapping) and bool(schema.get("is_tenant"))

    def _size(self) -> None:
        limit = self.config.get("max_points_count")
        if limit is not None and self.points >= limit:
            raise Refusal(400, f"Bad request: Max points count limit of {limit} reached!")

    def _lengths(self, points: list[Body]) -> None:
        multi, sparse = (self.config.get(name) or {} for name in ("multivector_config", "sparse_config"))
        for point in points:
            vectors = point.get("vector")
            for name, vector in (vectors if isinstance(vectors, dict) else {"": vectors}).items():
                match vector:
                    case [[*_], *_]:
                        kind, what, length = "Multivector", "vectors", len(vector)
                        limit = (multi.get(name) or {}).get("max_vectors")
                    case {"indices": list(indices)}:
                        kind, what, length = "Sparse vector", "indices", len(indices)
                        limit = (sparse.get(name) or {}).get("max_length")
                    case _:
                        continue
                if limit is not None and length > limit:
                    shown = f"{kind} '{name}' has a limit of {limit} {what}, but {length} were provided!"
                    raise Refusal(400, f"Bad request: {shown}")

    def _index_count(self) -> None:
        limit = self.config.get("max_payload_index_count")
        if limit is not None and len(self.indexes) >= limit:
            description = f"Collection already has the maximum number of payload indices ({limit})"
            raise refused(description, "Please delete an existing index before creating a new one.")


CHECKED: Mapping[tuple[str, str], str] = {
    ("POST", "points/query"): "query",
    ("POST", "points/query/batch"): "query",
    ("POST", "points/scroll"): "scroll",
    ("POST", "points/count"): "count",
    ("POST", "points"): "retrieve",
    ("POST", "facet"): "facet",
    ("PUT", "points"): "upsert",
    ("PUT", "points/vectors"): "update_vectors",
    ("POST", "points/payload"): "set_payload",
    ("POST", "points/delete"): "delete",
    ("POST", "points/batch"): "batch",
    ("PUT", "index"): "create_index",
}


def refused(description: str, advice: str) -> Refusal:
    """A request that strict mode forbids."""
    return Refusal(400, f"Bad request: {description}. Help: {advice}")


def _shown(number: float) -> str:
    return str(number).removesuffix(".0")


def _requests(route: tuple[str, str], body: Any) -> Iterator[tuple[str, Body]]:
    if route == ("POST", "points/query/batch"):
        yield from (("query", each) for each in body["searches"])
    elif route == ("POST", "points/batch"):
        yield from (pair for operation in body["operations"] for pair in operation.items())
    else:
        yield CHECKED[route], body


def _count(filter_: Body) -> int:
    return sum(1 if inner is None else _count(inner) for inner in map(_inner, conditions(filter_)))


def _size(filter_: Body) -> int:
    return max(map(_condition_size, conditions(filter_)), default=0)


def _condition_size(condition: Body) -> int:
    inner = _inner(condition)
    if inner is not None:
        return _size(inner)
    match = condition.get("match") or {}
    return len(condition.get("has_id") or match.get("any") or match.get("except") or ())


def _inner(condition: Body) -> Body | None:
    """The filter in a condition, None for a condition of a field, an id or a vector."""
    if "nested" in condition:
        nested: Body = condition["nested"]["filter"]
        return nested
    return condition if {"must", "should", "must_not", "min_should"} & condition.keys() else None

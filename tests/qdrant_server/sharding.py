"""A collection in several shards, as a server holds it: each point in one, and every answer merged from all.

Each shard is a collection of the engine and counts IDF over its own points, as a server's shards do. Not played: a
server asks each of its shards for fewer points than the limit, where that is 128 or more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operators.clients.qdrant_edge.shards import Collection
from tests.qdrant_server.conditions import parse_id
from tests.qdrant_server.hash_ring import shard_of
from tests.qdrant_server.modifiers import change_modifier
from tests.qdrant_server.refusals import bad_request, reading, wrong_input
from tests.qdrant_server.requests import DEFAULT_LIMIT
from tests.qdrant_server.routes import LOOKUPS, create_index, run_searches
from tests.qdrant_server.routes import Route as Answering
from tests.qdrant_server.settings import described
from tests.qdrant_server.updates import KINDS

Body = Mapping[str, Any]
Route = tuple[str, str]

UPDATES: Mapping[Route, str] = {
    ("PUT", "points"): "upsert",
    ("PUT", "points/vectors"): "update_vectors",
    ("POST", "points/payload"): "set_payload",
    ("POST", "points/delete"): "delete",
}
ASCENDING = frozenset({"Euclid", "Manhattan"})


@dataclass(frozen=True, slots=True)
class Sharded:
    """The shards of one collection, at least one."""

    shards: Sequence[Collection]

    @property
    def settings(self) -> Body:
        """The collection's settings: those at its creation, and those patched since."""
        created = self.shards[0].created
        settings: Body = created.get("settings", created)
        return settings

    @property
    def _keyed(self) -> bool:
        """True if points go to shards by keys: there are none before a key is made, which nothing here can do."""
        return self.settings.get("sharding_method") == "custom"

    def patch(self, settings: Body) -> None:
        """Change the settings; they last until the server ends, or for good once an index was created after them."""
        held = self.settings.get("sparse_vectors", {})
        for name, params in settings.get("sparse_vectors", {}).items():
            modifier = params.get("modifier", "none")
            if modifier != held[name].get("modifier", "none"):
                for shard in self.shards:
                    change_modifier(shard, name, modifier)
        for shard in self.shards:
            shard.created = {**shard.created, "settings": settings}

    async def answer(self, route: Route, body: Any) -> Any:
        """The result of one request, None where there is no such route; raises Refusal."""
        match route:
            case ("GET", ""):
                return await self.info()
            case ("POST", "points/query"):
                return (await self._search([body]))[0]
            case ("POST", "points/query/batch"):
                with reading():
                    searches = list(body["searches"])
                return await self._search(searches)
            case ("POST", "points/batch"):
                with reading():
                    operations = [pair for operation in body["operations"] for pair in operation.items()]
                return [await self._update(kind, inner) for kind, inner in operations]
            case ("PUT", "index"):
                [made, *_] = await self._everywhere(create_index, body)
                # Without a shard key there is no shard that could complete it.
                return {**made, "status": "acknowledged"} if self._keyed else made
            case _ if route in UPDATES:
                return await self._update(UPDATES[route], body)
        if route not in LOOKUPS:
            return None
        if len(self.shards) == 1:
            return await LOOKUPS[route](self.shards[0], body)
        return await self._lookup(route, body)

    async def info(self) -> dict[str, Any]:
        """The collection's description, its counts those of all shards."""
        parts = [await LOOKUPS["GET", ""](shard, None) for shard in self.shards]
        whole: dict[str, Any] = {**parts[0], "config": described(self.settings)}
        for name in ("points_count", "indexed_vectors_count", "segments_count"):
            whole[name] = sum(part[name] for part in parts)
        whole["payload_schema"] = {
            field: {**index, "points": sum(part["payload_schema"][field]["points"] for part in parts)}
            for field, index in parts[0]["payload_schema"].items()
        }
        return whole

    async def _search(self, bodies: list[Any]) -> list[dict[str, Any]]:
        if len(self.shards) == 1:
            return await run_searches(self.shards[0], bodies)
        with reading():
            windows = [(body.get("offset") or 0, _limit(body)) for body in bodies]
        wider = [
            {**body, "offset": 0, "limit": limit and offset + limit}
            for body, (offset, limit) in zip(bodies, windows, strict=True)
        ]
        found = [await run_searches(shard, wider) for shard in self.shards]
        return [
            {"points": self._best(body, [hit for part in parts for hit in part["points"]])[offset : offset + limit]}
            for body, (offset, limit), *parts in zip(bodies, windows, *found, strict=True)
        ]

    def _best(self, body: Body, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        vectors, using = self.settings.get("vectors", {}), body.get("using") or ""
        params = vectors if "size" in vectors else vectors.get(using, {})
        if body.get("query") is None:
            return sorted(hits, key=_by_id)
        return sorted(hits, key=lambda hit: hit["score"], reverse=params.get("distance") not in ASCENDING)

    async def _lookup(self, route: Route, body: Any) -> Any:
        ask = LOOKUPS[route]
        match route:
            case ("POST", "points/scroll"):
                return await self._scroll(body)
            case ("POST", "points"):
                records = [record for shard in self.shards for record in await ask(shard, body)]
                order = {str(parse_id(each)): number for number, each in enumerate(body["ids"])}
                return sorted(records, key=lambda record: order[str(record["id"])])
            case ("POST", "points/count"):
                return {"count": sum([(await ask(shard, body))["count"] for shard in self.shards])}
        with reading():
            limit = _limit(body)
        counts: Counter[str | int | bool] = Counter()
        for shard in self.shards:
            for hit in (await ask(shard, {**body, "limit": limit and max(limit * 4, 128)}))["hits"]:
                counts[hit["value"]] += hit["count"]
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return {"hits": [{"value": value, "count": count} for value, count in ordered[:limit]]}

    async def _scroll(self, body: Any) -> dict[str, Any]:
        with reading():
            limit, order = _limit(body), body.get("order_by")
        wider = {**body, "limit": limit and limit + 1}
        pages = [await LOOKUPS["POST", "points/scroll"](shard, wider) for shard in self.shards]
        records = sorted((record for page in pages for record in page["points"]), key=_by_id)
        if order is not None:
            descending = isinstance(order, dict) and order.get("direction") == "desc"
            records.sort(key=lambda record: record["order_value"], reverse=descending)
        following = records[limit]["id"] if order is None and len(records) > limit else None
        return {"points": records[:limit], "next_page_offset": following}

    async def _everywhere(self, update: Answering, body: Any) -> list[Any]:
        return [await update(shard, body) for shard in self.shards]

    async def _update(self, kind: str, body: Any) -> Any:
        if kind not in KINDS:
            raise bad_request(f"the engine has no update `{kind}`")
        if self._keyed:
            raise wrong_input("Shard key not specified")
        update = KINDS[kind]
        if len(self.shards) == 1:
            return await update(self.shards[0], body)
        if not isinstance(body, dict) or not isinstance(body.get("points"), list):
            return (await self._everywhere(update, body))[0]
        parts: list[list[Any]] = [[] for _ in self.shards]
        with reading():
            for point in body["points"]:
                identity = parse_id(point["id"] if isinstance(point, dict) else point)
                parts[shard_of(identity, len(self.shards))].append(point)
        results = [
            await update(shard, {**body, "points": part})
            for shard, part in zip(self.shards, parts, strict=True)
            if part or not body["points"]
        ]
        return results[0]


def _limit(body: Body) -> int:
    limit = body.get("limit")
    return DEFAULT_LIMIT if limit is None else int(limit)


def _by_id(record: Body) -> tuple[bool, int, str]:
    """Numbers before UUIDs, as the server orders ids."""
    identity = record["id"]
    return (False, identity, "") if isinstance(identity, int) else (True, 0, identity)

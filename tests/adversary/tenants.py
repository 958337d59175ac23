"""Two tenants of one flow over collections that another tool fills, each text with its tenant's canary."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import httpx

from bench.kafka.broker import Broker
from schemas.result import ResultEvent
from tests import qdrant_server
from tests.adversary.lying import Liar
from tests.integration.cascade_backends import Backends
from tests.integration.deployment import Deployment

TENANTS: Final = ("red", "blue")
POINTS: Final = 6
VECTOR: Final = [0.6, 0.8, 0.0]

Json = dict[str, Any]

EVENTS: Final[Sequence[Json]] = (
    {"text": "lantern", "vector": VECTOR},
    {"text": "lantern", "vector": VECTOR, "recipe": "vector", "record": True, "debug": True},
    {"text": "lantern", "vector": VECTOR, "recipe": "decay", "explain": True, "rerank": False},
    {"text": "lantern", "vector": VECTOR, "recipe": "distance", "record": True},
    {"vector": VECTOR, "limit": 2},
    {"filters": [{"field": "text", "op": "exists", "value": True}], "limit": 2, "record": True},
    {"subject": "lamp", "limit": 2},
)
"""Searches of several recipes, recorded and explained, short pages, lookups in pages."""


@dataclass
class Tenants:
    """The flow, the Qdrant that it asks, and all that came out of it."""

    system: Deployment
    qdrant: str
    liar: Liar
    backends: Backends
    asked: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Json] = field(default_factory=dict)

    def fill(self, collection: str, *tenants: str, remade: bool = False) -> None:
        """Make the collection, with points of the tenants; of each point this is the first version.

        The first tenant's points have the same ids in every making.
        """
        place = f"{self.qdrant}/collections/{collection}"
        if remade:
            httpx.delete(place).raise_for_status()
        httpx.put(place, json={"vectors": {"dense": {"size": 3, "distance": "Cosine"}}}).raise_for_status()
        points = [
            {
                "id": str(UUID(int=1000 * number + each)),
                "vector": {"dense": [0.6, 0.8, each / 100]},
                "payload": {"meta": {"tenant": tenant}, "body": f"lantern {each} canary-{tenant}", "subject": "lamp"},
            }
            for number, tenant in enumerate(tenants)
            for each in range(POINTS)
        ]
        httpx.put(f"{place}/points?wait=true", json={"points": points}).raise_for_status()

    def point(self, alias: str, collection: str) -> None:
        """Give the alias to the collection."""
        actions = [{"create_alias": {"alias_name": alias, "collection_name": collection}}]
        httpx.post(f"{self.qdrant}/collections/aliases", json={"actions": actions}).raise_for_status()

    def ask(self, tenant: str, destination: str, events: Sequence[Mapping[str, Any]] = EVENTS) -> list[Json]:
        """The answers to one tenant's queries, in their order; each holds to the contract."""
        ids = [uuid4().hex for _ in events]
        self.asked |= dict.fromkeys(ids, tenant)
        self.system.ask(
            [
                {"query_id": id_, "namespace": tenant, "destination": destination, **event, **_words(tenant, event)}
                for id_, event in zip(ids, events, strict=True)
            ]
        )
        for record in self.system.output_records(len(self.asked), settled=False):
            assert record.kind == "result", record
            self.answers[record.value["query_id"]] = record.value
        found = [self.answers[id_] for id_ in ids]
        for answer in found:
            ResultEvent.model_validate(answer)
        return found

    def leaks(self) -> list[str]:
        """The documents of other tenants in any answer, and in any request to the reranker."""
        told = [(self.asked[id_], json.dumps(answer)) for id_, answer in self.answers.items()]
        told += [(body["query"].split()[-1], json.dumps(body)) for body in self.backends.reranker.requests]
        canaries = ((tenant, set(re.findall(r"canary-(\w+)", said)) - {tenant}) for tenant, said in told)
        return [f"{tenant} was told of {other}" for tenant, others in canaries for other in others]


def _words(tenant: str, event: Mapping[str, Any]) -> dict[str, str]:
    """The reranker reads whose query it is."""
    return {"text": f"{event['text']} {tenant}"} if "text" in event else {}


@contextmanager
def running(broker: Broker, directory: Path, name: Any, *, firewall: bool) -> Iterator[Tenants]:
    """The search flow before a proxy that may lie, over the collections `mixed`, `shared` and the alias `live`."""
    liar, backends = Liar(), Backends()
    with (
        qdrant_server.serve(directory / "engine") as qdrant,
        liar.before(qdrant) as before,
        backends.serving() as (_, reranker),
    ):
        sections = {
            "qdrant": {
                "url": before,
                "timeout": 20,
                "dimension": 3,
                "destinations": {"mixed": "mixed", "shared": "shared", "live": "live"},
                "vectors": {"sparse": None, "tokens": None},
                "fields": {"text": "body", "namespace": "meta.tenant"},
                "ids": "uuid",
            },
            "rerank": {"kind": "cohere", "url": reranker, "timeout": 20},
            "firewall": {"enabled": firewall},
            "defaults": {"destination": "mixed"},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, directory, name, sections) as system:
            tenants = Tenants(system, qdrant, liar, backends)
            tenants.fill("mixed", *TENANTS)
            tenants.fill("shared", "red")
            tenants.fill("red", "red")
            tenants.fill("blue", "blue")
            tenants.point("live", "red")
            system.start()
            yield tenants

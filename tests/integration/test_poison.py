"""Documents that the embedder cannot digest, in the running indexing flow, with an outage of the embedder between."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from bench.kafka.broker import Broker
from schemas import headers as names
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.reranked import hosting
from tests.operators.clients.model_servers.manners import POISON
from tests.operators.clients.model_servers.playing import DIMENSION, Playing

EACH = 4
"""Documents of each form of poison."""

SAID = (
    "unsupported value: NaN",
    "not a list of numbers",
    "a vector of zeros",
    "too large to process",
    "maximum context",
)
"""The reason in a dead letter, for each form: the server's where it gave one."""

PATIENCE = 30.0
"""Seconds beyond an outage within which indexing goes on."""


class Embedder:
    """A server that plays all forms of poison, and fails for every text during one outage of so many seconds.

    It keeps the times at which a text was embedded that hadn't been before.
    """

    def __init__(self, outage: float, after: int) -> None:
        self.playing = Playing("embedder", "openai", *POISON)
        self.new = [time.monotonic()]
        self.outages = 0
        self._outage, self._after = outage, after
        self._until = 0.0
        self._seen: set[str] = set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        now = time.monotonic()
        if not self.outages and len(self._seen) >= self._after:
            self.outages, self._until = 1, now + self._outage
        self.playing.down = now < self._until
        response = await self.playing(request)
        asked = set(self.playing.calls[-1])
        if response.status == 200 and not asked <= self._seen:
            self._seen |= asked
            self.new.append(now)
        return response


@pytest.mark.parametrize(
    ("count", "outage"),
    [
        pytest.param(600, 3.0, id="600 documents"),
        pytest.param(10_000, 60.0, id="10,000 documents", marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
def test_poison_stops_nothing_but_itself(
    count: int, outage: float, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """Of documents, 20 of them poison in five forms, before, in and after an outage, all others are indexed, those 20
    are dead letters with the reason, the watermark is at the end, and none of it waits much longer than the outage.
    """
    poison = {count * number // (EACH * len(POISON)): number for number in range(EACH * len(POISON))}
    texts = [
        f"{POISON[poison[place] % len(POISON)].text} {place}" if place in poison else f"text {place}"
        for place in range(count)
    ]
    embedder = Embedder(outage, count // 2)
    with hosting(embedder) as url, qdrant_server.running(tmp_path / "engine") as qdrant:
        sections = {
            "qdrant": {"url": qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": url},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as deployment:
            deployment.produce(
                "documents", [json.dumps({"id": f"d{n}", "text": t}).encode() for n, t in enumerate(texts)]
            )
            deployment.start("index")
            wait_until(lambda: settled(deployment) == count, timeout=outage + 300)
            letters = deployment.output_records(len(poison))
            assert counted(qdrant) == count - len(poison)
    assert embedder.outages == 1
    said = {json.loads(letter.value["raw"])["id"]: letter for letter in letters}
    assert said.keys() == {f"d{place}" for place in poison}
    assert len(letters) == len(poison)
    for place, number in poison.items():
        letter = said[f"d{place}"]
        assert letter.kind == "invalid"
        assert SAID[number % len(POISON)] in letter.headers[names.MESSAGE].decode()
    assert (
        max(later - before for before, later in zip(embedder.new, embedder.new[1:], strict=False)) < outage + PATIENCE
    )


def settled(deployment: Deployment) -> int:
    """Documents up to the watermarks and dead letters: the highest place of each partition."""
    ends: dict[str, int] = {}
    for key, value in deployment.watermarks().items():
        partition = key.rsplit("|", 1)[1]
        ends[partition] = max(ends.get(partition, 0), int(value) + 1)
    for letter in deployment.records("dead_letters"):
        headers = dict(letter.headers)
        partition, offset = headers[names.PARTITION].decode(), int(headers[names.OFFSET])
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    return sum(ends.values())


def counted(qdrant: str) -> int:
    """The points of the collection."""
    answer = httpx.post(f"{qdrant}/collections/documents/points/count", json={"exact": True}, timeout=20)
    return int(answer.json()["result"]["count"])

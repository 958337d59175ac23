"""Floods of refused events beside the queries of another tenant, through the search flow on a real broker.

A few kinds come at once, and hundreds of each one kind after the other. All at once are some 400 MB: queries wait
behind them in their partitions, and some expire.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests.adversary.refused import QUERIES
from tests.faults.law import Asked, Place, account
from tests.faults.load import Load
from tests.faults.reader import Reader, contents
from tests.integration.deployment import Deployment, wait_until

RATE = 10.0
"""Good queries a second: so few that a machine with other work can answer them beside the flood."""

TIMEOUT_MS = 60_000
NAMED = list(QUERIES)[:5]


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Deployment]:
    """The search flow before backends that answer at once."""
    with (
        stub_backends() as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant, "timeout": 60}}) as running,
    ):
        running.settings["embedder"] = {"kind": "openai", "url": stubs.embed, "timeout": 60}
        running.settings["limits"] = {"timeout": 60}
        yield running


def _await_all(reader: Reader, bootstrap: str, topic: str) -> dict[Place, Asked]:
    """Return what was asked until now, once all of it has ended."""
    asked = contents(bootstrap, topic)
    wait_until(lambda: asked.keys() <= {each.place for each in list(reader.output_records)}, 300)
    return asked


@pytest.mark.parametrize(
    ("waves", "count"),
    [
        pytest.param([list(QUERIES)[at::5] for at in range(5)], 2, id="all kinds"),
        pytest.param([[kind] for kind in NAMED], 300, id="300 of a kind", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(900)
def test_good_queries_are_answered_in_time_beside_a_flood(
    deployment: Deployment, waves: list[list[str]], count: int
) -> None:
    """Each event of the flood ends once, each query of the other tenant is answered in full, and the process lives."""
    flow = deployment.start()
    bootstrap, names = deployment.broker.bootstrap, deployment.names
    flood = Load(bootstrap, names["queries"])
    with (
        Reader(bootstrap, names["results"], names["dead_letters"]) as reader,
        Load(bootstrap, names["queries"]) as load,
    ):
        load.start(RATE, poison=False, timeout_ms=TIMEOUT_MS)
        wait_until(lambda: reader.output_records)
        for kinds in waves:
            # Messages of one producer, of one key: they are in one partition, and the queries of the other in all.
            flood.send([(b"flood", QUERIES[kind]) for kind in kinds] * count)
            _await_all(reader, bootstrap, names["queries"])
        load.stop()
        asked = _await_all(reader, bootstrap, names["queries"])
        answers = list(reader.output_records)
    assert flow.process.poll() is None, flow.log.read_text()
    assert account(asked, answers).breaches() == []
    good = {place for place, each in asked.items() if each.query_id is not None}
    assert Counter(each.kind for each in answers if each.place in good) == {"ok": len(good)}

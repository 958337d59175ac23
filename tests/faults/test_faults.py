"""The fault harness: one scenario of each kind, two of them with kafka-python; `make faults` runs them all."""

from collections.abc import Iterator

import pytest

from bench.kafka.broker import Broker
from tests.faults.catalogue import CATALOGUE
from tests.faults.run import Surroundings, surroundings
from tests.missing import missing

SCENARIOS = (
    "second-signal",
    "broker-killed",
    "results-take-less",
    "disk-full",
    "reranker-flapping",
    "clock-behind",
    "poison",
    "late-commit",
)

KAFKA_PYTHON = {"results-take-less", "late-commit"}
"""With kafka-python, whose transactions and refusals differ most; the others with the default client."""

TRIALS = [(name, "kafka-python" if name in KAFKA_PYTHON else "librdkafka") for name in SCENARIOS]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def around(broker: Broker) -> Iterator[Surroundings]:
    """The shared servers of the scenarios."""
    with surroundings(shared=broker) as shared:
        yield shared


@pytest.mark.both_clients
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("name", "client"), TRIALS)
def test_the_law_holds(around: Surroundings, name: str, client: str) -> None:
    """Whatever is done to it, every message has exactly one terminal record, and the scenario's promise is kept."""
    row = around.run(CATALOGUE[name], client)
    if row.skipped is not None:
        missing(row.skipped)
    assert row.breaches == []


def test_every_kind_but_load_has_its_scenario() -> None:
    """The overload, which takes minutes and the whole machine, is left to `make faults`; no other kind is."""
    kinds = {scenario.kind for scenario in CATALOGUE.values()}
    assert kinds - {CATALOGUE[name].kind for name in SCENARIOS} == {"load"}

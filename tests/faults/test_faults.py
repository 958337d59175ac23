"""The fault harness: one scenario of each kind, some of them with each Kafka client; `make faults` runs them all."""

from collections.abc import Iterator

import pytest

from tests.faults.catalogue import CATALOGUE
from tests.faults.run import CLIENTS, Surroundings, surroundings
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

BOTH = {"second-signal", "results-take-less", "poison", "late-commit"}
"""With each client; the others with the default one, lest the whole take too long."""

TRIALS = [(name, client) for name in SCENARIOS for client in CLIENTS if client == "librdkafka" or name in BOTH]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def around(broker_tools: None) -> Iterator[Surroundings]:
    """What the scenarios share."""
    with surroundings() as shared:
        yield shared


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

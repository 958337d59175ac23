"""The law, in a model of transactions over a network that holds back, repeats and loses: with the rule, and without."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from operators.delivery.producers import FencedProducer
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from tests.operators.delivery.transaction_model import PARTITION, Broker, Fate, ModelProducer, Network
from tests.operators.samples import output_record

pytestmark = pytest.mark.slow

REPLICAS = ("a", "b")
SETTINGS = settings(deadline=None, stateful_step_count=12, suppress_health_check=list(HealthCheck))
UNTIL_IT_FAILS = settings(SETTINGS, max_examples=5000, phases=[Phase.generate], database=None)

_BATCH = st.integers(1, 3)
_DISTURBANCES = 3
"""At most so many broken connections a step: more of the same find nothing new."""


class Heedless(ModelProducer):
    """A client without the rule: it never retires."""

    def retirement(self) -> str | None:
        """Never."""
        return None


class Drawn:
    """The network's doings, drawn by hypothesis in one step."""

    def __init__(self) -> None:
        self.data: st.DataObject | None = None
        self.left = 0

    def begin(self, data: st.DataObject | None) -> None:
        """Draw from `data`; from None, an undisturbed network."""
        self.data, self.left = data, _DISTURBANCES

    def fate(self) -> Fate:
        """The next request's."""
        if self.data is None or not self.left:
            return Fate.DELIVERED
        fate: Fate = self.data.draw(st.sampled_from([Fate.DELIVERED, Fate.DELIVERED, Fate.DELIVERED, *Fate]))
        self.left -= fate is not Fate.DELIVERED
        return fate

    def arrivals(self, late: int) -> list[int]:
        """Which of so many late requests arrive now."""
        if self.data is None or not late:
            return []
        return [index for index in range(late) if self.data.draw(st.booleans())]


@dataclass
class Replica:
    """A process: its producer, and where it reads on; it starts again when it ends."""

    producer: FencedProducer
    position: int


class Delivery(RuleBasedStateMachine):
    """Two replicas that answer one partition's queries by turns, each in transactions of its own."""

    client = ModelProducer
    records_first = True

    @initialize()
    def begin(self) -> None:
        """Both replicas start; the first is the owner."""
        self.drawn = Drawn()
        self.broker = Broker()
        self.network = Network(self.broker, self.drawn)
        self.replicas = {name: Replica(self.made(name), 0) for name in REPLICAS}
        self.owner = REPLICAS[0]

    def made(self, name: str) -> FencedProducer:
        """A producer of this name, as a process makes it."""
        return FencedProducer(
            lambda: self.client(self.network, name, records_first=self.records_first), "model", lambda: None
        )

    def start(self, name: str) -> None:
        """A process starts: what its predecessor left open is aborted, and it reads on from what is committed."""
        self.replicas[name] = Replica(self.made(name), self.broker.committed)

    @rule(count=_BATCH, data=st.data())
    def answer(self, count: int, data: st.DataObject) -> None:
        """The owner reads some queries and delivers their answers, trying again as the sink does."""
        self.drawn.begin(data)
        replica = self.replicas[self.owner]
        offsets = range(replica.position, replica.position + count)
        records = [output_record(offset, value=b"%d" % offset) for offset in offsets]
        while True:
            try:
                replica.producer.prepare()
                replica.producer.deliver(records, {PARTITION: Commit(offsets.stop, "")}, self.broker.generation)
            except RetriableDelivery:
                continue
            except FatalDelivery:
                self.drawn.begin(None)
                self.start(self.owner)
            else:
                replica.position = offsets.stop
            return

    @rule()
    def kill(self) -> None:
        """The owner is killed between two transactions, and started again."""
        self.drawn.begin(None)
        self.start(self.owner)

    @rule()
    def rebalance(self) -> None:
        """The partition goes to the other replica, which reads on from what is committed, once nothing is open."""
        self.drawn.begin(None)
        self.broker.generation += 1
        self.broker.time_out()
        [self.owner] = set(REPLICAS) - {self.owner}
        self.replicas[self.owner].position = self.broker.committed

    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """Late requests arrive while nothing happens."""
        self.drawn.begin(data)
        for index in sorted(self.drawn.arrivals(len(self.network.late)), reverse=True):
            self.network.late.pop(index)()

    @invariant()
    def each_once(self) -> None:
        """Every query below the committed offset has exactly one committed answer, and none above it has."""
        assert sorted(self.broker.results) == list(range(self.broker.committed))


@pytest.mark.parametrize("records_first", [True, False])
def test_the_law_holds_by_the_rule(records_first: bool) -> None:
    """Whatever is lost, late or repeated, whoever owns the partition: each query has exactly one answer."""

    class Ruled(Delivery):
        pass

    Ruled.records_first = records_first
    run_state_machine_as_test(Ruled, settings=SETTINGS)


@pytest.mark.parametrize("records_first", [True, False])
def test_the_law_fails_without_the_rule(records_first: bool) -> None:
    """The model has the fault that the rule is there for: without it, queries are lost or answered twice."""

    class Unruled(Delivery):
        client = Heedless

    Unruled.records_first = records_first
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Unruled, settings=UNTIL_IT_FAILS)

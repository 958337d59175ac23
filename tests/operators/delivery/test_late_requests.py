"""The clients' conduct when a connection of their producer breaks, seen on the wire before a real broker."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.kafka.broker import Broker
from bench.ports import free_port
from operators.delivery.client import KafkaClient
from operators.delivery.tracker import Commit
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings
from tests.kafka.frames import Api
from tests.kafka.interceptor import LATE, Fate, Interceptor, Order
from tests.operators.delivery.members import (
    MAX_BATCH,
    REPLICA,
    WITHIN,
    Make,
    Member,
    answers,
    fenced,
    first,
    member,
    results,
)

DELIVERIES = (Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN)
BREAKING = (Fate.HELD, Fate.REPEATED, Fate.DROPPED, Fate.UNANSWERED)
_UNNUMBERED = 4
"""The highest version of the transactions' requests in which nothing tells one transaction from the next (KIP-890)."""


@pytest.fixture(scope="module")
def hosted(broker_tools: None) -> Iterator[tuple[Broker, Interceptor]]:
    """A broker, and the interceptor before the listener that clients are sent to."""
    target = free_port()
    with Interceptor("127.0.0.1", target) as wire, Broker(proxied=(target, wire.port)) as broker:
        yield broker, wire


@pytest.fixture
def broker(hosted: tuple[Broker, Interceptor]) -> Broker:
    """That broker, for the topics' sake."""
    return hosted[0]


@pytest.fixture
def wire(hosted: tuple[Broker, Interceptor]) -> Iterator[Interceptor]:
    """The interceptor, forwarding; without orders afterwards."""
    yield hosted[1]
    hosted[1].order()
    hosted[1].switch("pass")


class Deliveries:
    """One transaction after the other, each of a record and an offset of its own, and what was delivered."""

    def __init__(self, client: KafkaClient, reader: Member, settings: KafkaSettings) -> None:
        self.client = client.name
        self.reader = reader
        self.delivered: list[bytes | None] = []
        self.replaced = 0
        self._settings = settings
        self._producer = fenced(client, settings.group_id, self._count)

    def deliver(self) -> None:
        """Deliver the next, trying again as the sink does; fails if it never succeeds."""
        number = len(self.delivered) + 1
        group = self.reader.consumer.group_metadata()
        commits = {first(self._settings): Commit(number, "")}
        limit = time.monotonic() + WITHIN
        while True:
            try:
                self._producer.prepare()
                self._producer.deliver(answers(self._settings, b"%d" % number), commits, group)
                break
            except RetriableDelivery:
                assert time.monotonic() < limit
        self.delivered.append(b"%d" % number)

    def assert_each_once(self) -> None:
        """Every record is there once, and the group's offset is the last one's."""
        assert sorted(results(self._settings), key=str) == sorted(self.delivered, key=str)
        place = first(self._settings)
        assert self.reader.consumer.committed([place]) == {place: Commit(len(self.delivered), "")}

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()

    def _count(self) -> None:
        self.replaced += 1


@pytest.fixture
def deliveries(make: Make, settings: KafkaSettings, wire: Interceptor) -> Iterator[Deliveries]:
    """Deliveries whose producer reaches the broker through the interceptor."""
    proxied = settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{wire.port}", "request_timeout": 3})
    # Nobody polls it while something is delivered.
    patient = settings.model_copy(update={"max_poll_interval": 300})
    with member(make(patient), settings) as reader, closing(Deliveries(make(proxied), reader, settings)) as made:
        yield made


def test_a_transaction_is_what_the_model_takes_it_for(deliveries: Deliveries, wire: Interceptor) -> None:
    """Each client's requests, their order and versions are the model's; one that changes them needs another model."""
    deliveries.deliver()
    wire.forwarded.clear()
    deliveries.deliver()
    requests = list(wire.forwarded)
    assert all(request.version <= _UNNUMBERED for request in requests if request.api is not Api.PRODUCE)
    kinds = [request.api for request in requests]
    assert set(kinds) == set(DELIVERIES)
    assert kinds[-1] is Api.END_TXN
    assert kinds.index(Api.ADD_PARTITIONS_TO_TXN) < kinds.index(Api.PRODUCE)
    assert kinds.index(Api.ADD_OFFSETS_TO_TXN) < kinds.index(Api.TXN_OFFSET_COMMIT)
    records_first = kinds.index(Api.PRODUCE) < kinds.index(Api.TXN_OFFSET_COMMIT)
    assert records_first == (deliveries.client == "kafka-python")


def test_undisturbed_no_producer_is_replaced(deliveries: Deliveries) -> None:
    """A hundred transactions are one producer's."""
    for _ in range(100):
        deliveries.deliver()
    assert deliveries.replaced == 0


@pytest.mark.parametrize("fate", BREAKING)
def test_a_broken_connection_retires_the_producer(deliveries: Deliveries, wire: Interceptor, fate: Fate) -> None:
    """Whichever request it carried: once the transaction has ended, another producer begins the next."""
    deliveries.deliver()
    for replaced, api in enumerate(DELIVERIES):
        order = Order(fate, api)
        wire.order(order)
        deliveries.deliver()
        assert order.caught is not None
        assert deliveries.replaced == replaced
        deliveries.deliver()
        assert deliveries.replaced == replaced + 1
        if fate in LATE:
            wire.release(order)
            assert order.errors, f"the broker took {api.name} that came late"
        deliveries.deliver()
    deliveries.assert_each_once()


def test_within_the_next_transaction_nothing_late_is_taken(deliveries: Deliveries, wire: Interceptor) -> None:
    """The end of a transaction, or its offsets, sent again and arriving in the midst of the next, is refused."""
    deliveries.deliver()
    for api, point in itertools.product((Api.END_TXN, Api.TXN_OFFSET_COMMIT), DELIVERIES):
        order = Order(Fate.HELD, api, point)
        wire.order(order)
        deliveries.deliver()
        deliveries.deliver()
        assert order.errors, f"the broker took {api.name} that came late, after {point.name}"
    deliveries.assert_each_once()


@pytest.mark.parametrize("mode", ["refuse", "hang"])
def test_a_replacement_waits_for_a_broker_that_is_away(deliveries: Deliveries, wire: Interceptor, mode: str) -> None:
    """Nothing is delivered while no connection is to be had, or none answers; all goes on once one does."""
    deliveries.deliver()
    wire.switch(mode)
    delivery = threading.Thread(target=deliveries.deliver)
    delivery.start()
    deliveries.reader.poll_for(5)
    assert deliveries.delivered == [b"1"]
    wire.switch("pass")
    deliveries.reader.until(lambda: not delivery.is_alive())
    assert deliveries.delivered == [b"1", b"2"]
    deliveries.assert_each_once()


@pytest.mark.parametrize("mode", ["refuse", "hang"])
def test_a_producer_without_a_broker_may_be_had_later(
    make: Make, settings: KafkaSettings, wire: Interceptor, mode: str
) -> None:
    """The failure says to try again, and there is no producer, if no connection is to be had or none answers."""
    client = make(settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{wire.port}", "request_timeout": 3}))
    wire.switch(mode)
    with pytest.raises(RetriableDelivery):
        client.transactional_producer(REPLICA, MAX_BATCH)


def test_an_initialisation_that_may_come_late_is_made_again(deliveries: Deliveries, wire: Interceptor) -> None:
    """A replacement whose own connection broke is replaced before it begins a transaction."""
    deliveries.deliver()
    initialisation = Order(Fate.REPEATED, Api.INIT_PRODUCER_ID)
    wire.order(initialisation, Order(Fate.DROPPED, Api.TXN_OFFSET_COMMIT))
    deliveries.deliver()
    deliveries.deliver()
    assert initialisation.caught is not None
    assert deliveries.replaced == 2
    deliveries.assert_each_once()

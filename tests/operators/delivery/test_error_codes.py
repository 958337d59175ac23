"""Kafka's error codes: what the documentation says of each, and what each client's delivery does when one comes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError
from kafka.errors import kafka_errors

from bench.kafka.broker import Broker
from bench.ports import free_port
from flows.process.logs import Repeats
from operators.delivery.client import KafkaClient, Producer, ProducerRecord
from operators.delivery.error_codes import RefusalCode, ends, refusal_code
from operators.delivery.ledger import Ledger
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.output_record import OutputRecord
from operators.delivery.producers import AcknowledgedProducer
from operators.delivery.sink import Delivery
from operators.delivery.tracker import Commit
from operators.delivery.way_out import dead_letter
from operators.wire.message import Origin, Rejected
from schemas.errors import DeadLetterClass, DeliveryError, FatalDelivery
from schemas.settings import KafkaSettings
from tests.kafka.frames import Api
from tests.kafka.interceptor import Fate, Interceptor, Order
from tests.operators.delivery.members import MAX_BATCH, NOW_MS, REPLICA, Make, Member, fenced, first, member, polled
from tests.operators.delivery.scripted import until
from tests.operators.samples import METRICS, REPLY_TOPICS, message, way_out
from tests.tiers import sized

PAGE = Path("docs/why/delivery.md")
FORM, RETRY, END = "another form", "retry", "end"
_ROW = re.compile(rf"^\| ({FORM}|{RETRY}|{END}) \| [^|]+ \| (.+) \|$", re.MULTILINE)
RENAMED = {-1, 6, 10, 17, 39}
"""Codes whose names kafka-python has in an earlier form."""
_CODE = re.compile(r"`([A-Z_]+)` \((-?\d+)\)")


def told() -> dict[int, tuple[str, str]]:
    """By code: its name, and what the page says that the flow does."""
    codes = [
        (int(code), (name, does)) for does, row in _ROW.findall(PAGE.read_text()) for name, code in _CODE.findall(row)
    ]
    assert len(codes) == len(dict(codes)), "a code is told twice"
    return dict(codes)


CODES: Final = told()
EACH: Final = sized(4, nightly=1)
"""Every fourth code is answered by a broker; the rest is only looked up. Nightly each is answered."""

COORDINATED: Final = (-1, 12, 14, 15, 16, 22, 25, 27, 29, 30, 42, 47, 48, 49, 51, 53, 82, 90, 120)
"""The codes that a coordinator may answer, or might be thought to."""

GIVEN_UP: Final = {("librdkafka", Api.PRODUCE, 45), ("librdkafka", Api.TXN_OFFSET_COMMIT, 49)}
"""The codes that are fatal for one client alone."""


def test_the_page_has_every_code() -> None:
    """Those of both clients, and of the broker's protocol up to its latest, without a gap."""
    assert CODES.keys() == {-1, *range(1, 134)}
    assert CODES.keys() >= kafka_errors.keys() - {0, None}
    own = {each for name, each in vars(KafkaError).items() if name.isupper() and isinstance(each, int)}
    assert CODES.keys() >= {code for code in own if code >= -1} - {0}


def test_the_page_says_what_is_done() -> None:
    """Each code's name, and what it does."""
    named = {code: error.message for code, error in kafka_errors.items() if code not in RENAMED}
    named |= {each.value: each.name for each in RefusalCode}
    for code, (name, does) in CODES.items():
        assert named.get(code, name) == name
        assert does == (FORM if refusal_code(code) is not None else END if ends(code) else RETRY), code


@pytest.mark.parametrize("code", [134, 999])
def test_a_code_that_is_not_known_ends_the_process(code: int) -> None:
    """A broker may be newer; no error at all, and a client's own errors, end nothing."""
    assert ends(code)
    assert not ends(0)
    assert not ends(KafkaError._TIMED_OUT)


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


class Answered:
    """Deliveries of a dead letter each, in which the broker's answer to one request has another code."""

    def __init__(self, client: KafkaClient, reader: Member, settings: KafkaSettings, wire: Interceptor) -> None:
        self.client = client
        self._reader, self._settings, self._wire = reader, settings, wire
        self._offset = 0

    def deliver(self, api: Api, code: int) -> OutputRecord | BaseException:
        """The record that was committed in a transaction, or what ended the process."""
        self._wire.order()
        return self._deliver(fenced(self.client, self._settings.group_id), api, code)

    def acknowledge(self, code: int) -> OutputRecord | BaseException:
        """The record that was acknowledged and then committed, or what ended the process."""
        self._wire.order()
        with polled(self._reader):
            producer = AcknowledgedProducer(self.client.plain_producer(), self._reader.consumer)
            return self._deliver(producer, Api.OFFSET_COMMIT, code)

    def _deliver(self, producer: Producer, api: Api, code: int) -> OutputRecord | BaseException:
        place, taken, failures = first(self._settings), list[Sequence[ProducerRecord]](), list[BaseException]()
        ledger = Ledger(1)
        epoch = ledger.assign(place, Commit(self._offset, ""))
        ledger.see(place, self._offset)
        _note(producer, taken)
        order = Order(Fate.ANSWERED, api, code=code, committed=True if api is Api.END_TXN else None)
        self._wire.order(order)
        topic = self._settings.topics.dead_letters
        out = way_out(dead_letters=topic)
        delivery = Delivery(producer, self._reader.consumer, ledger, out, 0.001, failures.append, METRICS, REPLY_TOPICS)
        delivery.start()
        sent = replace(message(timestamp=NOW_MS / 1000), origin=Origin(*place, self._offset, epoch))
        delivery.enqueue([dead_letter(Rejected(sent, DeadLetterClass.NOT_JSON, "decode", "why"), topic, None)])
        until(lambda: failures or not ledger.in_flight)
        delivery.close()
        assert order.fulfilled.is_set()
        self._offset += 1
        if failures:
            return failures[0]
        if api is not Api.OFFSET_COMMIT:
            assert self._reader.consumer.committed([place]) == {place: Commit(self._offset, "")}
        (record,) = taken[-1]
        assert isinstance(record, OutputRecord)
        return record


def _note(producer: Producer, taken: list[Sequence[ProducerRecord]]) -> None:
    deliver = producer.deliver

    def noted(records: Sequence[ProducerRecord], *rest: object) -> None:
        deliver(records, *rest)  # type: ignore[arg-type]
        taken.append(records)

    producer.deliver = noted  # type: ignore[method-assign,assignment]


@pytest.fixture
def answered(make: Make, settings: KafkaSettings, hosted: tuple[Broker, Interceptor]) -> Iterator[Answered]:
    """Deliveries by each client, through the interceptor."""
    proxied = settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{hosted[1].port}", "request_timeout": 3})
    patient = settings.model_copy(update={"max_poll_interval": 300})
    with member(make(patient), settings) as reader:
        yield Answered(make(proxied), reader, settings, hosted[1])
    hosted[1].order()


@pytest.fixture
def acknowledged(make: Make, settings: KafkaSettings, hosted: tuple[Broker, Interceptor]) -> Iterator[Answered]:
    """Deliveries without transactions by each client, whose commits go through the interceptor."""
    proxied = settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{hosted[1].port}"})
    with member(make(proxied), settings) as reader:
        yield Answered(make(settings), reader, settings, hosted[1])
    hosted[1].order()


def does(outcome: OutputRecord | BaseException) -> str:
    """The flow's reaction, in the page's words."""
    if isinstance(outcome, FatalDelivery):
        return END
    assert isinstance(outcome, OutputRecord)
    return RETRY if outcome.timestamp_ms == NOW_MS else FORM


def few(codes: Sequence[int], client: str, api: Api) -> list[int]:
    """Every code whose turn it is, and those that the client gives up for."""
    return [code for code in codes if code in codes[::EACH] or (client, api, code) in GIVEN_UP]


@pytest.mark.parametrize("expected", [FORM, RETRY, END])
def test_a_record_answered_with_a_code(answered: Answered, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    """A code in answer to a record does what the page says: one record is committed, or the process ends."""
    codes = [code for code, (_, told) in CODES.items() if told == expected]
    for code in codes if expected == FORM else few(codes, answered.client.name, Api.PRODUCE):
        outcome = answered.deliver(Api.PRODUCE, code)
        given_up = (answered.client.name, Api.PRODUCE, code) in GIVEN_UP
        assert does(outcome) == (END if given_up else expected), f"{code}: {outcome}"
        if code == RefusalCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            assert "set kafka.compression to null" in caplog.text
        if isinstance(outcome, OutputRecord) and expected == FORM:
            assert (outcome.value is None) == RefusalCode(code).of_size


@pytest.mark.parametrize("api", [Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT])
def test_a_transaction_answered_with_a_code(answered: Answered, api: Api) -> None:
    """A code of a coordinator does what the page says; one of a record, where there is none, ends the process."""
    for code in few((*COORDINATED, *RefusalCode), answered.client.name, api):
        outcome = answered.deliver(api, code)
        given_up = (answered.client.name, api, code) in GIVEN_UP
        assert does(outcome) == (END if given_up or ends(code) else RETRY), f"{code}: {outcome}"


@pytest.mark.parametrize("code", [-1, 12, 14, 16, 22, 27, 28, 29, 30, 42][:: sized(2, nightly=1)])
def test_a_commit_outside_a_transaction(acknowledged: Answered, code: int) -> None:
    """A code that ends ends the process by one line that names it; after any other the commit is tried again."""
    outcome = acknowledged.acknowledge(code)
    assert does(outcome) == CODES[code][1], f"{code}: {outcome}"
    if isinstance(outcome, FatalDelivery):
        name = "UNKNOWN" if code == -1 else CODES[code][0]
        assert str(outcome).startswith(f"commit: {name}")


@pytest.mark.parametrize("code", [14, 15, 16, 51])
def test_an_end_that_its_client_asks_for_again(answered: Answered, code: int) -> None:
    """A coordinator that is busy or moves is asked again for the end of the transaction."""
    assert does(answered.deliver(Api.END_TXN, code)) == RETRY


@pytest.mark.parametrize("code", [-1, 47, 48, 49, 53, 90, 120][:: sized(3, nightly=1)])
def test_an_end_in_doubt(answered: Answered, code: int) -> None:
    """Any other answer to the end of a transaction ends the process: whether it was committed isn't known."""
    assert does(answered.deliver(Api.END_TXN, code)) == END


@pytest.mark.parametrize("code", [50, 53, 90])
def test_an_initialisation_that_is_refused(answered: Answered, hosted: tuple[Broker, Interceptor], code: int) -> None:
    """Without a producer that the broker takes the process ends."""
    hosted[1].order(Order(Fate.ANSWERED, Api.INIT_PRODUCER_ID, code=code))
    with pytest.raises(FatalDelivery, match="init_transactions"):
        fenced(answered.client)


def test_a_refusal_is_said_with_its_cure(answered: Answered, hosted: tuple[Broker, Interceptor]) -> None:
    """The message names the setting that mends it."""
    assert "; set kafka.compression to null" in str(answered.deliver(Api.PRODUCE, 76))
    for code, cure in ((35, "rankstream check"), (50, "lower kafka.transaction_timeout"), (53, "delivery.mode")):
        # librdkafka asks again for some time where a version is not supported.
        hosted[1].order(*(Order(Fate.ANSWERED, Api.INIT_PRODUCER_ID, code=code) for _ in range(1000)))
        with pytest.raises(DeliveryError, match=f"init_transactions: .*; .*{cure}"):
            answered.client.transactional_producer(REPLICA, MAX_BATCH)


def test_a_broker_that_throttles_is_said_with_the_cure(
    settings: KafkaSettings, hosted: tuple[Broker, Interceptor], caplog: pytest.LogCaptureFixture
) -> None:
    """Deliveries whose answers say that a quota is used up are printed once a minute, and made all the same."""
    settings = settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{hosted[1].port}"})
    hosted[1].throttle_ms = 50
    try:
        with closing(Librdkafka(settings).plain_producer()) as producer:
            for _ in range(2):
                producer.send([ProducerRecord(settings.topics.results, b"k", b"v")])
    finally:
        hosted[1].throttle_ms = 0
    said = [each for each in caplog.records if "raise it, or delivery.transaction_interval" in each.getMessage()]
    assert sum(map(Repeats().filter, said)) == 1

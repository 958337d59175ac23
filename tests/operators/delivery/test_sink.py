"""The sink's thread: what a producer refuses, delays or breaks never loses an answer and never doubles one."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from bytewax.testing import TestingSource
from hypothesis import given
from hypothesis import strategies as st

from operators.delivery import error_codes
from operators.delivery.client import ProducerRecord, RecordRefused
from operators.delivery.ledger import Ledger
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.sink import Delivery, DeliverySink, compact
from operators.delivery.tracker import Commit
from schemas import headers as names
from schemas.errors import FatalDelivery, RetriableDelivery
from tests.operators.delivery.deliveries import INTERVAL, PARTITION, delivering, read
from tests.operators.delivery.scripted import WITHIN, ScriptedConsumer, ScriptedProducer, until
from tests.operators.samples import METRICS, REPLY_TOPICS, output_record, way_out

Refusal = Callable[[Sequence[ProducerRecord]], BaseException | None]


def refusing(*offsets: int, refusal: error_codes.RefusalCode = error_codes.RefusalCode.MESSAGE_TOO_LARGE) -> Refusal:
    """A producer's step: these are refused."""

    def refuse(records: Sequence[ProducerRecord]) -> BaseException | None:
        return RecordRefused([record for record in records if _offset(record) in offsets], refusal)

    return refuse


def _offset(record: Any) -> int:
    offset: int = record.origin.offset
    return offset


def test_answers_and_their_offsets_are_made_durable_together() -> None:
    """One transaction carries the answers and the position that they complete, and gives the credit back."""
    ledger, answers = read(3)
    producer = ScriptedProducer()
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
    assert producer.taken == [(answers, {PARTITION: Commit(3, "")}, 0)]
    assert failures == []


def test_a_record_and_its_dead_letter_are_made_durable_together() -> None:
    """The transaction that carries a refusal carries the dead letter that goes with it."""
    ledger, [refusal] = read(1)
    letter = replace(refusal, topic="dead-letters")
    producer = ScriptedProducer()
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue([refusal, letter])
        until(lambda: ledger.in_flight == 0)
    [(records, _, _)] = producer.taken
    assert [record.topic for record in records] == ["results", "dead-letters"]


def test_a_retriable_error_is_tried_again() -> None:
    """Aborted transactions are tried until one is taken; nothing is confirmed before."""
    ledger, answers = read(2)
    in_flight: list[int] = []

    def abort(_: object) -> BaseException:
        in_flight.append(ledger.in_flight)
        return RetriableDelivery("a rebalance is under way")

    producer = ScriptedProducer(abort, abort)
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
    assert producer.tries == 3
    assert producer.records == answers
    assert in_flight == [2, 2]
    assert failures == []


def test_a_retry_settles_anew() -> None:
    """A partition taken away during an aborted transaction isn't in the next one."""
    ledger, answers = read(2)

    def lose(_: object) -> BaseException:
        ledger.revoke([PARTITION])
        return RetriableDelivery("a rebalance is under way")

    producer = ScriptedProducer(lose)
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: producer.tries == 1)
    assert producer.tries == 1
    assert producer.taken == []
    assert failures == []


def test_a_record_too_large_becomes_a_dead_letter_and_the_rest_goes_on() -> None:
    """The refused answer is replaced by a dead letter without payload in the same transaction as the others."""
    ledger, answers = read(3)
    producer = ScriptedProducer(refusing(1))
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
    (records, commits, _) = producer.taken[0]
    letter = next(record for record in records if _offset(record) == 1)
    assert [record for record in records if record is not letter] == [answers[0], answers[2]]
    assert (letter.topic, letter.value) == ("dead-letters", None)
    assert dict(letter.headers)[names.CLASS] == b"too_large"
    assert commits == {PARTITION: Commit(3, "")}
    assert failures == []


def test_one_refusal_after_another() -> None:
    """A producer that names one refused record at a time is satisfied one by one."""
    ledger, answers = read(3)
    producer = ScriptedProducer(refusing(0), refusing(2))
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
    assert sorted((_offset(record), record.topic) for record in producer.records) == [
        (0, "dead-letters"),
        (1, "results"),
        (2, "dead-letters"),
    ]


@pytest.mark.parametrize("error", [FatalDelivery("fenced"), RuntimeError("a defect")])
def test_what_may_not_be_tried_again_is_reported(error: Exception) -> None:
    """A fatal error, or a defect, is handed to `failed` once, and nothing is confirmed."""
    ledger, answers = read(1)
    producer = ScriptedProducer(error)
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: failures)
    assert failures == [error]
    assert producer.tries == 1
    assert ledger.in_flight == 1


def test_closing_delivers_what_is_queued() -> None:
    """A record put before `close` is delivered, however long the interval; then the producer is closed."""
    ledger, answers = read(4)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=600) as (delivery, _):
        delivery.enqueue(answers[:1])
        until(lambda: len(producer.taken) == 1)
        delivery.enqueue(answers[1:])
    assert producer.records == answers
    assert ledger.in_flight == 0


def test_closing_without_having_started_ends() -> None:
    """A process that never got to run can close its delivery."""
    producer = ScriptedProducer()
    Delivery(
        producer, ScriptedConsumer(), Ledger(1), way_out(), INTERVAL, lambda error: None, METRICS, REPLY_TOPICS
    ).close()
    assert producer.closed


@pytest.mark.slow
def test_answers_gather_within_the_interval() -> None:
    """The first answer goes at once; those put before the interval is over go together, after it."""
    ledger, answers = read(6)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=2) as (delivery, _):
        delivery.enqueue(answers[:1])
        until(lambda: len(producer.taken) == 1)
        for answer in answers[1:]:
            delivery.enqueue([answer])
        until(lambda: ledger.in_flight == 0)
    assert [records for records, _, _ in producer.taken] == [answers[:1], answers[1:]]
    assert producer.began[1] - producer.began[0] > 1


def test_the_worker_never_waits_for_the_producer() -> None:
    """While a transaction hangs, `put` returns at once and what is put goes with the next."""
    ledger, answers = read(3)
    release = threading.Event()

    def hang(_: object) -> None:
        assert release.wait(WITHIN)

    producer = ScriptedProducer(hang)
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(answers[:1])
        until(lambda: producer.tries == 1)
        delivery.enqueue(answers[1:])
        assert producer.taken == []
        release.set()
        until(lambda: ledger.in_flight == 0)
    assert [records for records, _, _ in producer.taken] == [answers[:1], answers[1:]]


def test_answers_without_room_in_the_metadata_are_carried_later() -> None:
    """Answers that wait for room go out once, when the offset before them is answered."""
    ledger = Ledger(4000)
    epoch = ledger.assign(PARTITION, Commit(0, ""))
    offsets = range(0, 200 * 1200, 200)
    for offset in offsets:
        ledger.see(PARTITION, offset)
    answers = [output_record(offset, epoch=epoch) for offset in offsets]
    producer = ScriptedProducer()
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(answers[1:])
        until(lambda: producer.taken)
        assert ledger.in_flight > 1
        delivery.enqueue(answers[:1])
        until(lambda: ledger.in_flight == 0)
    assert sorted(map(_offset, producer.records)) == list(offsets)


def test_failures_last_until_a_transaction_is_committed() -> None:
    """While tries fail, of whatever kind, the delivery says for how long; once one is committed it says nothing."""
    ledger, answers = read(1)
    failing: list[float] = []

    def fail(_: object) -> BaseException:
        failing.append(delivery.failing_for())
        return RetriableDelivery("away")

    producer = ScriptedProducer(fail, fail, refusing(0))
    producer.unprepared = [RetriableDelivery("no broker")]
    with delivering(producer, ledger) as (delivery, _):
        assert delivery.failing_for() == 0
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
        until(lambda: delivery.failing_for() == 0)
    first, second = failing
    assert 0 < first < second


def test_failures_end_with_the_partitions_whose_records_failed() -> None:
    """Nothing fails if nothing is left to commit: a replica without partitions does not stay unready."""
    ledger, answers = read(1)

    def lose(_: object) -> BaseException:
        ledger.revoke([PARTITION])
        return RetriableDelivery("away")

    producer = ScriptedProducer(lose)
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: producer.tries == 1 and delivery.failing_for() == 0)
        delivery.flush(WITHIN)
        assert delivery.failing_for() == 0
    assert failures == []


def test_the_dataflow_hands_its_records_over() -> None:
    """The Bytewax sink puts every record of every batch, in order."""
    ledger, answers = read(5)
    producer = ScriptedProducer()
    with delivering(producer, ledger) as (delivery, _):
        flow = Dataflow("sink")
        op.output("out", op.input("in", flow, TestingSource([answers[:2], [], answers[2:]])), DeliverySink(delivery))
        cli_main(flow)
        until(lambda: ledger.in_flight == 0)
    assert producer.records == answers


records = st.lists(
    st.builds(
        lambda offset, topic, key, form: output_record(offset, topic=topic, key=key, form=form),
        st.integers(0, 30),
        st.sampled_from(["results", "watermarks"]),
        st.sampled_from([b"a", b"b", None]),
        st.sampled_from([RecordForm.RESULT, RecordForm.WATERMARK]),
    ),
    max_size=15,
)


@given(records)
def test_only_the_highest_offset_of_a_key_is_sent(many: list[OutputRecord]) -> None:
    """Of records that compact one a topic and key is left, its highest offset; every other record stays, in order."""
    left = compact(many)
    assert [record for record in left if not record.compacts] == [record for record in many if not record.compacts]
    highest: dict[object, int] = {}
    for record in many:
        if record.compacts:
            key = (record.topic, record.key)
            highest[key] = max(record.origin.offset, highest.get(key, -1))
    kept = [((record.topic, record.key), record.origin.offset) for record in left if record.compacts]
    assert sorted(kept, key=repr) == sorted(highest.items(), key=repr)


def test_a_message_may_end_without_a_record() -> None:
    """Its offset is committed, by itself or beside others, and nothing is sent for it."""
    ledger, answers = read(3)
    producer = ScriptedProducer()
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue([replace(answers[0], form=RecordForm.NOTHING, value=None)])
        until(lambda: ledger.in_flight == 2)
        assert producer.records == []
        delivery.enqueue([replace(answers[2], form=RecordForm.NOTHING, value=None), answers[1]])
        until(lambda: ledger.in_flight == 0)
    assert producer.records == [answers[1]]
    assert producer.taken[-1][1] == {PARTITION: Commit(3, "")}


def test_what_is_compacted_away_is_confirmed_too() -> None:
    """Two watermarks of one key make one record, and both their offsets are committed."""
    ledger, answers = read(2)
    producer = ScriptedProducer()
    marks = [
        output_record(offset, epoch=1, topic="watermarks", form=RecordForm.WATERMARK) for offset in range(len(answers))
    ]
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(marks)
        until(lambda: ledger.in_flight == 0)
    assert producer.taken == [([marks[1]], {PARTITION: Commit(2, "")}, 0)]


def test_a_dead_letter_that_is_refused_without_payload_is_fatal() -> None:
    """The process must end if even the smallest dead letter isn't taken: there is nothing smaller to try."""
    ledger, answers = read(1)
    producer = ScriptedProducer(refusing(0), refusing(0))
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: failures)
    assert isinstance(failures[0], FatalDelivery)
    assert producer.taken == []
    assert ledger.in_flight == 1


def test_a_producer_that_is_not_ready_is_waited_for() -> None:
    """While none can be had nothing is chosen to be delivered; once there is one, all is."""
    ledger, answers = read(2)
    producer = ScriptedProducer()
    producer.unprepared = [RetriableDelivery("away"), RetriableDelivery("away")]
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(answers)
        until(lambda: ledger.in_flight == 0)
    assert len(producer.records) == 2
    assert producer.tries == 1


def test_a_producer_that_can_not_be_had_is_fatal() -> None:
    """A replacement that is refused for good ends the process, with the answers still owed."""
    ledger, answers = read(1)
    producer = ScriptedProducer()
    producer.unprepared = [FatalDelivery("not authorised")]
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        until(lambda: failures)
    assert isinstance(failures[0], FatalDelivery)
    assert ledger.in_flight == 1

"""The intake: credit, the end of reading, failures, and the source that hands its messages to the engine."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from bytewax.testing import TestingSink

from operators.delivery.source import AHEAD, BYTES_AT_ONCE, MOST_AT_ONCE, MOST_READ, MessageSource
from operators.wire.message import Message
from schemas.errors import FatalDelivery, RetriableDelivery
from tests.operators.delivery.reading import FIRST, SECOND, Reader, polled, reading
from tests.operators.delivery.scripted import WITHIN, ScriptedConsumer, until
from tests.operators.samples import output_record


def test_out_of_credit_it_pauses_and_keeps_polling() -> None:
    """With `max_in_flight` handed over nothing more is; the partitions are paused once AHEAD wait, until it is half as
    many, polling keeps the membership, and what was fetched beyond the credit follows in order.
    """
    everything = list(range(AHEAD + 64))
    consumer = ScriptedConsumer({FIRST: everything})
    with reading(consumer, most=64) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: FIRST in consumer.paused)
        polled(consumer)
        assert reader.offsets() == everything[:64]
        reader.answer_all()
        until(lambda: reader.offsets() == everything[:128])
        polled(consumer)
        assert FIRST in consumer.paused
        while reader.offsets() != everything:
            reader.answer_all()
        until(lambda: FIRST not in consumer.paused)


def test_a_few_records_beyond_the_credit_pause_nothing() -> None:
    """They wait, and the client goes on fetching."""
    consumer = ScriptedConsumer({FIRST: range(10)})
    with reading(consumer, most=4) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2, 3])
        polled(consumer)
        assert not consumer.paused
        reader.answer(0, 1)
        until(lambda: reader.offsets() == [0, 1, 2, 3, 4, 5])


def test_many_records_reach_the_flow_in_parts() -> None:
    """Each batch has at most MOST_AT_ONCE of them, and the wake-up event is set while more wait."""
    total = 3 * MOST_AT_ONCE + 1
    consumer = ScriptedConsumer({FIRST: range(total)})
    reader = Reader(consumer, 1000, WITHIN)
    reader.consumer_loop.start(reader.flush, reader.advance)
    sizes: list[int] = []
    try:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(reader.wakeup.wait)
        while sum(sizes) < total:
            sizes.append(len(reader.consumer_loop.take()))
            assert sum(sizes) == total or reader.wakeup.wait()
    finally:
        reader.consumer_loop.close()
    assert max(sizes) <= MOST_AT_ONCE


@pytest.mark.parametrize("size", [BYTES_AT_ONCE // 16, BYTES_AT_ONCE // 4, 2 * BYTES_AT_ONCE])
def test_large_records_reach_the_flow_by_their_bytes(size: int) -> None:
    """A batch ends with the record with which it has BYTES_AT_ONCE, so that the engine gets its turn in between."""
    total = 40
    consumer = ScriptedConsumer({FIRST: range(total)})
    consumer.value = b"x" * size
    reader = Reader(consumer, 1000, WITHIN)
    reader.consumer_loop.start(reader.flush, reader.advance)
    taken: list[int] = []
    try:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        while sum(taken) < total:
            assert reader.wakeup.wait() or not taken
            taken.append(len(reader.consumer_loop.take()))
    finally:
        reader.consumer_loop.close()
    assert max(taken) == max(1, BYTES_AT_ONCE // size)


def test_what_follows_the_index_hears_of_messages_first() -> None:
    """Once for each list of them, when their time is taken and the flow has none of them yet."""
    consumer = ScriptedConsumer({FIRST: range(3)})
    reader = Reader(consumer, 100, WITHIN)
    heard: list[tuple[float, list[Message]]] = []
    reader.consumer_loop.start(
        reader.flush, reader.advance, lambda: heard.append((time.monotonic(), reader.consumer_loop.take()))
    )
    try:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2])
    finally:
        reader.consumer_loop.close()
    assert heard
    assert not any(messages for _, messages in heard)
    assert all(message.clock <= heard[-1][0] for message in reader.messages)


def test_stop_reads_no_more_and_ends_when_all_is_committed() -> None:
    """After `stop` nothing new is handed over, not even what was fetched and waits for credit; the source ends with the
    last commit and not before.
    """
    consumer = ScriptedConsumer({FIRST: range(5)})
    with reading(consumer, most=3) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2])
        reader.consumer_loop.stop()
        until(lambda: FIRST in consumer.paused)
        consumer.log[FIRST] += [5, 6]
        reader.answer(0, 2)
        polled(consumer)
        assert not reader.ended()
        reader.answer(1)
        until(reader.ended)
    assert [message.origin.offset for message in reader.messages] == [0, 1, 2]


def test_stop_hands_over_what_is_read() -> None:
    """A message read before `stop` and not taken yet is still handed over."""
    consumer = ScriptedConsumer({FIRST: range(3)})
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.ledger.in_flight == 3)
        reader.consumer_loop.stop()
        polled(consumer)
        until(lambda: reader.offsets() == [0, 1, 2])


@pytest.mark.parametrize("drain_timeout", [0.05, 0.0])
def test_a_drain_that_takes_too_long_ends_all_the_same(drain_timeout: float) -> None:
    """At the drain's time-out the source ends with queries in flight; their offsets aren't committed. Without any time
    it ends at once, with messages in flight as those of open windows are.
    """
    consumer = ScriptedConsumer({FIRST: range(3)})
    with reading(consumer, drain_timeout=drain_timeout) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2])
        reader.consumer_loop.stop()
        until(reader.ended)
        assert reader.ledger.in_flight == 3


def test_without_a_bound_of_credit_few_messages_wait_for_the_flow() -> None:
    """A flow whose messages stay in flight reads a backlog in its own time, and not into memory."""
    everything = list(range(3 * MOST_READ))
    consumer = ScriptedConsumer({FIRST: everything})
    with reading(consumer, most=1 << 30) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: FIRST in consumer.paused)
        polled(consumer)
        assert reader.ledger.in_flight == MOST_READ
        until(lambda: reader.offsets() == everything)


def test_the_end_of_a_partition_is_known_by_its_last_message() -> None:
    """It is told with a time once nothing is unread, and not while a record comes, or a transaction is open."""
    consumer = ScriptedConsumer({FIRST: range(3), SECOND: range(2)})
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST, SECOND)
        began = time.time()
        until(lambda: len(reader.consumer_loop.at_end[1]) == 2)
        moment, lasts = reader.consumer_loop.at_end
        assert moment >= began
        assert {(each.partition, each.offset) for each in lasts} == {(0, 2), (1, 1)}
        assert all(map(reader.ledger.runs, lasts))
        consumer.paused.add(FIRST)
        paused_at = time.time()
        # A poll that began before the pause may still read on.
        until(lambda: reader.consumer_loop.at_end[0] > paused_at)
        consumer.log[FIRST].append(3)
        until(lambda: {each.partition for each in reader.consumer_loop.at_end[1]} == {1})
        reader.ledger.revoke([SECOND])
        assert not any(map(reader.ledger.runs, reader.consumer_loop.at_end[1]))


def test_stop_before_the_topic_is_there_ends() -> None:
    """A process that never got to subscribe ends when it is told to."""
    consumer = ScriptedConsumer()
    consumer.subscribe_failures = [RetriableDelivery("no such topic")] * 1000
    with reading(consumer) as reader:
        reader.consumer_loop.stop()
        until(reader.ended)


@pytest.mark.parametrize("where", ["poll", "subscribe", "committed"])
def test_a_failure_of_the_polling_thread_ends_the_source(where: str) -> None:
    """Whatever breaks on the polling thread is raised by `check` as FatalDelivery, cause attached."""
    consumer = ScriptedConsumer({FIRST: range(3)})
    error = RuntimeError("the client broke")

    def broken() -> None:
        raise error

    if where == "poll":
        consumer.failure = error
    elif where == "subscribe":
        consumer.subscribe_failures = [error]
    else:
        consumer.in_committed = broken
    with reading(consumer) as reader:
        if where == "committed":
            until(consumer.subscribed.is_set)
            consumer.assign(FIRST)
        raised = failed(reader)
        until(lambda: raised() is not None)
        assert isinstance(raised(), FatalDelivery)
        assert raised().__cause__ is error


def failed(reader: Reader) -> Callable[[], Any]:
    """A function that says what the check raised, None until it does; the source has ended then."""

    def raised() -> BaseException | None:
        try:
            reader.consumer_loop.check()
        except FatalDelivery as error:
            with pytest.raises(StopIteration):
                reader.consumer_loop.take()
            return error
        return None

    return raised


def test_the_first_failure_is_the_one_reported() -> None:
    """A later failure doesn't hide what began it."""
    reader = Reader(ScriptedConsumer(), 1, WITHIN)
    reader.consumer_loop.fail(FatalDelivery("fenced"))
    reader.consumer_loop.fail(RuntimeError("a consequence"))
    with pytest.raises(FatalDelivery, match="fenced"):
        reader.consumer_loop.check()


def test_the_dataflow_gets_every_message_once_and_ends() -> None:
    """Through the engine: each poll's list arrives as one item, and a stop after the commits ends the flow."""
    consumer = ScriptedConsumer({FIRST: range(50), SECOND: range(50)})
    with reading(consumer, most=7) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST, SECOND)
        got: list[list[Message]] = []

        def answer(batch: list[Message]) -> list[Message]:
            reader.messages += batch
            origins = [message.origin for message in batch]
            answers = [output_record(o.offset, partition=o.partition, epoch=o.epoch) for o in origins]
            reader.ledger.confirm(reader.ledger.committable(answers, consumer.group_metadata))
            if len(reader.messages) == 100:
                reader.consumer_loop.stop()
            return batch

        flow = Dataflow("source")
        stream = op.input("in", flow, MessageSource(reader.consumer_loop))
        op.output("out", op.map("answer", op.key_rm("batches", stream), answer), TestingSink(got))
        cli_main(flow)
    places = [(message.origin.partition, message.origin.offset) for batch in got for message in batch]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(50)]
    assert all(len(batch) <= 7 for batch in got)


def test_a_failure_ends_the_dataflow() -> None:
    """Through the engine: a broken consumer ends the run, without an exception in the engine's worker, which it would
    print a stack for; the error is there afterwards.
    """
    consumer = ScriptedConsumer()
    consumer.failure = RuntimeError("the client broke")
    with reading(consumer) as reader:
        flow = Dataflow("source")
        op.output("out", op.input("in", flow, MessageSource(reader.consumer_loop)), TestingSink([]))
        cli_main(flow)
        with pytest.raises(FatalDelivery, match="the client broke"):
            reader.consumer_loop.check()


def test_a_second_worker_is_refused() -> None:
    """The source is built for one worker a process only."""
    reader = Reader(ScriptedConsumer(), 1, WITHIN)
    with pytest.raises(FatalDelivery, match="2 workers in one process: expected 1"):
        MessageSource(reader.consumer_loop).build("in", 0, 2)

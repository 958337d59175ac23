"""Reply topics: a record goes where its query chose, if there is such a place, and nothing waits for long."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.topics import AWAY, DEFAULT_MAX, MISSED, MOST, REMEMBERED, ReplyTopics, TopicState
from operators.wire.message import Rejected
from schemas.errors import DeadLetterClass, RetriableDelivery
from tests.operators.samples import message, output_record, trace, way_out

NO_LEADER: Final = TopicState(2, DEFAULT_MAX, away=frozenset({1}))


class Asked:
    """A broker with some topics, what it was asked, and the time."""

    def __init__(self, **states: TopicState) -> None:
        self.states: dict[str, TopicState | None] = {**states}
        self.asked: list[list[str]] = []
        self.now = 0.0
        self.topics = ReplyTopics(["results"], {"results": 7}, self._look, lambda: self.now)

    def _look(self, names: Sequence[str]) -> Mapping[str, TopicState | None]:
        self.asked.append([*names])
        return {name: self.states.get(name) for name in names}

    def refuse(self, topic: str, partition: int | None = None) -> str | None:
        """The reason for which a record has nowhere to go."""
        record = replace(output_record(0, topic=topic), partition=partition)
        refused = self.topics.find_refusals([output_record(1), record])
        assert not refused or [*refused] == [id(record)]
        return refused.get(id(record))


def test_results_are_asked_for_by_nobody() -> None:
    """The topics that are there from the start, where no partition is chosen, cost no request."""
    broker = Asked()
    assert broker.refuse("results") is None
    assert broker.asked == []


def test_a_topic_is_asked_for_once() -> None:
    """The broker is asked for all new ones together, and again after a minute, or after a delivery that failed."""
    broker = Asked(a=TopicState(3, 100), b=TopicState(1, 200))
    records = [output_record(n, topic=topic) for n, topic in enumerate("abab")]
    assert broker.topics.find_refusals(records) == {}
    broker.now = REMEMBERED - 1
    assert broker.refuse("a") is None
    assert broker.asked == [["a", "b"]]
    assert broker.topics.limits == {"results": 7, "a": 100, "b": 200}
    broker.now = REMEMBERED
    broker.refuse("a")
    broker.topics.invalidate()
    broker.refuse("b")
    assert broker.asked[1:] == [["a"], ["b"]]


def test_a_topic_that_is_not_there_is_named() -> None:
    """It is asked for again after a while: it may come."""
    broker = Asked()
    assert broker.refuse("a") == "reply_to: there is no topic a"
    broker.states["a"] = TopicState(1, 5)
    assert broker.refuse("a") is not None
    broker.now = MISSED
    assert broker.refuse("a") is None


@pytest.mark.parametrize("topic", ["a", "results"])
def test_a_partition_that_a_topic_does_not_have_is_named(topic: str) -> None:
    """That holds for the results topic, too."""
    broker = Asked(a=TopicState(2, 5), results=TopicState(2, 5))
    assert broker.refuse(topic, 1) is None
    assert broker.refuse(topic, 2) == f"reply_to: topic {topic} has no partition 2, but 2 from 0"
    assert broker.topics.limits["results"] == 7
    broker.states[topic] = TopicState(3, 5)
    broker.now = MISSED
    assert broker.refuse(topic, 2) is None


def test_a_topic_that_may_not_be_written_is_named() -> None:
    """The request would end the process."""
    broker = Asked(a=TopicState(2, 5, writable=False))
    assert broker.refuse("a") == "reply_to: topic a may not be written by rankstream"


def test_a_partition_without_a_leader_is_waited_for_a_while() -> None:
    """Another of the same topic is not; the results topic is waited for without end, as without a choice."""
    broker = Asked(a=NO_LEADER, results=NO_LEADER)
    assert broker.refuse("a", 1) is None
    broker.now = AWAY
    broker.topics.invalidate()
    assert "it lacks a leader" in (broker.refuse("a", 1) or "")
    assert broker.refuse("a") == broker.refuse("a", 1)
    assert (broker.refuse("a", 0), broker.refuse("results", 1)) == (None, None)
    broker.states["a"] = TopicState(2, 5)
    broker.topics.invalidate()
    assert broker.refuse("a", 1) is None


def test_topics_are_remembered_up_to_a_bound() -> None:
    """Whoever names a thousand others has only these forgotten."""
    broker = Asked()
    for number in range(3 * MOST):
        broker.states = {f"t{number}": TopicState(1, 5)}
        broker.refuse(f"t{number}")
    assert MOST <= len(broker.topics.limits) <= MOST + 2
    assert broker.topics.limits["results"] == 7


def test_a_topic_is_judged_before_it_is_forgotten() -> None:
    """A delivery may have a record for the earliest of the topics that are remembered, and a new topic beside it."""
    broker = Asked(**{f"t{number}": TopicState(1, 5) for number in range(MOST + 3)})
    for number in range(MOST + 2):
        broker.refuse(f"t{number}")
    records = [output_record(0, topic=topic) for topic in ("t1", "t2", f"t{MOST + 2}")]
    assert broker.topics.find_refusals(records) == {}


def test_a_broker_that_does_not_answer_is_waited_for() -> None:
    """Nothing is decided without its answer."""

    def away(names: Sequence[str]) -> Mapping[str, TopicState | None]:
        raise RetriableDelivery("away")

    with pytest.raises(RetriableDelivery):
        ReplyTopics([], {}, away).find_refusals([output_record(0, topic="a")])


def result(**event: Any) -> OutputRecord:
    """The record of a query's result, on the topic `answers`."""
    sent = message({"query_id": "q", "reply_to": "answers", **event}, headers=(("kafka_correlationId", b"7"),))
    return replace(output_record(0, topic="answers", message=sent, trace=trace()), partition=3)


def test_a_result_without_a_place_becomes_a_dead_letter_and_a_refusal() -> None:
    """The refusal goes to the results topic, with the query's headers; the dead letter has the query."""
    sent = result()
    assert sent.message is not None
    told, letter = way_out().fall_back([sent], {id(sent): "reply_to: there is no topic answers"})
    assert (told.topic, told.partition, told.form) == ("results", None, RecordForm.REFUSAL)
    assert told.headers[0] == ("kafka_correlationId", b"7")
    assert b'"reason":"reply_to: there is no topic answers"' in (told.value or b"")
    assert (letter.topic, letter.form, letter.value) == ("dead-letters", RecordForm.DEAD_LETTER, sent.message.value)
    assert letter.cause is not None
    assert (letter.cause.kind, letter.cause.field) == (DeadLetterClass.INVALID, "reply_to")


def test_a_refusal_without_a_place_goes_to_the_results_topic() -> None:
    """It is the same otherwise, and its dead letter stays beside it."""
    sent = message({"query_id": "q", "reply_to": "answers", "limit": 2.5})
    told, _ = way_out().refuse(Rejected(sent, DeadLetterClass.INVALID, "decode", "wrong", trace=trace()))
    (moved,) = way_out().fall_back([told], {id(told): "reply_to: there is no topic answers"})
    assert (told.topic, moved.topic) == ("answers", "results")
    assert (moved.value, moved.form) == (told.value, told.form)


def test_headers_count_in_the_size_of_a_result() -> None:
    """A short refusal has no more of them than correlates."""
    long = ("a", b"x" * 5000)
    sent = message({"query_id": "q", "limit": 2.5}, headers=(long, ("correlation-id", b"7"), ("traceparent", b"x")))
    rejected = Rejected(sent, DeadLetterClass.INVALID, "decode", "wrong", trace=trace())
    whole, _ = way_out().refuse(rejected)
    assert whole.headers[:2] == (long, ("correlation-id", b"7"))
    small, _ = way_out(max_bytes={"results": whole.size - 1}).refuse(rejected)
    assert (small.form, small.headers[0]) == (RecordForm.SHORT_REFUSAL, ("correlation-id", b"7"))
    assert long not in small.headers

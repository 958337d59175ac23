"""The reader of rules, on a scripted tail: when a flow may begin, and what holds while the topic cannot be read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from structlog.testing import capture_logs

from operators.delivery.client import TopicReader
from operators.delivery.table_reader import RuleReader
from operators.query.rules import Circumstances, RuleTable
from operators.query.ruling import decide
from schemas.errors import FatalDelivery
from schemas.rule import rule_key
from tests.integration.deployment import wait_until
from tests.operators.delivery.scripted import WITHIN
from tests.operators.delivery.scripted_topic import ScriptedTail, Topic

pytestmark = pytest.mark.slow

KEY = rule_key("n", "r")
PIN = b'{"then": {"pin": [{"id": "x", "position": 1}]}}'
Broken = list[tuple[int, str | None]]
BURY = b'{"then": {"bury": {"ids": ["x"]}}}'


@contextmanager
def reading(topic: Topic, broken: Broken | None = None) -> Iterator[RuleReader]:
    """A running reader, closed at the end; `broken` gets the records that were no rule, and what is wrong with them."""
    told = broken if broken is not None else []
    reader = RuleReader(
        lambda: cast("TopicReader", ScriptedTail(topic)),
        0.1,
        RuleTable(),
        lambda record, error: told.append((record.offset, error.field)),
    )
    reader.start()
    try:
        yield reader
    finally:
        topic.answering.set()
        reader.close()


def effect(reader: RuleReader) -> set[str]:
    """The effects of the rules in force."""
    sets = reader.of("n")
    return (
        {name for rule in decide(sets, None, Circumstances(None, 0)).rules for name in rule.rule.then.model_fields_set}
        if sets
        else set()
    )


def test_no_flow_begins_before_the_rules_are_read() -> None:
    """It waits for the end of the topic; if that does not come, it fails."""
    topic = Topic(KEY)
    topic.put(PIN)
    topic.answering.clear()
    with reading(topic) as reader:
        with pytest.raises(FatalDelivery, match="rules"):
            reader.wait(0.2)
        assert effect(reader) == set()
        threading.Timer(0.2, topic.answering.set).start()
        reader.wait(WITHIN)
        assert effect(reader) == {"pin"}


def test_new_rules_are_read_though_nobody_asks() -> None:
    """A put, a broken value, which changes nothing, and a removal."""
    topic = Topic(KEY)
    with reading(topic) as reader:
        reader.wait(WITHIN)
        topic.put(PIN)
        wait_until(lambda: effect(reader) == {"pin"})
        topic.put(b"{")
        topic.put(BURY)
        wait_until(lambda: effect(reader) == {"bury"})
        topic.put(b"no rule")
        polls = topic.polls
        wait_until(lambda: topic.polls > polls + 3)
        assert effect(reader) == {"bury"}
        topic.put(None)
        wait_until(lambda: effect(reader) == set())


def test_a_broken_rule_is_told_once() -> None:
    """If it came since the topic was first read, though the topic is read again later; all are logged by their places.

    A line has none of the sender's own words.
    """
    topic, broken = Topic(KEY), Broken()
    topic.put(b'{"then": {}}', marks=0)
    with capture_logs() as lines, reading(topic, broken) as reader:
        reader.wait(WITHIN)
        topic.put(b'{"then": {"secret": 1}}', marks=0)
        wait_until(lambda: reader.refused == 2)
        topic.broken = True
        wait_until(lambda: reader.behind)
        topic.broken = False
        wait_until(lambda: reader.refused == 4)
    assert broken == [(1, "then.secret")]
    ignored = [each for each in lines if "ignored" in each["event"]]
    assert {each["field"] for each in ignored} == {None, "then"}
    place = {"topic": "watermarks", "partition": 0, "class": "invalid"}
    assert all(each.items() >= place.items() for each in ignored)
    assert {each["offset"] for each in ignored} == {0, 1}
    assert "secret" not in str(lines)


def test_rules_that_were_read_stay_in_force() -> None:
    """A reader that nobody asks finds by itself that the broker is away, says so, and catches up later."""
    topic = Topic(KEY)
    topic.put(PIN)
    with reading(topic) as reader:
        reader.wait(WITHIN)
        assert not reader.behind
        topic.refusing = True
        wait_until(lambda: reader.behind)
        topic.put(BURY)
        assert effect(reader) == {"pin"}
        topic.refusing = False
        wait_until(lambda: not reader.behind)
        assert effect(reader) == {"bury"}

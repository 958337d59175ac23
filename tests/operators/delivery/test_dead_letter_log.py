"""The log of dead letters: each class when it begins, then counts; and nothing of what a message says."""

from collections import Counter, defaultdict
from collections.abc import MutableMapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.delivery import dead_letter_log
from operators.delivery.dead_letter_log import INTERVAL, DeadLetterLog
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.way_out import dead_letter, without_payload
from operators.wire.message import Cause, Rejected
from schemas.document import DocumentEvent
from schemas.errors import DeadLetterClass, InputError
from schemas.event import json_object, validate
from schemas.query import QueryEvent
from tests.operators.delivery.deliveries import PARTITION, delivering, read
from tests.operators.delivery.scripted import ScriptedProducer, until
from tests.operators.delivery.test_sink import refusing
from tests.operators.recorded import Recorded
from tests.operators.samples import message, origin, output_record

Lines = list[MutableMapping[str, Any]]

CANARY = "the secret text of a query"


def letter(
    offset: int = 0, kind: DeadLetterClass = DeadLetterClass.INVALID, stage: str = "decode", field: str | None = None
) -> OutputRecord:
    """A dead letter."""
    return dead_letter(Rejected(message(offset=offset), kind, stage, CANARY, field=field), "dead-letters", None)


def letter_of(record: OutputRecord) -> OutputRecord:
    """A dead letter in place of the record."""
    return replace(
        record, topic="dead-letters", form=RecordForm.DEAD_LETTER, cause=Cause(DeadLetterClass.INVALID, "decode")
    )


def counts(lines: Lines) -> list[int]:
    """The number of dead letters that each line stands for."""
    return [line["count"] for line in lines]


def test_the_first_is_told_with_its_place() -> None:
    """The first dead letter of a class is one warning with class, stage, field and place, and without its reason."""
    with capture_logs() as lines:
        DeadLetterLog().delivered([letter(42, field="limit")], 0.0)
    place = {"topic": "queries", "partition": 0, "offset": 42}
    told = {"event": "dead letters", "class": "invalid", "stage": "decode", "field": "limit", "count": 1}
    assert lines == [{**told, **place, "log_level": "warning"}]


def test_the_first_is_told_with_its_trace() -> None:
    """The line of a message that has a trace leads to it."""
    recorded = Recorded()
    with capture_logs() as lines:
        DeadLetterLog().delivered([replace(letter(), trace=(trace := recorded.trace()))], 0.0)
    assert [line["trace_id"] for line in lines] == [trace.trace_id]


def test_more_of_a_class_are_one_line_a_minute() -> None:
    """A dead letter a second, for three minutes: the first, and then a line a minute with how many came since."""
    log = DeadLetterLog()
    with capture_logs() as lines:
        for second in range(181):
            log.delivered([letter(second)], float(second))
            log.tell(float(second))
    assert INTERVAL == 60
    assert counts(lines) == [1, 60, 60, 60]
    more = {"event": "dead letters", "class": "invalid", "stage": "decode", "topic": "queries", "count": 60}
    assert lines[1:] == [{**more, "log_level": "warning"}] * 3


def test_classes_and_stages_are_told_apart() -> None:
    """Another class, and the same class of another stage or topic, are told at once, each with its own place."""
    log = DeadLetterLog()
    letters = [
        letter(0),
        letter(1, kind=DeadLetterClass.NOT_JSON),
        letter(2, stage="admit"),
        letter(3),
        without_payload(output_record(4), "dead-letters"),
        letter_of(output_record(5, origin=origin(5, topic="documents"))),
    ]
    with capture_logs() as lines:
        log.delivered(letters, 0.0)
    assert [(line["class"], line["stage"], line["offset"]) for line in lines] == [
        ("invalid", "decode", 0),
        ("not_json", "decode", 1),
        ("invalid", "admit", 2),
        ("too_large", "send", 4),
        ("invalid", "decode", 5),
    ]


def test_after_a_silence_a_class_begins_anew() -> None:
    """A dead letter that comes after a minute without any is told at once, with its place."""
    log = DeadLetterLog()
    with capture_logs() as lines:
        for offset, now in enumerate((0.0, INTERVAL)):
            assert log.due(now) is None
            log.delivered([letter(offset)], now)
    assert [line["offset"] for line in lines] == [0, 1]


def test_results_are_no_dead_letters() -> None:
    """Of records without a dead letter nothing is told; a result that goes with a dead letter is told as that one."""
    log = DeadLetterLog()
    with capture_logs() as lines:
        log.delivered([output_record(0), output_record(1, form=RecordForm.WATERMARK), output_record(2), letter(2)], 0.0)
        log.log_rest()
    assert [line["offset"] for line in lines] == [2]


steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, INTERVAL / 4, INTERVAL, 5 * INTERVAL]),
        st.sampled_from([DeadLetterClass.INVALID, DeadLetterClass.NOT_JSON, None]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(steps)
def test_every_dead_letter_is_counted_once_and_in_time(passed: list[tuple[float, DeadLetterClass | None, int]]) -> None:
    """Lines about a class are at least a minute apart; no dead letter is untold for longer than a minute, if the counts
    are told when they are due; and in the end the lines count all.
    """
    log, now = DeadLetterLog(), 0.0
    came: Counter[str] = Counter()
    told: Counter[str] = Counter()
    times: dict[str, list[float]] = defaultdict(list)

    def note(lines: Lines) -> None:
        for line in lines:
            told[line["class"]] += line["count"]
            times[line["class"]].append(now)
        lines.clear()

    with capture_logs() as lines:
        for pause, kind, count in passed:
            end = now + pause
            while (due := log.due(now)) is not None and now + due <= end:
                assert due <= INTERVAL
                now += due
                log.tell(now)
                note(lines)
            now = end
            assert due is not None or told == came
            if kind is not None and count:
                came[kind.value] += count
                log.delivered([letter(kind=kind)] * count, now)
            note(lines)
        assert all(later - earlier >= INTERVAL for each in times.values() for earlier, later in pairwise(each))
        log.log_rest()
        note(lines)
    assert told == came


WRONG: list[tuple[type[QueryEvent | DocumentEvent], str, str | None]] = [
    (QueryEvent, '{"query_id": "q", "text": "t", "limit": "%s"}', "limit"),
    (QueryEvent, '{"query_id": "q", "text": "t", "%s": 1}', None),
    (QueryEvent, '{"query_id": "q", "text": "t", "filters": [{"%s": 1}]}', "filters"),
    (DocumentEvent, '{"id": "d", "text": "t", "edges": [{"to": "e", "%s": 1}]}', "edges"),
    (DocumentEvent, '{"id": "d", "text": ["%s"]}', "text"),
]


@pytest.mark.parametrize(("model", "text", "field"), WRONG)
def test_no_line_quotes_a_message(model: type[QueryEvent | DocumentEvent], text: str, field: str | None) -> None:
    """Whatever is wrong with an event, the line has no value and no name that its sender chose."""
    sent = message(text.replace("%s", CANARY).encode())
    with pytest.raises(InputError) as caught:
        validate(model, json_object(sent.value, 1000))
    wrong = caught.value
    assert CANARY in str(wrong)
    rejected = Rejected(sent, wrong.kind, "decode", str(wrong), field=wrong.field)
    with capture_logs() as lines:
        DeadLetterLog().delivered([dead_letter(rejected, "dead-letters", None)], 0.0)
    (line,) = lines
    assert line["field"] == field
    assert CANARY not in str(line)


def test_what_was_dropped_is_not_told() -> None:
    """A dead letter is told when it is durable; one of a partition that was taken away is another replica's to tell."""
    ledger, records = read(2)
    dead = [letter_of(record) for record in records]
    with capture_logs() as lines:
        with delivering(ScriptedProducer(), ledger) as (delivery, _):
            delivery.enqueue(dead[:1])
            until(lambda: ledger.in_flight == 1)
            ledger.revoke([PARTITION])
            delivery.enqueue(dead[1:])
        told = [line for line in lines if line["event"] == "dead letters"]
    assert [(line["offset"], line["count"]) for line in told] == [(0, 1)]


def test_what_is_left_is_told_at_the_end() -> None:
    """The dead letters of the last minute are counted when delivery closes; those that a topic refused are, too."""
    ledger, records = read(5)
    with capture_logs() as lines:
        with delivering(ScriptedProducer(refusing(4)), ledger) as (delivery, _):
            delivery.enqueue([*map(letter_of, records[:3]), *records[3:]])
            until(lambda: ledger.in_flight == 0)
        told = [line for line in lines if line["event"] == "dead letters"]
    assert [(line["class"], line["count"]) for line in told] == [("invalid", 1), ("too_large", 1), ("invalid", 2)]


def test_a_count_is_told_although_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a load with rejected documents, an idle flow tells how many they were."""
    monkeypatch.setattr(dead_letter_log, "INTERVAL", 0.01)
    ledger, records = read(3)
    with capture_logs() as lines, delivering(ScriptedProducer(), ledger) as (delivery, _):
        delivery.enqueue(list(map(letter_of, records)))
        until(lambda: counts(lines) == [1, 2])

"""The log of dead letters: those of one topic, class and stage in one line; and nothing of what a message says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from operators.delivery.output_record import OutputRecord, RecordForm, own_field
from operators.delivery.way_out import dead_letter
from operators.wire.message import Cause, Rejected
from schemas.document import DocumentEvent
from schemas.errors import DeadLetterClass, InputError
from schemas.event import json_object, validate
from schemas.query import QueryEvent
from tests.operators.delivery.deliveries import PARTITION, delivering, read
from tests.operators.delivery.scripted import ScriptedProducer, until
from tests.operators.delivery.test_sink import refusing
from tests.operators.recorded import Recorded
from tests.operators.samples import message

CANARY = "the secret text of a query"

INVALID = Cause(DeadLetterClass.INVALID, "decode")


def letter_of(record: OutputRecord, cause: Cause = INVALID, **changes: Any) -> OutputRecord:
    """A dead letter in place of the record."""
    return replace(record, topic="dead-letters", form=RecordForm.DEAD_LETTER, cause=cause, **changes)


def logged(causes: Sequence[Cause], *, refused: Sequence[int] = (), lost: int = 0, **changes: Any) -> list[Any]:
    """The lines about dead letters of these causes, if a producer refuses some, and the last `lost` are taken away."""
    ledger, records = read(len(causes))
    letters = [letter_of(record, cause, **changes) for record, cause in zip(records, causes, strict=True)]
    with capture_logs() as lines, delivering(ScriptedProducer(refusing(*refused)), ledger) as (delivery, _):
        delivery.enqueue(letters[: len(letters) - lost])
        until(lambda: ledger.in_flight == lost)
        ledger.revoke([PARTITION])
        delivery.enqueue(letters[len(letters) - lost :])
    return [line for line in lines if line["event"] == "dead letters"]


def test_the_first_is_told_with_its_place() -> None:
    """With class, stage and field, and the number of those that are alike; without a reason."""
    cause = Cause(DeadLetterClass.INVALID, "decode", "limit", CANARY)
    place = {"topic": "queries", "partition": 0, "offset": 0}
    told = {"event": "dead letters", "class": "invalid", "stage": "decode", "field": "limit", "count": 3}
    assert logged([cause] * 3) == [{**told, **place, "log_level": "warning"}]


def test_the_first_is_told_with_its_trace() -> None:
    """The line of a message that has a trace leads to it."""
    trace = Recorded().trace()
    assert [line["trace_id"] for line in logged([INVALID], trace=trace)] == [trace.trace_id]


def test_classes_and_stages_are_told_apart() -> None:
    """Each has a line of its own; what a topic refused is of the stage that sends."""
    causes = [INVALID, Cause(DeadLetterClass.NOT_JSON, "decode"), Cause(DeadLetterClass.INVALID, "admit"), INVALID]
    told = [(line["class"], line["stage"], line["count"]) for line in logged(causes)]
    assert told == [("invalid", "decode", 2), ("not_json", "decode", 1), ("invalid", "admit", 1)]
    assert [(line["class"], line["stage"]) for line in logged([INVALID], refused=[0])] == [("too_large", "send")]


def test_what_was_dropped_is_not_told() -> None:
    """A dead letter is told when it is durable; one of a partition that was taken away is another replica's to tell."""
    assert [(line["offset"], line["count"]) for line in logged([INVALID] * 2, lost=1)] == [(0, 1)]


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
    cause = dead_letter(rejected, "dead-letters", None).cause
    assert cause is not None
    (line,) = logged([cause])
    assert line["field"] == own_field(wrong.field) == field
    assert CANARY not in str(line)

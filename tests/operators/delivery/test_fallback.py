"""Fallback: whatever a topic refuses, some form of the record is taken, or the process ends and says why."""

from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.delivery.client import ProducerRecord
from operators.delivery.error_codes import RefusalCode
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.replay import DeadLetter, to_record
from operators.delivery.way_out import dead_letter
from operators.wire.message import Rejected
from schemas import headers as names
from schemas.errors import DeadLetterClass, FatalDelivery
from tests.operators.samples import message, output_record, trace, way_out

STAMP = 1_700_000_000_123_456
"""Microseconds, read as milliseconds: the year 55,840."""


def letter(key: bytes | None = b"key", value: bytes | None = b"{", stamp: int | None = STAMP) -> OutputRecord:
    """A dead letter of a message as it was sent."""
    timestamp = -1.0 if stamp is None else stamp / 1000
    sent = message(key=key, value=value, timestamp=timestamp, headers=(("own", b"1"),))
    return dead_letter(Rejected(sent, DeadLetterClass.NOT_JSON, "decode", "why"), "dead-letters", None)


def forms(record: OutputRecord, takes: Callable[[OutputRecord], bool], refusal: RefusalCode) -> list[OutputRecord]:
    """The forms of a record up to the one that its topic takes. Raises FatalDelivery."""
    tried = [record]
    while not takes(tried[-1]):
        tried += way_out().fall_back(tried[-1:], {id(tried[-1]): refusal})
        assert len(tried) < 10, "no end"
    return tried


def test_a_refused_timestamp_costs_the_timestamp_alone() -> None:
    """Key, value, headers and cause are kept; the message's own time and the reason are headers."""
    *_, taken = forms(letter(), lambda each: each.timestamp_ms is None, RefusalCode.INVALID_TIMESTAMP)
    assert (taken.key, taken.value, taken.cause) == (b"key", b"{", letter().cause)
    assert taken.headers[: len(letter().headers)] == letter().headers
    assert dict(taken.headers)[names.TIMESTAMP] == b"%d" % STAMP
    assert dict(taken.headers)[names.REFUSED] == b"dead-letters refuses the record: INVALID_TIMESTAMP"


def test_a_compacted_topic_gets_an_empty_key() -> None:
    """A dead letter without a key keeps its payload where none without a key is taken."""
    *_, taken = forms(letter(key=None), lambda each: each.key is not None, RefusalCode.INVALID_RECORD)
    assert (taken.key, taken.value) == (b"", b"{")


def test_a_refused_payload_is_left_out() -> None:
    """A record that is refused in every form with a payload is a dead letter that leads to the message."""
    *_, taken = forms(letter(key=None), lambda each: each.value is None, RefusalCode.POLICY_VIOLATION)
    why = dict(taken.headers)
    assert (why[names.TOPIC], why[names.OFFSET]) == (b"queries", b"0")
    assert why[names.CLASS] == b"internal"
    assert why[names.MESSAGE] == b"dead-letters refuses the record: POLICY_VIOLATION"


@pytest.mark.parametrize("refusal", [RefusalCode.MESSAGE_TOO_LARGE, RefusalCode.RECORD_LIST_TOO_LARGE])
def test_a_dead_letter_that_is_too_large_loses_its_payload_at_once(refusal: RefusalCode) -> None:
    """Without its timestamp it would be as large."""
    first = letter(key=None)
    (second,) = way_out().fall_back([first], {id(first): refusal})
    assert second.value is None
    assert dict(second.headers)[names.CLASS] == b"too_large"


def test_a_tombstones_dead_letter_has_further_forms() -> None:
    """A dead letter without a value isn't yet one without payload: its timestamp can be left out."""
    *_, taken = forms(letter(value=None), lambda each: each.timestamp_ms is None, RefusalCode.INVALID_TIMESTAMP)
    assert ("own", b"1") in taken.headers


def test_a_record_without_a_form_of_its_own_becomes_a_dead_letter() -> None:
    """A watermark that isn't taken is accounted for by a dead letter that leads to its document."""
    mark = output_record(7, topic="watermarks", form=RecordForm.WATERMARK)
    *_, taken = forms(mark, lambda each: each.topic == "dead-letters", RefusalCode.INVALID_RECORD)
    assert dict(taken.headers)[names.OFFSET] == b"7"
    assert dict(taken.headers)[names.MESSAGE] == b"watermarks refuses the record: INVALID_RECORD"


@given(
    st.sampled_from(RefusalCode), st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=3), st.booleans()
)
def test_the_forms_end(refusal: RefusalCode, key: bytes | None, value: bytes | None, stamped: bool) -> None:
    """The process ends if no form is taken, by an error that names the topic and the code."""
    with pytest.raises(FatalDelivery, match=f"dead-letters refuses a dead letter without payload: {refusal.name}"):
        forms(letter(key, value, STAMP if stamped else None), lambda _: False, refusal)


def refused(*headers: tuple[str, bytes], **event: object) -> list[OutputRecord]:
    """The refusal of a query, and its dead letter."""
    sent = message({"query_id": "q", "metadata": {"m": 1}, **event}, key=b"key", headers=headers)
    return way_out().refuse(Rejected(sent, DeadLetterClass.INVALID, "decode", "why", field="text"))


def test_only_what_is_refused_changes() -> None:
    """Of an answer and its dead letter, delivered together, the other one stays; of another answer both do."""
    told, letter = records = refused()
    same, smaller = way_out().fall_back(records, {id(letter): RefusalCode.INVALID_TIMESTAMP})
    assert same is told
    assert (smaller.timestamp_ms, smaller.value) == (None, letter.value)
    other = output_record(2)
    kept = way_out().fall_back(records, {id(other): RefusalCode.INVALID_RECORD})
    assert list(map(id, kept)) == list(map(id, records))


@pytest.mark.parametrize("headers", [(), (("content-type", b"application/cloudevents+json"),)])
def test_a_refusal_gives_up_what_it_does_not_need(headers: tuple[tuple[str, bytes], ...]) -> None:
    """Then the dead letter goes alone."""
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "data": {"query_id": "q", "metadata": {"m": 1}},
    }
    told, letter = records = refused(*headers, **(event if headers else {}))
    short, same = records = way_out().fall_back(records, {id(told): RefusalCode.INVALID_RECORD})
    assert same is letter
    said = orjson.loads(short.value or b"")
    assert (said["query_id"], said["metadata"]) == ("q", None)
    assert said["error"] == {"class": "invalid", "field": "text", "reason": "why"}
    assert (short.topic, short.origin, short.headers) == ("results", told.origin, ())
    assert way_out().fall_back(records, {id(short): RefusalCode.INVALID_RECORD}) == [letter]


def test_a_refused_result_is_told_with_its_dead_letter() -> None:
    """The sender of a query hears by a refusal that its result is not taken, and a dead letter leads to the query."""
    result = output_record(3, message=message({"query_id": "q"}, 3), trace=trace())
    told, letter = way_out().fall_back([result], {id(result): RefusalCode.POLICY_VIOLATION})
    why = "results refuses the record: POLICY_VIOLATION"
    assert orjson.loads(told.value or b"")["error"] == {"class": "internal", "field": None, "reason": why}
    assert (letter.topic, letter.value, dict(letter.headers)[names.MESSAGE]) == ("dead-letters", None, why.encode())
    assert way_out(tells=False).fall_back([result], {id(result): RefusalCode.POLICY_VIOLATION}) == [letter]


def test_a_replayed_dead_letter_has_the_messages_own_time() -> None:
    """A document's timestamp may be its version: it isn't the dead letter's, where that one had to be another."""
    *_, taken = forms(letter(), lambda each: each.timestamp_ms is None, RefusalCode.INVALID_TIMESTAMP)
    read = DeadLetter.of_record(taken.key, taken.value, taken.headers, 1_800_000_000_000)
    assert read is not None
    record = to_record(read, "other", "queries")
    assert isinstance(record, ProducerRecord)
    own = (("own", b"1"), (names.REPLAYED, read.attempt.encode()))
    assert (record.timestamp_ms, record.value, record.headers) == (STAMP, b"{", own)

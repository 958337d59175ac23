"""Dead letters: the original message untouched, and headers that say what was wrong with it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.delivery.replay import DeadLetter
from operators.delivery.way_out import dead_letter, without_payload
from operators.wire.message import Rejected
from schemas import headers as names
from schemas.errors import DeadLetterClass
from tests.operators.samples import message, origin, output_record

bytes_or_none = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=8)), max_size=4).map(tuple)


def rejected(reason: str = "why", **changes: Any) -> Rejected:
    """A message that `decode` rejected."""
    return Rejected(message(**changes), DeadLetterClass.NOT_JSON, "decode", reason)


@example(None, b"", (), 16_051)
@given(bytes_or_none, bytes_or_none, headers, st.integers(0, 4_102_444_800_000))
def test_the_original_is_untouched(
    key: bytes | None, value: bytes | None, before: tuple[tuple[str, bytes], ...], stamp: int
) -> None:
    """Key, value, headers in their order and the timestamp to the millisecond are the message's own."""
    sent = message(value=value, key=key, headers=before, timestamp=stamp / 1000)
    letter = dead_letter(
        Rejected(replace(sent, received=stamp / 1000 + 86_000), DeadLetterClass.NOT_JSON, "decode", "why"),
        "dead-letters",
        "0af7651916cd43dd",
    )
    assert letter.value == value
    assert letter.key == (b"" if key is None and value is None else key)
    assert letter.headers[: len(before)] == before
    assert letter.timestamp_ms == stamp
    assert letter.topic == "dead-letters"


def test_a_dead_letter_outlives_an_old_message() -> None:
    """Its topic would delete it by a timestamp of long ago, before anybody reads it: a header has that one."""
    sent = message(timestamp=1_000_000_000.123)
    old = Rejected(replace(sent, received=sent.timestamp + 86_401), DeadLetterClass.NOT_JSON, "decode", "why")
    letter = dead_letter(old, "dead-letters", None)
    assert letter.timestamp_ms is None
    assert letter.headers[-1] == ("__connect.errors.timestamp", b"1000000000123")
    read = DeadLetter.of_record(letter.key, letter.value, letter.headers, 1_800_000_000_000)
    assert read is not None
    assert (read.timestamp_ms, read.headers) == (1_000_000_000_123, sent.headers)


def test_the_headers_say_where_and_why() -> None:
    """Place, stage, class, message and trace stand under Kafka Connect's names, in text."""
    letter = dead_letter(rejected("no: line 1", offset=42), "dead-letters", "0af7651916cd43dd")
    assert dict(letter.headers) == {
        "__connect.errors.topic": b"queries",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"42",
        "__connect.errors.stage": b"decode",
        "__connect.errors.exception.class.name": b"not_json",
        "__connect.errors.exception.message": b"no: line 1",
        "__connect.errors.trace.id": b"0af7651916cd43dd",
    }
    assert letter.origin == origin(42)


def test_without_a_trace_there_is_no_trace_header() -> None:
    """An untraced message's dead letter names no trace."""
    assert names.TRACE_ID not in dict(dead_letter(rejected(), "dead-letters", None).headers)


@given(st.text(st.characters(), max_size=2000))
def test_the_reason_is_bounded_and_can_be_written(reason: str) -> None:
    """A reason of any length and any characters, lone surrogates too, becomes a header of bounded length."""
    written = dict(dead_letter(rejected(reason), "dead-letters", None).headers)[names.MESSAGE]
    assert written.decode() == reason[: names.MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()


def test_a_record_that_was_refused_keeps_no_payload() -> None:
    """In place of a record over its topic's limit stands one without value that names the query and the topic."""
    letter = without_payload(output_record(7, value=b"x" * 100, headers=(("traceparent", b"t"),)), "dead-letters")
    assert (letter.topic, letter.key, letter.value) == ("dead-letters", b"key", None)
    assert letter.origin == origin(7)
    assert dict(letter.headers) == {
        "__connect.errors.topic": b"queries",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"7",
        "__connect.errors.stage": b"send",
        "__connect.errors.exception.class.name": b"too_large",
        "__connect.errors.exception.message": b"the record for results is larger than its topic takes",
    }


@pytest.mark.parametrize("key", [None, b"k" * (names.MAX_MESSAGE_CHARS + 1)])
def test_a_refused_record_without_a_usable_key_has_an_empty_one(key: bytes | None) -> None:
    """No key, or one that may itself be what was too large, becomes empty: a record without both isn't taken."""
    assert without_payload(output_record(7, key=key), "dead-letters").key == b""


@pytest.mark.parametrize(
    ("timestamp", "stamp"), [(-0.001, None), (-5e9, None), ((2**63 - 1) / 1000, 2**63 - 1), (0.0, None)]
)
def test_a_dead_letters_timestamp_can_be_written(timestamp: float, stamp: int | None) -> None:
    """A message without a timestamp, or one at the end of all times, has a dead letter that Kafka's writers take."""
    assert dead_letter(rejected(timestamp=timestamp), "dead-letters", None).timestamp_ms == stamp

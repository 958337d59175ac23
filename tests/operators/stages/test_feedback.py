"""The feedback flow's steps: every malformed event is a dead letter, and every message ends exactly once."""

import base64
from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import pytest

from operators.delivery.error_codes import RefusalCode
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.experiments.impression import Impression, TokenCodec
from operators.experiments.window import FeedbackOutcome, Windows
from operators.runtime.stage import run_step
from operators.stages.feedback import IDLE, FeedbackDecoder, FeedbackFinaliser, Join
from operators.wire.message import Message, Origin
from schemas import headers as names
from schemas.headers import MAX_HEADERS
from tests.operators.experiments.joining import SECRET, TOKENS, impression
from tests.operators.samples import message, origin, way_out

LENGTH = 1000
MAX_BYTES = 20_000
TOKEN = TOKENS.write(impression())
DECODER = FeedbackDecoder(MAX_BYTES, TOKENS)
FINALISER = FeedbackFinaliser(way_out(tells=False))
OWN = {"token": TOKEN, "action": "click"}
UBI = {
    "action_name": "click",
    "query_id": "q",
    "client_id": "client-7",
    "session_id": "session-7",
    "user_id": "user-7",
    "timestamp": "2026-11-30T12:00:00Z",
    "event_attributes": {
        "token": TOKEN,
        "object": {"object_id": "d0", "name": "Lantern"},
        "position": {"ordinal": 1},
    },
}


def ubi(**attributes: Any) -> dict[str, Any]:
    """A UBI event with other attributes."""
    return {**UBI, "event_attributes": {"position": {"ordinal": 1}, **attributes}}


def flipped(token: str, at: int) -> str:
    """The token with one bit of its content changed."""
    content = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    content[at] ^= 1
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def without_secret(token: str) -> str:
    """The same impression, signed with another secret."""
    return TokenCodec(b"another secret").write(TokenCodec(SECRET).read(token))


MALFORMED: list[tuple[str, Any, str, str | None]] = [
    ("no value", None, "not_json", None),
    ("nothing", b"", "not_json", None),
    ("no JSON", b'{"token": ', "not_json", None),
    ("not UTF-8", b'{"token": "\xff"}', "not_json", None),
    ("NaN", b'{"token": NaN}', "not_json", None),
    ("an array", b"[]", "invalid", None),
    ("a text", b'"click"', "invalid", None),
    ("a repeated key", b'{"token": "a", "token": "b", "action": "click"}', "invalid", None),
    ("too many levels", b'{"token":' + b"[" * 200 + b"]" * 200 + b"}", "not_json", None),
    ("too many parts", {"token": TOKEN, "action": {str(n): n for n in range(1001)}}, "too_large", None),
    ("too large", {**OWN, "action": "x" * MAX_BYTES}, "too_large", None),
    ("another version", {**OWN, "schema_version": 2}, "unsupported_version", "schema_version"),
    ("a version that is a text", {**OWN, "schema_version": "1"}, "invalid", "schema_version"),
    ("nothing in it", {}, "invalid", "token"),
    ("no token", {"action": "click"}, "invalid", "token"),
    ("no action", {"token": TOKEN}, "invalid", "action"),
    ("an empty action", {**OWN, "action": ""}, "invalid", "action"),
    ("a long action", {**OWN, "action": "x" * 257}, "invalid", "action"),
    ("an action that is a number", {**OWN, "action": 1}, "invalid", "action"),
    ("an unknown field", {**OWN, "client_id": "c"}, "invalid", "client_id"),
    ("a time without an offset", {**OWN, "at": "2026-11-30T12:00:00"}, "invalid", "at"),
    ("a time that is none", {**OWN, "at": "yesterday"}, "invalid", "at"),
    ("a time that is a switch", {**OWN, "at": True}, "invalid", "at"),
    ("an empty token", {**OWN, "token": ""}, "invalid", "token"),
    ("a token of null", {**OWN, "token": None}, "invalid", "token"),
    ("a long token", {**OWN, "token": TOKEN + "A" * 10_000}, "invalid", "token"),
    ("a token that is no base64", {**OWN, "token": "é" + TOKEN}, "invalid", "token"),
    ("half a token", {**OWN, "token": TOKEN[: len(TOKEN) // 2]}, "invalid", "token"),
    ("a token of another version", {**OWN, "token": flipped(TOKEN, 0)}, "invalid", "token"),
    ("a token with another query", {**OWN, "token": flipped(TOKEN, 12)}, "invalid", "token"),
    ("a token with another tag", {**OWN, "token": flipped(TOKEN, -1)}, "invalid", "token"),
    ("a token of another secret", {**OWN, "token": without_secret(TOKEN)}, "invalid", "token"),
    ("UBI: an action that is a number", {**UBI, "action_name": 1}, "invalid", "action_name"),
    ("UBI: an empty action", {**UBI, "action_name": ""}, "invalid", "action_name"),
    ("UBI: attributes that are none", {**UBI, "event_attributes": []}, "invalid", "event_attributes"),
    ("UBI: a token that is a number", ubi(token=1), "invalid", "event_attributes.token"),
    ("UBI: a token of another secret", ubi(token=without_secret(TOKEN)), "invalid", "token"),
]
"""Each with its value, the class of its dead letter, and the field that is named."""


def event(value: Any, offset: int = 0, *, time: float | None = None, **changes: Any) -> Message:
    """A message of the topic; `time` in ms."""
    own = {"key": b"q", "timestamp": (0 if time is None else time) / 1000, **changes}
    return message(value, origin=origin(offset, topic="feedback"), **own)


def decoded(messages: list[Message]) -> list[Any]:
    """The step `decode`."""
    return run_step("decode", messages, DECODER)


class Joined:
    """A join, and the records by which it ends messages."""

    def __init__(self, windows: Windows | None = None) -> None:
        self.outcomes: Counter[FeedbackOutcome] = Counter()
        self.at_end: tuple[float, frozenset[Origin]] = (0.0, frozenset())
        self.running = 1
        self.join = Join(
            "preferences",
            lambda: windows or Windows(LENGTH, 30, 100),
            lambda: self.at_end,
            lambda of: of.epoch == self.running,
            lambda outcome, number: self.outcomes.update({outcome: number}),
        )

    def read(self, *messages: Message) -> list[OutputRecord]:
        """Read a batch of messages; the records that leave."""
        return self._records(self.join.on_batch([decoded([*messages])]))

    def notice(self) -> list[OutputRecord]:
        """Have the join look at the time; the records that leave."""
        return self._records(self.join.on_notify())

    def _records(self, out: Any) -> list[OutputRecord]:
        batches, _ = out
        return [record for batch in batches for item in batch for record in FINALISER(item)]


@pytest.mark.parametrize(
    ("value", "kind", "field"), [each[1:] for each in MALFORMED], ids=[each[0] for each in MALFORMED]
)
def test_a_malformed_event_is_a_dead_letter(value: Any, kind: str, field: str | None) -> None:
    """The message goes unchanged to the dead letters, with its class and its field; it moves no window."""
    joined = Joined()
    assert joined.read(event(OWN, 0)) == []
    [letter] = joined.read(event(value, 1))
    sent = event(value, 1)
    assert (letter.topic, letter.key, letter.value) == ("dead-letters", sent.key, sent.value)
    assert letter.dead_letter is not None
    assert (letter.dead_letter.kind, letter.dead_letter.field) == (kind, field)
    # The secret and what is signed stay here.
    assert SECRET.decode() not in letter.dead_letter.reason
    [preference] = joined.read(event(OWN, 2, time=LENGTH + 1))[:1]
    assert (preference.origin.offset, preference.further) == (0, ())


def test_the_token_of_the_longest_ids_is_taken() -> None:
    """Each character of an id may take six bytes in a token."""
    longest = Impression("x" * 64, "b", 200, "\x01" * 4096, "\x01" * 512, "\x01" * 256, 2**53)
    said = {"token": TOKENS.write(longest), "action": "click"}
    [read] = run_step("decode", [event(said, key=longest.query_id.encode())], FeedbackDecoder(1_000_000, TOKENS))
    assert (read.impression, read.action) == (longest, "click")


@pytest.mark.parametrize("key", [None, b"", b"other", b"\xff", b"Q"])
@pytest.mark.parametrize("value", [OWN, UBI], ids=["own", "UBI"])
def test_an_event_needs_the_key_of_its_query(key: bytes | None, value: Any) -> None:
    """By another key it may be in another partition than the query's other events."""
    [letter] = Joined().read(event(value, key=key))
    assert letter.dead_letter is not None
    assert (letter.dead_letter.kind, letter.dead_letter.field, letter.key) == ("invalid", "key", key)


def test_headers_that_cannot_be_read_are_a_dead_letter() -> None:
    """More headers than are read, and more bytes than a message may have."""
    many = event(OWN, headers=(("a", b"b"),) * MAX_HEADERS, legible=False)
    large = event(OWN, headers=(("a", b"b" * MAX_BYTES),))
    letters = [Joined().read(each)[0] for each in (many, large)]
    assert [dict(each.headers)[names.CLASS] for each in letters] == [b"invalid", b"too_large"]


@pytest.mark.parametrize("action", ["impression", "click"])
def test_an_event_of_ubi_that_names_no_result_is_left_alone(action: str) -> None:
    """An event without a token, and a result that came into view, count for nothing and are no defect."""
    attributes = {"token": TOKEN} if action == "impression" else {}
    joined = Joined()
    [record] = joined.read(event({**ubi(**attributes), "action_name": action}, 5, key=None if not attributes else b"q"))
    assert (record.form, record.origin.offset, record.value) == (RecordForm.NOTHING, 5, None)
    assert joined.outcomes == {FeedbackOutcome.IGNORED: 1}


def test_both_forms_are_one_click() -> None:
    """A click in our own form and the same as UBI has it, doubled, are one; nobody's id leaves with the preference."""
    joined = Joined()
    assert joined.read(event(OWN, 3), event(UBI, 4), event(UBI, 6)) == []
    [preference, _] = joined.read(event(OWN, 7, time=LENGTH + 1))
    assert (preference.topic, preference.key) == ("preferences", b"q")
    assert (preference.origin, preference.further) == (origin(3, topic="feedback"), (4, 6))
    assert orjson.loads(preference.value or b"") == {
        "schema_version": 1,
        "experiment": "x",
        "query_id": "q",
        "namespace": "public",
        "issued": 0,
        "a": 1,
        "b": 0,
        "preferred": "a",
        "clicks": [{"id": "d0", "rank": 0, "side": "a", "actions": ["click"]}],
        "robot": False,
    }
    assert joined.outcomes == {FeedbackOutcome.COUNTED: 3, FeedbackOutcome.LATE: 1}


@pytest.mark.parametrize("wrong", [-86_400, 86_400])
def test_clocks_of_clients_play_no_part(wrong: int) -> None:
    """A client's clock may be wrong by a day: Kafka's time alone says whether its event is late."""
    joined = Joined()
    assert joined.read(event({**OWN, "at": wrong}, 0), event({**UBI, "timestamp": "1999-01-01T00:00:00Z"}, 1)) == []
    [preference, late] = joined.read(event({**OWN, "at": 0.5}, 2, time=LENGTH + 1))
    assert (preference.further, late.form, late.origin.offset) == ((1,), RecordForm.NOTHING, 2)


def test_the_last_windows_of_a_partition_close_by_the_clock() -> None:
    """Once its last message is read, they close a minute after their ends, also if that was a dead letter."""
    joined = Joined()
    joined.read(event(OWN, 0), event(b"no JSON", 1))
    last, before = (origin(offset, topic="feedback") for offset in (1, 0))
    for moment, ended in ((LENGTH / 1000 + IDLE, last), (LENGTH / 1000 + IDLE + 1, before)):
        joined.at_end = moment, frozenset([ended])
        assert joined.notice() == []
    joined.at_end = LENGTH / 1000 + IDLE + 0.001, frozenset([last])
    [preference] = joined.notice()
    assert preference.origin == before
    [late] = joined.read(event(OWN, 2))
    assert late.form is RecordForm.NOTHING


def test_windows_of_an_assignment_that_has_ended_are_dropped() -> None:
    """Their messages are read again, by whoever has the partition then: here too, under a new assignment."""
    joined = Joined()
    joined.read(event(OWN, 0))
    assert joined.join.notify_at() is not None
    joined.running = 2
    joined.at_end = 1e6, frozenset([origin(0, topic="feedback")])
    assert joined.notice() == []
    assert joined.join.notify_at() is None
    again = reassigned(event(OWN, 0))
    assert joined.read(again) == []
    joined.at_end = 1e6, frozenset([again.origin])
    [preference] = joined.notice()
    assert (preference.origin.epoch, preference.further) == (2, ())


def test_a_new_assignment_forgets_the_windows_of_the_last_one() -> None:
    """Without a look at the time in between, too: no message counts twice."""
    joined = Joined()
    assert joined.read(event(OWN, 0), reassigned(event(OWN, 0))) == []
    preference, late = joined.read(reassigned(event(OWN, 1, time=LENGTH + 1)))
    assert (preference.origin, preference.further, late.form) == (
        origin(0, topic="feedback", epoch=2),
        (),
        RecordForm.NOTHING,
    )


def reassigned(of: Message) -> Message:
    """The same message, read under a later assignment."""
    return replace(of, origin=of.origin._replace(epoch=2))


def test_a_preference_that_its_topic_refuses_ends_its_messages_all_the_same() -> None:
    """A dead letter without payload takes its place, for the first of them, and is the end of the others, too."""
    joined = Joined()
    joined.read(event(OWN, 0), event(UBI, 1))
    preference, _ = joined.read(event(OWN, 2, time=LENGTH + 1))
    [letter] = FINALISER.way_out.fall_back([preference], {id(preference): RefusalCode.MESSAGE_TOO_LARGE})
    assert (letter.form, letter.origin, letter.further) == (RecordForm.WITHOUT_PAYLOAD, preference.origin, (1,))

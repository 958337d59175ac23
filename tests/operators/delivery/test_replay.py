"""Replay: a dead letter becomes the message that it was made of, and is chosen by filters that must all hold."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.delivery.client import ProducerRecord
from operators.delivery.replay import DeadLetter, DeadLetterFilter, Position, Skip, Throttle, find_futile, to_record
from operators.delivery.way_out import dead_letter, without_payload
from operators.wire.message import Origin, Rejected
from schemas import headers as names
from schemas.errors import DeadLetterClass
from tests.operators.samples import message, origin, output_record

QUERIES, DOCUMENTS = "queries", "documents"
STAMP, STAMP_MS = 1_700_000_000.25, 1_700_000_000_250

own_names = st.text(max_size=8) | st.sampled_from([names.TOPIC, names.OFFSET, names.TRACE_ID, "traceparent"])
headers = st.lists(st.tuples(own_names, st.binary(max_size=8)), max_size=6).map(tuple)
some_letters = st.builds(
    lambda kind, stage, topic, offset, stamp: DeadLetter(
        Position(topic, 0, offset), kind, stage, "why", b"k", b"v", (), 1000 * stamp
    ),
    st.sampled_from([DeadLetterClass.INVALID, DeadLetterClass.TOO_LARGE]),
    st.sampled_from(["decode", "publish"]),
    st.sampled_from([QUERIES, DOCUMENTS]),
    st.integers(0, 2),
    st.integers(0, 4),
)
some_filters = st.builds(
    DeadLetterFilter,
    classes=st.sampled_from([frozenset(), frozenset({DeadLetterClass.INVALID}), frozenset(DeadLetterClass)]),
    stage=st.sampled_from([None, "decode"]),
    topic=st.sampled_from([None, QUERIES]),
    positions=st.sampled_from([frozenset(), frozenset({Position(QUERIES, 0, 1), Position(DOCUMENTS, 0, 2)})]),
    since=st.sampled_from([None, 1.0]),
    until=st.sampled_from([None, 3.0]),
)


def read(record: ProducerRecord) -> DeadLetter | None:
    """The letter that a reader of the dead-letter topic makes of the record."""
    stamp_ms = STAMP_MS if record.timestamp_ms is None else record.timestamp_ms
    return DeadLetter.of_record(record.key, record.value, record.headers, stamp_ms)


def letter(topic: str = QUERIES, **changes: Any) -> DeadLetter:
    """The letter of a message of the topic."""
    rejected = Rejected(
        message(origin=origin(5, topic=topic), **{"timestamp": STAMP, **changes}),
        DeadLetterClass.INVALID,
        "decode",
        "limit: too big",
    )
    found = read(dead_letter(rejected, "dead-letters", "0af7651916cd43dd"))
    assert found is not None
    return found


@example(None, b"", ((names.TOPIC, b"x"), (names.TRACE_ID, b"y")), None)
@given(st.none() | st.binary(max_size=20), st.binary(max_size=20), headers, st.none() | st.just("0af7651916cd43dd"))
def test_the_message_comes_back_byte_for_byte(
    key: bytes | None, value: bytes, own: tuple[tuple[str, bytes], ...], trace_id: str | None
) -> None:
    """Key, value and headers are the original's in their order, even if it had such headers of its own."""
    rejected = Rejected(message(value, key=key, headers=own), DeadLetterClass.INVALID, "decode", "why")
    found = read(dead_letter(rejected, "dead-letters", trace_id))
    assert found is not None
    mark = (names.REPLAYED, found.attempt.encode())
    assert to_record(found, QUERIES, DOCUMENTS) == ProducerRecord(QUERIES, key, value, (*own, mark), None)


def test_a_letter_says_where_and_why() -> None:
    """Place, class, stage, message and the original's time are read from the record."""
    found = letter()
    assert (found.position, found.kind, found.stage) == (Position(QUERIES, 0, 5), "invalid", "decode")
    assert (found.message, found.timestamp) == ("limit: too big", STAMP)


def rejected_again(record: ProducerRecord | Skip, why: str, offset: int) -> DeadLetter:
    """The letter of a record that was replayed and rejected."""
    assert isinstance(record, ProducerRecord)
    back = message(record.value, headers=record.headers, origin=origin(offset))
    found = read(dead_letter(Rejected(back, DeadLetterClass.INVALID, "decode", why), "dead-letters", None))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "forged", [{"value": b"other"}, {"key": b"other"}, {"value": None}, {"headers": (("tenant", b"other"),)}], ids=str
)
def test_nobody_keeps_anothers_letter_from_being_sent(forged: dict[str, Any]) -> None:
    """Any producer may send the mark of a replay: it says nothing of a message that is not its own, byte for byte."""
    victim = letter(QUERIES)
    assert not isinstance(record := to_record(victim, QUERIES, DOCUMENTS), Skip)
    own = dict.fromkeys(("key", "value"), b"mine")
    headers = (*forged.get("headers", ()), (names.REPLAYED, victim.attempt.encode()))
    attacker = replace(victim, position=Position(QUERIES, 0, 99), **{**own, **forged, "headers": headers})
    assert victim.attempt not in find_futile([attacker])
    assert victim.attempt in find_futile([replace(victim, headers=record.headers)])


def test_a_letter_that_came_back_for_the_same_reason_is_futile() -> None:
    """So is the one that it was made of, and the one after that; another reason or another message is not."""
    first = letter()
    assert not first.returned
    back = rejected_again(to_record(first, QUERIES, DOCUMENTS), first.message, 9)
    assert back.returned
    twice = rejected_again(to_record(back, QUERIES, DOCUMENTS), first.message, 12)
    assert [name for name, _ in twice.headers].count(names.REPLAYED) == 1
    other = rejected_again(to_record(first, QUERIES, DOCUMENTS), "another reason", 10)
    assert not other.returned
    found = find_futile([first, None, back, twice, other])
    assert found == {first.attempt} == {back.attempt} == {twice.attempt}
    assert other.attempt not in found
    assert rejected_again(to_record(other, QUERIES, DOCUMENTS), "another reason", 11).returned
    assert letter(DOCUMENTS).attempt not in found


def test_headers_that_were_added_to_the_letter_stay() -> None:
    """Only what says why it is a dead letter is left out, wherever in the letter it stands."""
    rejected = Rejected(message(headers=(("x", b"1"),)), DeadLetterClass.INVALID, "decode", "why")
    record = dead_letter(rejected, "dead-letters", None)
    found = DeadLetter.of_record(record.key, record.value, (*record.headers, ("seen-by", b"a mirror")), STAMP_MS)
    assert found is not None
    assert found.headers == (("x", b"1"), ("seen-by", b"a mirror"))


def test_a_query_gets_a_new_timestamp_and_a_document_keeps_its_own() -> None:
    """An old query would be expired at once; an old document must not become the newest."""
    query, document = (to_record(letter(topic), QUERIES, DOCUMENTS) for topic in (QUERIES, DOCUMENTS))
    assert isinstance(query, ProducerRecord)
    assert isinstance(document, ProducerRecord)
    assert (query.topic, query.timestamp_ms) == (QUERIES, None)
    assert (document.topic, document.timestamp_ms) == (DOCUMENTS, STAMP_MS)


def test_what_has_no_payload_is_skipped() -> None:
    """A letter in place of a refused record, and one of a message without value."""
    refused = read(without_payload(output_record(7, value=b"x" * 100), "dead-letters"))
    assert refused is not None
    assert to_record(refused, QUERIES, DOCUMENTS) is Skip.NO_PAYLOAD
    assert to_record(letter(value=None), QUERIES, DOCUMENTS) is Skip.NO_PAYLOAD
    assert to_record(letter(DOCUMENTS, value=None, key=None), QUERIES, DOCUMENTS) is Skip.NO_PAYLOAD


def test_a_tombstone_is_sent_again() -> None:
    """The deletion of a document has no value: without it a replay would bring the document back."""
    found = letter(DOCUMENTS, value=None)
    record = to_record(found, QUERIES, DOCUMENTS)
    assert isinstance(record, ProducerRecord)
    assert (record.topic, record.key, record.value, record.timestamp_ms) == (DOCUMENTS, b"key", None, STAMP_MS)
    refused = read(without_payload(output_record(7, topic=DOCUMENTS, value=b"x"), "dead-letters"))
    assert refused is not None
    assert to_record(refused, QUERIES, "queries") is Skip.NO_PAYLOAD


def test_what_came_from_elsewhere_is_skipped() -> None:
    """Only the configured topics are written to."""
    assert to_record(letter("other"), QUERIES, DOCUMENTS) is Skip.OTHER_TOPIC


@pytest.mark.parametrize(
    "foreign",
    [
        (),
        (("traceparent", b"x"),),
        ((names.TOPIC, b"q"), (names.PARTITION, b"0")),
        ((names.TOPIC, b"q"), (names.PARTITION, b"0"), (names.OFFSET, b"-1")),
        ((names.TOPIC, b"q"), (names.PARTITION, "²".encode()), (names.OFFSET, b"1")),
    ],
)
def test_a_record_without_a_place_is_no_letter(foreign: tuple[tuple[str, bytes], ...]) -> None:
    """Somebody else's record on the topic is told apart, not guessed at."""
    assert DeadLetter.of_record(b"k", b"v", foreign, STAMP_MS) is None


@given(some_filters, some_letters)
def test_all_that_is_given_must_hold(wanted: DeadLetterFilter, found: DeadLetter) -> None:
    """A letter is wanted if and only if each filter alone wants it."""
    alone = [
        DeadLetterFilter(classes=wanted.classes),
        DeadLetterFilter(stage=wanted.stage),
        DeadLetterFilter(topic=wanted.topic),
        DeadLetterFilter(positions=wanted.positions),
        DeadLetterFilter(since=wanted.since),
        DeadLetterFilter(until=wanted.until),
    ]
    assert wanted.matches(found) == all(each.matches(found) for each in alone)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DeadLetterFilter(), True),
        (DeadLetterFilter(classes=frozenset({DeadLetterClass.TOO_LARGE, DeadLetterClass.INVALID})), True),
        (DeadLetterFilter(classes=frozenset({DeadLetterClass.INTERNAL, DeadLetterClass.INVALID})), True),
        (DeadLetterFilter(classes=frozenset({DeadLetterClass.TOO_LARGE})), False),
        (DeadLetterFilter(stage="decode"), True),
        (DeadLetterFilter(stage="publish"), False),
        (DeadLetterFilter(topic=QUERIES), True),
        (DeadLetterFilter(topic=DOCUMENTS), False),
        (DeadLetterFilter(positions=frozenset({Position(QUERIES, 0, 4), Position(QUERIES, 0, 5)})), True),
        (DeadLetterFilter(positions=frozenset({Position(QUERIES, 1, 5)})), False),
        (DeadLetterFilter(since=STAMP), True),
        (DeadLetterFilter(since=STAMP + 0.001), False),
        (DeadLetterFilter(until=STAMP + 0.001), True),
        (DeadLetterFilter(until=STAMP), False),
    ],
)
def test_each_filter_alone(wanted: DeadLetterFilter, expected: bool) -> None:
    """Of several classes or places any will do; a span of time has its beginning and not its end."""
    assert wanted.matches(letter()) is expected


@given(st.builds(Origin, st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True), *[st.integers(0, 2**40)] * 3))
def test_a_place_is_read_as_it_is_written(of: Origin) -> None:
    """The output of a dry run can be given back to `--offset`."""
    place = Position(of.topic, of.partition, of.offset)
    assert Position.parse(str(place)) == place


@pytest.mark.parametrize("text", ["", "q", "q:1", ":1:2", "q:1:x", "q:-1:2", "q:1:2:3", "q:1:²"])
def test_what_is_no_place_is_named(text: str) -> None:
    """The error repeats what was given."""
    with pytest.raises(ValueError, match="is not TOPIC:PARTITION:OFFSET"):
        Position.parse(text)


@given(st.floats(0.01, 1000), st.lists(st.floats(0, 100), min_size=2, max_size=50))
def test_turns_are_never_closer_than_the_rate_allows(rate: float, pauses: list[float]) -> None:
    """Whatever the pauses between, the one who waits as told never goes faster, and never waits without need."""
    throttle = Throttle(rate)
    now, turns = 0.0, []
    for pause in pauses:
        now += pause
        wait = throttle.wait(now)
        assert 0 <= wait <= 1 / rate + 1e-6
        now += wait
        turns.append(now)
    assert all(after - before >= 1 / rate - 1e-6 for before, after in itertools.pairwise(turns))


def test_a_pause_is_not_caught_up_with() -> None:
    """After a long pause the first goes at once, the next waits its full turn."""
    throttle = Throttle(rate=10)
    assert [throttle.wait(0), throttle.wait(100), throttle.wait(100)] == pytest.approx([0, 0, 0.1])

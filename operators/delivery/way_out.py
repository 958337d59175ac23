"""The way out: the form in which each message leaves, by what the topics take.

Before sending, the first of these that fits its topic:
1. An answered query becomes its result; then a shortened result, which says what it lacks.
2. A refused message, and a query without room for any result, becomes a dead letter. Its caller, if legible, is told by
   a refusal in the same transaction; of two forms, the second one lacks the metadata, a long key and the envelope.
3. A dead letter has the original unchanged; without payload it leads to the original.

A query's headers return on its result, and count in its size; a short refusal has those alone that correlate. A place
that the query chose, and that the broker doesn't have, makes it a refused message, whose refusal goes to the results
topic.

What a topic refuses in spite of that takes its next form, until one is taken:
1. A result becomes a dead letter without payload and its refusal. A watermark becomes that dead letter alone.
2. A refusal becomes a short one; a refused short one is left out, since its dead letter goes alone. A comparison of an
   experiment is left out: its result goes alone.
3. A dead letter gets the time of sending, with the message's own in a header, as has from the start one that is more
   than a day old, for its topic would delete it by that; and an empty key if it has none, as a compacted topic demands.
4. A dead letter that is refused again, or is too large, loses its payload.
5. A dead letter without payload has no further form: the process must end.

A dead letter says in a header why it has another form than its first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import orjson

from operators.delivery.error_codes import RefusalCode
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.topics import DEFAULT_MAX
from operators.query.in_flight import InFlight
from operators.query.result import members, view_of
from operators.runtime.stage import defect
from operators.telemetry.traces import DEAD_LETTER, Signals
from operators.wire import cloud_event, shortening
from operators.wire.cloud_event import CloudEvent
from operators.wire.message import Cause, Headers, Message, Origin, Rejected, Trace, sent_at
from operators.wire.parsing import ParsedMessage, parse_refused
from operators.wire.reply import Replies, correlating, refused_result
from operators.wire.shortening import CursorAfter
from schemas import headers as names
from schemas.errors import DeadLetterClass, FatalDelivery, InputError, Reason
from schemas.result import Status

_REPLY: Final = "reply"
"""The stage of dead letters in place of results that can't go where their queries chose."""

_MAX_TIMESTAMP_MS: Final = 2**63 - 1

Target = tuple[str, int | None]
"""A topic and a partition; None: that of the key."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """Makes the output records of one flow.

    `replies` choose the place of a result; others go to `results`. `max_bytes` is the largest record of each topic
    whose limit is known. `source` is that of results that are CloudEvents. Without `tells`, refused messages have dead
    letters alone.
    """

    results: str
    dead_letters: str
    replies: Replies
    max_bytes: Mapping[str, int]
    source: str
    config_hash: str
    tells: bool
    signals: Signals

    def answer(self, query: InFlight, event: Mapping[str, Any], cursor: CursorAfter) -> list[OutputRecord]:
        """The records of an answered query; `cursor` gives that of the page after a number of its results."""
        asked = query.asked
        target = (asked.reply.topic or self.results, asked.reply.partition)
        # The time of receiving is another one when the query is read again.
        time = asked.now if asked.event.now is not None or query.message.timestamp >= 0 else None
        context = query.trace.send(target[0], event["status"])
        write = partial(self._write, query.message, query.trace, target, context, query.envelope, time)
        record = write(event)
        if self._fits(record):
            return [record]
        query.trace.degraded(shortening.STAGE, Reason.TOO_LARGE)
        view = view_of(query.asked.plan, sum(1 for _ in members(event)), query.retrieval.matcher, words=True)
        short = shortening.shorten(event, lambda each: self._fits(write(each)), cursor, view.best)
        if short is None:
            return self._next_forms(record, RefusalCode.MESSAGE_TOO_LARGE)
        query.trace.send(target[0], short["status"])
        return [write(short)]

    def refuse(self, rejected: Rejected) -> list[OutputRecord]:
        """The records of a refused message, in the message's trace."""
        message, parsed = rejected.message, ParsedMessage({}, None, rejected.message.headers)
        try:
            parsed = parse_refused(message)
        except Exception as error:  # noqa: BLE001  reported; the message has its dead letter
            defect("refusals", message, error)
        trace = rejected.trace if rejected.trace is not None else self.signals.trace(message, parsed.trace, {})
        trace.rejected(rejected.kind)
        trace.send(self.dead_letters, DEAD_LETTER)
        letter = replace(dead_letter(rejected, self.dead_letters, trace.trace_id), trace=trace)
        told = self._tell(letter, parsed)
        return [*told, letter if self._fits(letter) else without_payload(letter, self.dead_letters)]

    def fall_back(self, records: Sequence[OutputRecord], faults: Mapping[int, RefusalCode | str]) -> list[OutputRecord]:
        """The records, with their next forms in place of those, by `id`, that a topic refuses or that have no place.

        A `str` says why there is no such place as the query chose. Raises FatalDelivery if there is no further form.
        """
        return [
            form
            for record in records
            for form in (self._next_forms(record, faults[id(record)]) if id(record) in faults else [record])
        ]

    def _redirect(self, record: OutputRecord, reason: str) -> list[OutputRecord]:
        """A dead letter and a refusal in place of a result; a refusal goes to the results topic."""
        if record.form is RecordForm.RESULT and record.message is not None:
            kind = DeadLetterClass.INVALID
            return self.refuse(Rejected(record.message, kind, _REPLY, reason, record.trace, "reply_to"))
        if record.trace is not None:
            record.trace.send(self.results, Status.INVALID)
        return [replace(record, topic=self.results, partition=None)]

    def _next_forms(self, record: OutputRecord, refusal: RefusalCode | str) -> list[OutputRecord]:
        """Replacements for a record that its topic refuses or would refuse, or whose reply topic does not exist."""
        if isinstance(refusal, str):
            return self._redirect(record, refusal)
        reason = (names.REFUSED, refusal.message(record.topic).encode())
        match record.form:
            case RecordForm.WITHOUT_PAYLOAD:
                raise FatalDelivery(f"{record.topic} refuses a dead letter without payload: {refusal.name}")
            case RecordForm.REFUSAL | RecordForm.SHORT_REFUSAL | RecordForm.COMPARISON:
                return self._tell(record)
            case RecordForm.DEAD_LETTER if not refusal.of_size and (
                record.timestamp_ms is not None or record.key is None
            ):
                headers = (*record.headers, *_stamp(record.timestamp_ms), reason)
                return [replace(record, timestamp_ms=None, key=record.key or b"", headers=headers)]
        letter = without_payload(record, self.dead_letters, refusal)
        if record.form is RecordForm.DEAD_LETTER:
            return [letter]
        if record.trace is not None:
            record.trace.send(self.dead_letters, DEAD_LETTER)
            record.trace.rejected(refusal.kind)
        return [*self._tell(letter), letter]

    def _tell(self, record: OutputRecord, parsed: ParsedMessage | None = None) -> list[OutputRecord]:
        """The first further form of the result `invalid`, for a record's cause, that fits; none without a caller."""
        message, cause, trace = record.message, record.cause, record.trace
        if not self.tells or message is None or cause is None or trace is None:
            return []
        try:
            parsed = parsed if parsed is not None else parse_refused(message)
            if parsed.query_id is None:
                return []
            for form in _REFUSALS.get(record.form, (RecordForm.REFUSAL, RecordForm.SHORT_REFUSAL)):
                if self._fits(told := self._write_refusal(message, parsed, cause, trace, form)):
                    return [told]
        except Exception as error:  # noqa: BLE001  reported; the letter accounts for the message
            defect("refusals", message, error)
            return []
        trace.send(self.dead_letters, DEAD_LETTER)
        return []

    def _write_refusal(
        self, message: Message, parsed: ParsedMessage, cause: Cause, trace: Trace, form: RecordForm
    ) -> OutputRecord:
        """The result `invalid`. A short one has no more than it needs, and a key, which a compacted topic demands."""
        target = self._choose_target(message, parsed) if cause.stage != _REPLY else (self.results, None)
        context = trace.send(target[0], Status.INVALID)
        event = refused_result(parsed, message.origin, self.config_hash, cause)
        record = self._write(message, trace, target, context, parsed.envelope, _time(message), event)
        record = replace(record, form=form, cause=cause)
        if form is RecordForm.REFUSAL:
            return record
        headers = correlating(self.replies.returning(message.headers, context)) + context
        value = orjson.dumps({**event, "metadata": None})
        return replace(record, key=short_key(message.key), value=value, headers=headers)

    def _choose_target(self, message: Message, parsed: ParsedMessage) -> Target:
        """The place that a refused query chose, if its source may; else the results topic."""
        named, source, read_from = parsed.text("reply_to"), parsed.text("source"), message.origin.topic
        try:
            topic, partition = self.replies.choose(named, message.headers, source, read_from)
        except InputError:
            return self.results, None
        return topic or self.results, partition

    def _write(
        self,
        message: Message,
        trace: Trace,
        target: Target,
        context: Headers,
        envelope: CloudEvent | None,
        time: float | None,
        event: Mapping[str, Any],
    ) -> OutputRecord:
        topic, partition = target
        headers, document = context, event
        if envelope is not None:
            headers, document = cloud_event.result_message(envelope, event, self.source, time, context)
        headers = self.replies.returning(message.headers, headers) + headers
        value = orjson.dumps(document)
        return OutputRecord(
            topic, message.key, value, headers, partition=partition, origin=message.origin, trace=trace, message=message
        )

    def _fits(self, record: OutputRecord) -> bool:
        """True for dead letters without a known limit; without one, other topics are taken to have Kafka's default."""
        limit = self.max_bytes.get(record.topic, None if record.topic == self.dead_letters else DEFAULT_MAX)
        return limit is None or record.size <= limit


def dead_letter(rejected: Rejected, topic: str, trace_id: str | None) -> OutputRecord:
    """The record for a rejected message: its key, value, headers and timestamp, and headers that say why.

    Of an old message the timestamp is in a header.
    """
    message, origin = rejected.message, rejected.message.origin
    # A float of seconds rounds the latest possible times up.
    stamp = min(round(message.timestamp * 1000), _MAX_TIMESTAMP_MS) if message.timestamp >= 0 else None
    old = stamp is not None and message.received - message.timestamp > _OLD
    cause = Cause(rejected.kind, rejected.stage, rejected.field, rejected.reason[: names.MAX_MESSAGE_CHARS])
    traced: Headers = ((names.TRACE_ID, trace_id.encode()),) if trace_id else ()
    # A record without key and value can't be produced: the key becomes empty.
    key = b"" if message.key is None and message.value is None else message.key
    headers = message.headers + _why(origin, cause) + traced + _stamp(stamp if old else None)
    at, form = None if old else stamp, RecordForm.DEAD_LETTER
    return OutputRecord(topic, key, message.value, headers, at, origin=origin, form=form, cause=cause, message=message)


def without_payload(
    refused: OutputRecord, topic: str, refusal: RefusalCode = RefusalCode.MESSAGE_TOO_LARGE
) -> OutputRecord:
    """The dead letter in place of a record that its topic refuses: headers that name the message, and no value."""
    cause = Cause(refusal.kind, names.SENDING, reason=refusal.message(refused.topic))
    key, headers, form = short_key(refused.key), _why(refused.origin, cause), RecordForm.WITHOUT_PAYLOAD
    letter = replace(refused, topic=topic, key=key, value=None, headers=headers, form=form, cause=cause)
    return replace(letter, timestamp_ms=None, partition=None)


def short_key(key: bytes | None) -> bytes:
    """The key; an empty one in place of a long one, and of none."""
    return key if key is not None and len(key) <= names.MAX_MESSAGE_CHARS else b""


_OLD: Final = 86_400.0
"""Seconds."""

_REFUSALS: Final = {RecordForm.REFUSAL: (RecordForm.SHORT_REFUSAL,), RecordForm.SHORT_REFUSAL: ()}
"""The further forms of a refusal; every other record has both."""


def _stamp(timestamp_ms: int | None) -> Headers:
    return ((names.TIMESTAMP, str(timestamp_ms).encode()),) if timestamp_ms is not None else ()


def _why(origin: Origin, cause: Cause) -> Headers:
    return (
        (names.TOPIC, origin.topic.encode()),
        (names.PARTITION, str(origin.partition).encode()),
        (names.OFFSET, str(origin.offset).encode()),
        (names.STAGE, cause.stage.encode()),
        (names.CLASS, cause.kind.encode()),
        (names.MESSAGE, cause.reason.encode("utf-8", "replace")),
    )


def _time(message: Message) -> float | None:
    """Kafka's timestamp, which is the same when the message is read again; None if there is none, or it is no time."""
    try:
        return sent_at(message) if message.timestamp >= 0 else None
    except InputError:
        return None

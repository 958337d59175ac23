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
2. A refusal becomes a short one; a refused short one is left out, since its dead letter goes alone.
3. A dead letter keeps its timestamp, unless that is more than a day old: its topic would delete it by that. Such a one,
   and a refused one, has the time of sending, and the message's own in a header.
4. A refused one without a key gets an empty one: a topic that is compacted takes none without.
5. A refused one loses its payload; so does at once one that is too large.
6. A refused one without payload has no further form: the process must end.

A dead letter says in a header why it has another form than its first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from operators.access.policy import may_reply
from operators.delivery.client import RecordRefused
from operators.delivery.error_codes import Refusal, too_large
from operators.delivery.output_record import Cause, Form, OutputRecord
from operators.delivery.topics import DEFAULT_MAX
from operators.query.in_flight import InFlight
from operators.query.result import clock, members, view_of
from operators.runtime.stage import defect
from operators.telemetry.traces import DEAD_LETTER, Signals
from operators.wire import cloud_event, shortening
from operators.wire.message import Headers, Message, Origin, Rejected, Trace
from operators.wire.parsing import Parsed, parse_refused
from operators.wire.reply import Replies, correlating, refused_result
from schemas import headers as names
from schemas.errors import DeadLetterClass, FatalDelivery, InputError, Reason
from schemas.fields import unix_seconds
from schemas.result import Status
from schemas.settings import PolicySettings

_REPLY: Final = "reply"
"""The stage of dead letters in place of results that can't go where their queries chose."""

_MAX_TIMESTAMP_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WayOut:
    """Makes the output records of one flow.

    `replies` choose the place of a result, as far as `policies` let its source; others go to `results`. `max_bytes` is
    the largest record of each topic whose limit is known. `source` is that of results that are CloudEvents. Without
    `tells`, refused messages have dead letters alone.
    """

    results: str
    dead_letters: str
    replies: Replies
    policies: PolicySettings
    max_bytes: Mapping[str, int]
    source: str
    config_hash: str
    tells: bool
    signals: Signals

    def answer(
        self, query: InFlight, event: Mapping[str, Any], cursor: Callable[[int], str | None]
    ) -> list[OutputRecord]:
        """The records of an answered query; `cursor` gives that of the page after a number of its results."""
        topic = query.asked.canonical.reply_to or self.results
        context = query.trace.send(topic, event["status"])
        record = self._write_result(query, topic, context, event)
        if self._fits(record):
            return [record]
        query.trace.degraded(shortening.STAGE, Reason.TOO_LARGE)
        view = view_of(query.asked.plan, sum(1 for _ in members(event)), query.retrieval.matcher, words=True)
        short = shortening.shorten(
            event, lambda each: self._fits(self._write_result(query, topic, context, each)), cursor, view.best
        )
        if short is None:
            return self._give_up(record, DeadLetterClass.TOO_LARGE, too_large(topic))
        query.trace.send(topic, short["status"])
        return [self._write_result(query, topic, context, short)]

    def refuse(self, rejected: Rejected) -> list[OutputRecord]:
        """The records of a refused message, in the message's trace."""
        message = rejected.message
        trace = rejected.trace
        if trace is None:
            trace = self.signals.trace(message, parse_refused(message).trace, {})
        trace.rejected(rejected.kind)
        record = dead_letter(rejected, self.dead_letters, trace.trace_id)
        trace.send(self.dead_letters, DEAD_LETTER)
        cause = record.cause
        if not self._fits(record):
            record = without_payload(record, self.dead_letters)
        return self._with_refusal(replace(record, trace=trace), message, cause)

    def redirect(self, record: OutputRecord, reason: str) -> list[OutputRecord]:
        """The records in place of one that cannot go where its query chose, for this reason.

        A result becomes a dead letter and its refusal, which goes to the results topic.
        """
        if record.form is not Form.RESULT or record.message is None:
            return [self._to_results(record)]
        rejected = Rejected(record.message, DeadLetterClass.INVALID, _REPLY, reason, record.trace, "reply_to")
        return [self._to_results(each) if each.form in _REFUSALS else each for each in self.refuse(rejected)]

    def _to_results(self, record: OutputRecord) -> OutputRecord:
        if record.trace is not None:
            record.trace.send(self.results, Status.INVALID)
        return replace(record, topic=self.results, partition=None)

    def fall_back(self, records: Sequence[OutputRecord], refused: RecordRefused) -> list[OutputRecord]:
        """The records, with their next form in place of those that were refused. Raises FatalDelivery without one."""
        these = set(map(id, refused.records))
        return [
            form
            for record in records
            for form in (self._replace(record, refused.refusal) if id(record) in these else [record])
        ]

    def _replace(self, record: OutputRecord, refusal: Refusal) -> list[OutputRecord]:
        match record.form:
            case Form.RESULT | Form.WATERMARK:
                return self._give_up(record, refusal.kind, refusal.message(record.topic))
            case Form.REFUSAL:
                return self._write_refusals(record.message, record.cause, record.trace)[1:]
            case Form.SHORT_REFUSAL:
                return []
            case Form.DEAD_LETTER:
                return [self._reduce(record, refusal)]
            case Form.WITHOUT_PAYLOAD:
                raise FatalDelivery(f"{record.topic} refuses a dead letter without payload: {refusal.name}")

    def _reduce(self, record: OutputRecord, refusal: Refusal) -> OutputRecord:
        reason = refusal.message(record.topic)
        why = (names.REFUSED, reason.encode())
        if record.timestamp_ms is not None and not refusal.of_size:
            stamped = (names.TIMESTAMP, str(record.timestamp_ms).encode())
            return replace(record, timestamp_ms=None, headers=(*record.headers, stamped, why))
        if record.key is None and not refusal.of_size:
            return replace(record, key=b"", headers=(*record.headers, why))
        return without_payload(record, self.dead_letters, refusal.kind, reason)

    def _give_up(self, record: OutputRecord, kind: DeadLetterClass, reason: str) -> list[OutputRecord]:
        if record.trace is not None:
            record.trace.send(self.dead_letters, DEAD_LETTER)
            record.trace.rejected(kind)
        last_form = without_payload(record, self.dead_letters, kind, reason)
        return self._with_refusal(last_form, record.message, last_form.cause)

    def _with_refusal(self, record: OutputRecord, message: Message | None, cause: Cause | None) -> list[OutputRecord]:
        """The dead letter, behind the largest refusal that fits, if there is one."""
        if not self.tells or message is None:
            return [record]
        try:
            forms = self._write_refusals(message, cause, record.trace)
        except Exception as error:  # noqa: BLE001  reported; the letter accounts for the message
            defect("refusals", message, error)
            return [record]
        refusal = next((form for form in forms if self._fits(form)), None)
        if refusal is not None:
            return [refusal, record]
        if forms and record.trace is not None:
            record.trace.send(self.dead_letters, DEAD_LETTER)
        return [record]

    def _write_refusals(self, message: Message | None, cause: Cause | None, trace: Trace | None) -> list[OutputRecord]:
        """The result `invalid` whole, and with no more than it needs; none if the caller isn't legible.

        The short one has a key, which a topic that is compacted asks for.
        """
        if message is None or cause is None or trace is None:
            return []
        parsed = parse_refused(message)
        if parsed.query_id is None:
            return []
        event = refused_result(parsed, message.origin, self.config_hash, cause.kind, cause.field, cause.reason)
        topic, partition = self._choose_place(message, parsed)
        context = trace.send(topic, Status.INVALID)
        headers: Headers = context
        document: Mapping[str, Any] = event
        if parsed.envelope is not None:
            time = _time(message.timestamp)
            headers, document = cloud_event.result_message(parsed.envelope, event, self.source, time, context)
        whole = OutputRecord(
            message.origin,
            topic,
            message.key,
            orjson.dumps(document),
            self.replies.returning(message.headers, headers) + headers,
            trace,
            partition=partition,
            form=Form.REFUSAL,
            cause=cause,
            message=message,
        )
        bare = orjson.dumps({**event, "metadata": None})
        key = short(message.key) or b""
        least = correlating(self.replies.returning(message.headers, context)) + context
        return [whole, replace(whole, key=key, value=bare, headers=least, form=Form.SHORT_REFUSAL)]

    def _choose_place(self, message: Message, parsed: Parsed) -> tuple[str, int | None]:
        try:
            chosen = self.replies.choose(parsed.text("reply_to"), message.headers)
        except InputError:
            return self.results, None
        topic = chosen.topic or self.results
        named, source = chosen.topic is not None, parsed.text("source")
        if named and not may_reply(self.policies, source, message.headers, message.origin.topic, topic):
            return self.results, None
        return topic, chosen.partition

    def _write_result(self, query: InFlight, topic: str, context: Headers, event: Mapping[str, Any]) -> OutputRecord:
        """The record of a result, in the kind of event that the query came as."""
        asked, message = query.asked.canonical, query.message
        headers, document = context, event
        if query.envelope is not None:
            # The time of receiving is another one when the query is read again.
            stable = asked.own_clock or message.timestamp >= 0
            time = clock(asked.now) if stable else None
            headers, document = cloud_event.result_message(query.envelope, event, self.source, time, context)
        headers = self.replies.returning(message.headers, headers) + headers
        return OutputRecord(
            message.origin,
            topic,
            message.key,
            orjson.dumps(document),
            headers,
            query.trace,
            partition=asked.reply_partition,
            message=message,
        )

    def _fits(self, record: OutputRecord) -> bool:
        """True for dead letters without a known limit; without one, other topics are taken to have Kafka's default."""
        limit = self.max_bytes.get(record.topic, None if record.topic == self.dead_letters else DEFAULT_MAX)
        return limit is None or record.size <= limit


def dead_letter(rejected: Rejected, topic: str, trace_id: str | None) -> OutputRecord:
    """The record for a rejected message: its key, value, headers and timestamp, and headers that say why.

    Of an old message the timestamp is in a header.
    """
    message = rejected.message
    stamp = _timestamp_ms(message.timestamp)
    old = stamp is not None and message.received - message.timestamp > _OLD
    stamped: Headers = ((names.TIMESTAMP, str(stamp).encode()),) if old else ()
    cause = Cause(rejected.kind, rejected.stage, rejected.field, rejected.reason[: names.MAX_MESSAGE_CHARS])
    traced: Headers = ((names.TRACE_ID, trace_id.encode()),) if trace_id else ()
    # A record without key and value can't be produced: the key becomes empty.
    key = b"" if message.key is None and message.value is None else message.key
    return OutputRecord(
        message.origin,
        topic,
        key,
        message.value,
        message.headers + _why(message.origin, cause) + traced + stamped,
        timestamp_ms=None if old else stamp,
        form=Form.DEAD_LETTER,
        cause=cause,
    )


def without_payload(
    refused: OutputRecord, topic: str, kind: DeadLetterClass = DeadLetterClass.TOO_LARGE, reason: str | None = None
) -> OutputRecord:
    """The dead letter in place of a record that its topic doesn't take, for its size if no `reason` is given.

    It has no value, and headers that name the message.
    """
    cause = Cause(kind, names.SENDING, reason=reason or too_large(refused.topic))
    key, headers = short(refused.key) or b"", _why(refused.origin, cause)
    return OutputRecord(
        refused.origin, topic, key, None, headers, refused.trace, form=Form.WITHOUT_PAYLOAD, cause=cause
    )


def short(key: bytes | None) -> bytes | None:
    """The key; an empty one in place of a long one."""
    return key if key is None or len(key) <= names.MAX_MESSAGE_CHARS else b""


_OLD: Final = 86_400.0
"""Seconds."""

_REFUSALS: Final = frozenset({Form.REFUSAL, Form.SHORT_REFUSAL})


def _why(origin: Origin, cause: Cause) -> Headers:
    return (
        (names.TOPIC, origin.topic.encode()),
        (names.PARTITION, str(origin.partition).encode()),
        (names.OFFSET, str(origin.offset).encode()),
        (names.STAGE, cause.stage.encode()),
        (names.CLASS, cause.kind.encode()),
        (names.MESSAGE, cause.reason.encode("utf-8", "replace")),
    )


def _timestamp_ms(timestamp: float) -> int | None:
    # A record without a timestamp can't be produced, and a float of seconds rounds the latest possible times up.
    return min(round(timestamp * 1000), _MAX_TIMESTAMP_MS) if timestamp >= 0 else None


def _time(timestamp: float) -> str | None:
    """Kafka's timestamp, which is the same when the message is read again; None if there is none, or it is no time."""
    try:
        return clock(unix_seconds(timestamp)) if timestamp >= 0 else None
    except ValueError:
        return None

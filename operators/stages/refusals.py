"""Refusals: a refused message becomes a dead letter and, if its caller is legible, a result that says so.

Both are one output record, so that they are delivered together. A result that its topic doesn't take gives up first
what it doesn't need: the metadata, a long key, the envelope. If even then it has no room, the dead letter goes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import orjson

from operators.access.policy import may_reply
from operators.delivery.dead_letters import fits, short, undeliverable, without_payload
from operators.query import cloud_event
from operators.query.message import Message, OutputRecord, Rejected
from operators.query.refusal import Caller, caller, refused_result
from operators.query.result import clock
from operators.query.trace import Trace
from operators.runtime.stage import defect
from operators.telemetry.traces import DEAD_LETTER, Signals
from schemas.dead_letter import MAX_MESSAGE_CHARS
from schemas.errors import DeadLetterClass
from schemas.result import Status
from schemas.settings import PolicySettings
from schemas.timestamp import unix_seconds


@dataclass(frozen=True, slots=True)
class Refusals:
    """Ends messages that are refused.

    `reply_to` are the topics that a query may choose for its result, as far as `policies` let its source; others go to
    `topic`. `max_bytes` is what each
    topic takes of one record; a topic that isn't there takes what its broker says. `source` is that of results that are
    CloudEvents. Not `answers`: there are dead letters alone.
    """

    topic: str
    dead_letters: str
    reply_to: frozenset[str]
    policies: PolicySettings
    max_bytes: Mapping[str, int]
    source: str
    config_hash: str
    answers: bool
    signals: Signals

    def __call__(self, rejected: Rejected) -> OutputRecord:
        """The record of a rejected message."""
        letter = undeliverable(rejected, self.dead_letters, self.signals, self.max_bytes)
        return self._told(letter, rejected.message, rejected.kind, rejected.field, rejected.reason)

    def undelivered(self, message: Message, refused: OutputRecord, kind: DeadLetterClass, reason: str) -> OutputRecord:
        """The record in place of the message's result, which its topic doesn't take."""
        if refused.trace is not None:
            refused.trace.send(self.dead_letters, DEAD_LETTER)
            refused.trace.rejected(kind)
        letter = replace(without_payload(refused, self.dead_letters, kind, reason), trace=refused.trace)
        return self._told(letter, message, kind, None, reason)

    def _told(
        self, letter: OutputRecord, message: Message, kind: DeadLetterClass, field: str | None, reason: str
    ) -> OutputRecord:
        """The result with the letter; the letter alone if nobody can be told."""
        trace = letter.trace
        try:
            sent_by = caller(message) if self.answers else None
            if sent_by is None or trace is None:
                return letter
            event = refused_result(sent_by, message.origin, self.config_hash, kind, field, reason[:MAX_MESSAGE_CHARS])
            forms = self._forms(message, sent_by, event, trace)
        except Exception as error:  # noqa: BLE001  reported; the letter accounts for the message
            defect("refusals", message, error)
            return letter
        fitting = [replace(form, letter=replace(letter, trace=None)) for form in forms if fits(form, self.max_bytes)]
        if not fitting:
            trace.send(self.dead_letters, DEAD_LETTER)
            return letter
        first, *smaller = fitting
        return replace(first, instead=partial(_with_letter, smaller[0])) if smaller else first

    def _topic(self, message: Message, sent_by: Caller) -> str:
        chosen = sent_by.reply_to
        if chosen is None or chosen not in self.reply_to:
            return self.topic
        allowed = may_reply(self.policies, sent_by.source, message.headers, message.origin.topic, chosen)
        return chosen if allowed else self.topic

    def _forms(
        self, message: Message, sent_by: Caller, event: Mapping[str, object], trace: Trace
    ) -> Sequence[OutputRecord]:
        """The result whole, and with no more than it needs: a key, which a topic that is compacted asks for."""
        topic = self._topic(message, sent_by)
        context = trace.send(topic, Status.INVALID)
        headers, document = context, event
        if sent_by.envelope is not None:
            time = _time(message.timestamp)
            headers, document = cloud_event.enveloped(sent_by.envelope, event, self.source, time, context)
        whole = OutputRecord(message.origin, topic, message.key, orjson.dumps(document), headers, trace)
        bare = orjson.dumps({**event, "metadata": None})
        return whole, replace(whole, key=short(message.key) or b"", value=bare, headers=context)


def _with_letter(smaller: OutputRecord, refused: OutputRecord, kind: DeadLetterClass, reason: str) -> OutputRecord:
    return replace(smaller, letter=refused.letter)


def _time(timestamp: float) -> str | None:
    """Kafka's timestamp, which is the same when the message is read again; None if there is none, or it is no time."""
    try:
        return clock(unix_seconds(timestamp)) if timestamp >= 0 else None
    except ValueError:
        return None

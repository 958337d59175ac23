"""Decode: a message's bytes become a query in flight, or a named error."""

from dataclasses import dataclass

from operators.mapping.own_names import OwnNames
from operators.query.in_flight import CacheLookup, InFlight
from operators.query.normalise import Normaliser
from operators.query.outcome import Outcome
from operators.telemetry.traces import Signals
from operators.wire.message import Message, check_headers, sent_at
from operators.wire.parsing import check_plain, parse_message
from operators.wire.reply import MAX_RETURNED, MAX_RETURNED_BYTES, headers_fit
from schemas.errors import DeadLetterClass, InputError
from schemas.event import check_dimension, validate
from schemas.query import MAX_QUERY_PARTS, QueryEvent
from schemas.settings import Limits
from schemas.texts import nfc


@dataclass(frozen=True, slots=True)
class Decoder:
    """Turns messages into queries under one configuration; `names` are those of fields that queries have."""

    limits: Limits
    dimension: int
    record_content: bool
    signals: Signals
    normalise: Normaliser
    names: OwnNames | None = None

    def __call__(self, message: Message) -> InFlight:
        """The query that the message asks. Raises InputError."""
        check_headers(message, self.limits.max_message_bytes)
        parsed = parse_message(message, self.limits.max_message_bytes, MAX_QUERY_PARTS)
        if parsed.envelope is None:
            check_plain(parsed.event)
        if not headers_fit(message.headers):
            most = f"headers: more than {MAX_RETURNED} or {MAX_RETURNED_BYTES} bytes"
            parsed.warnings.append(f"{most}: they may be missing on the result")
        check_text(parsed.event.get("text"), self.limits)
        given = parsed.event if self.names is None else self.names.read(parsed.event)
        event = validate(QueryEvent, given)
        if event.like is not None:
            check_text(event.like.text, self.limits, "like.text")
        check_dimension(event.vector, self.dimension)
        sent = event.now if event.now is not None else sent_at(message)
        normalised = self.normalise(event, message.headers, message.origin.topic, sent)
        timeout = self.limits.timeout if event.timeout_ms is None else event.timeout_ms / 1000
        attributes: dict[str, str | int] = {"rankstream.query_id": event.query_id}
        if normalised.query.denial is None:
            attributes["db.collection.name"] = normalised.query.collection
        if self.record_content and event.text is not None:
            attributes["db.query.text"] = event.text
        return InFlight(
            message=message,
            asked=normalised.query,
            cache=CacheLookup(normalised.scope),
            deadline=message.clock - message.age + min(timeout, self.limits.max_timeout),
            trace=self.signals.trace(message, parsed.trace, attributes),
            envelope=parsed.envelope,
            outcome=Outcome(warnings=[*parsed.warnings, *normalised.warnings]),
        )


def check_text(text: object, limits: Limits, name: str = "text") -> None:
    """Raise InputError `too_large` for a query's text that is too long, composed as it is searched for."""
    most = limits.max_text_chars
    if isinstance(text, str) and (length := len(nfc(text))) > most:
        raise InputError(DeadLetterClass.TOO_LARGE, f"{name}: {length} characters, at most {most}", name)

"""Fallback: the form that a record takes after its topic has refused it. Pure.

The forms, each in place of the one before, until the topic takes one
------------------------------------------------------------------------
1. A record with an `instead` (a result, then its refusal) becomes what that makes of it.
2. Another record that is no dead letter (a watermark) becomes a dead letter without payload.
3. A dead letter keeps its timestamp. A refused one has the time of sending, and the message's own in a header.
4. A refused one without a key gets an empty one: a topic that is compacted takes none without.
5. A refused one loses its payload; so does at once one that is too large.
6. A refused one without payload has no further form: the process must end.

A dead letter says in a header why it has another form than its first.
"""

from collections.abc import Sequence
from dataclasses import replace

from operators.delivery.client import ProducerRecord
from operators.delivery.dead_letters import WITHOUT_PAYLOAD, without_payload
from operators.delivery.error_codes import Refusal
from operators.query.message import OutputRecord
from schemas import headers as names
from schemas.errors import FatalDelivery


def fallback(
    answer: OutputRecord, refused: Sequence[ProducerRecord], refusal: Refusal, dead_letters: str
) -> OutputRecord:
    """The answer with other forms of those of its records that are refused. Raises FatalDelivery."""
    itself = any(each is answer for each in refused)
    letter = answer.letter
    if letter is not None and any(each is letter for each in refused):
        letter = following(letter, refusal, dead_letters)
        answer = replace(answer, letter=letter)
    if not itself:
        return answer
    if letter is not None and answer.instead is None:
        return replace(letter, trace=answer.trace)
    return replace(following(answer, refusal, dead_letters), trace=answer.trace)


def following(record: OutputRecord, refusal: Refusal, dead_letters: str) -> OutputRecord:
    """The form after this one. Raises FatalDelivery if there is none."""
    reason = refusal.said(record.topic)
    if record.instead is not None:
        return record.instead(record, refusal.kind, reason)
    if record.cause is None:
        return without_payload(record, dead_letters, refusal.kind, reason)
    if record.cause.stage == WITHOUT_PAYLOAD:
        raise FatalDelivery(f"{record.topic} refuses a dead letter without payload: {refusal.name}")
    why = (names.REFUSED, reason.encode())
    if record.timestamp_ms is not None and not refusal.of_size:
        stamped = (names.TIMESTAMP, str(record.timestamp_ms).encode())
        return replace(record, timestamp_ms=None, headers=(*record.headers, stamped, why))
    if record.key is None and not refusal.of_size:
        return replace(record, key=b"", headers=(*record.headers, why))
    return without_payload(record, dead_letters, refusal.kind, reason)

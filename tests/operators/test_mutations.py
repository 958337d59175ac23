"""Whatever is on the topic, each message has exactly one terminal record, of its own, that Kafka takes."""

from collections import Counter
from dataclasses import replace

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from flows.process.logs import QUOTING
from operators.delivery.output_record import OutputRecord, RecordForm, by_message
from operators.runtime.stage import run_step, split
from operators.stages.decode import Decoder
from operators.wire.message import Message, Rejected
from schemas import headers as names
from schemas.errors import DeadLetterClass
from schemas.result import ResultEvent
from tests.legible import is_plain, legible
from tests.operators.mutations import mutations
from tests.operators.samples import admission, decoder, message, origin, way_out
from tests.operators.stages.test_publish import PUBLISHER, SIZES, both
from tests.tiers import sized

COUNT = sized(3_000, nightly=10_000)
LETTERS = 400_000
"""Bytes that the dead-letter topic takes: less than the largest of the mutants."""

DECODE: Decoder = decoder()
MAX_BYTES = {**SIZES, "dead-letters": LETTERS}
OUT = way_out(max_bytes=MAX_BYTES)
PUBLISH = replace(PUBLISHER, way_out=OUT)


def messages(seed: int, count: int) -> list[Message]:
    """The mutants as they are read, from everywhere in time."""
    stamps = (-0.001, 0.0, 1_700_000_000.25, (2**63 - 1) / 1000, -5.0)
    return [
        message(
            value,
            offset,
            key=key,
            headers=tuple(headers),
            **({"timestamp": stamps[offset % 50]} if offset % 50 < 5 else {}),
        )
        for offset, (key, value, headers) in enumerate(mutations(seed, count))
    ]


def output_records(read: list[Message]) -> list[OutputRecord]:
    """Decode, admit and publish; what nobody rejects is answered as it is."""
    live, passing = split(run_step("decode", read, DECODE))
    ended = [*passing, *run_step("admit", live, admission())]
    return [
        record for each in ended for record in (OUT.refuse(each) if isinstance(each, Rejected) else both(each, PUBLISH))
    ]


@pytest.mark.slow
def test_every_mutant_has_one_terminal_record(caplog: pytest.LogCaptureFixture) -> None:
    """Of thousands none raises, none is a defect of ours or fills the log. Each ends once: as a result, or as a dead
    letter that has its bytes, or says that they are too large. Every caller who is legible hears, and nobody else.
    """
    for name, level in QUOTING.items():
        caplog.set_level(level, name)
    read = messages(7, COUNT)
    records = output_records(read)
    ended = by_message(records)
    assert Counter(each[0].origin for each in ended) == Counter(origin(offset) for offset in range(COUNT))
    kinds: Counter[str] = Counter()
    for record in records:
        sent = read[record.origin.offset]
        assert record.size <= MAX_BYTES[record.topic]
        if record.topic != "dead-letters":
            kinds["result" if record.form is RecordForm.RESULT else "refusal"] += 1
            assert record.key == sent.key
            continue
        why = dict(record.headers)
        kinds[why[names.CLASS].decode()] += 1
        if why[names.STAGE] == b"send":
            assert record.value is None
        else:
            assert (record.value, record.headers[: len(sent.headers)]) == (sent.value, sent.headers)
    assert caplog.records == []
    for record, *_ in ended:
        sent = read[record.origin.offset]
        if is_plain([name for name, _ in sent.headers]):
            assert (record.topic != "dead-letters") == (legible(sent.value) is not None)
    assert kinds.keys() == {
        "result",
        "refusal",
        "not_json",
        "invalid",
        "too_large",
        "unsupported_version",
        "vector_dimension",
    }
    assert DeadLetterClass.INTERNAL not in kinds
    assert min(kinds["result"], kinds["refusal"], kinds["invalid"], kinds["not_json"]) > COUNT // 20


def test_every_terminal_record_can_be_written() -> None:
    """Kafka's own writer takes every record, its timestamp included, and every plain result keeps its contract."""
    for record in output_records(messages(8, 2_000)):
        builder = DefaultRecordBatchBuilder(2, 0, True, 1, 0, 0, 1 << 24)
        assert builder.append(0, record.timestamp_ms, record.key, record.value, list(record.headers))
        assert builder.build()
        if record.topic != "dead-letters" and record.value is not None and b'"specversion"' not in record.value[:20]:
            ResultEvent.model_validate_json(record.value)


def test_a_seed_names_its_mutants() -> None:
    """The same seed makes the same messages, another makes others."""
    assert mutations(3, 50) == mutations(3, 50) != mutations(4, 50)
    assert mutations(3, 80)[:50] == mutations(3, 50)

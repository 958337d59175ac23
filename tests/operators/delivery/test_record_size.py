"""The size of a record: never less than what a client writes, and hardly more."""

from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.operators.samples import output_record

headers = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=200)), max_size=6)
big = st.binary(max_size=200) | st.integers(0, 70_000).map(bytes)


def written(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]], when: int) -> int:
    """The bytes of a batch that a client writes of one record."""
    builder = DefaultRecordBatchBuilder(2, 0, True, 1, 0, 0, 1 << 20)
    assert builder.append(0, when, key, value, headers)
    return len(builder.build())


@example(None, None, [], 0)
@example(None, None, [("", b"")] * 100, 0)
@example(b"k" * 64, b"v" * 8192, [("ü" * 64, b"h" * 64)], 2**63 - 1)
@given(st.none() | big, st.none() | big, headers, st.integers(0, 2**63 - 1))
def test_it_bounds_what_a_client_writes(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]], when: int
) -> None:
    """Whatever the record, the bound is at most what lengths in fewer bytes could save above the real size."""
    size = written(key, value, headers, when)
    record = output_record(0, key=key, value=value, headers=tuple(headers))
    assert size <= record.size <= size + 29 + 8 * len(headers)

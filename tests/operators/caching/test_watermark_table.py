"""The watermarks of all namespaces, from the records of their topic."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.caching.watermark_table import WatermarkTable
from schemas.errors import InputError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
OFFSETS = st.none() | st.integers(0, 2**63 - 1)
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab|"), st.sampled_from(["", "n", "é|"]) | NAMES, st.integers(0, 12), OFFSETS)
)


def record(collection: str, namespace: str, partition: int, offset: int | None) -> tuple[bytes, bytes | None]:
    """A record as an indexer publishes it, or its removal."""
    value = None if offset is None else str(offset).encode()
    return f"{collection}|{namespace}|{partition}".encode(), value


@given(RECORDS)
def test_the_last_record_of_a_key_wins(records: list[tuple[str, str, int, int | None]]) -> None:
    """Each namespace has the last value of each of its partitions, ordered by the partition's number."""
    watermarks = WatermarkTable()
    last: dict[str, dict[int, int | None]] = {}
    for collection, namespace, partition, offset in records:
        watermarks.put(*record(collection, namespace, partition, offset))
        last.setdefault(f"{collection}|{namespace}", {})[partition] = offset
    for collection, namespace, _, _ in records:
        offsets = sorted(last[f"{collection}|{namespace}"].items())
        expected = tuple(f"{partition}:{offset}" for partition, offset in offsets if offset is not None)
        assert watermarks.of(collection, namespace) == expected


def test_a_namespace_that_was_never_indexed_has_none() -> None:
    """Another namespace's records, or another collection's, are not its own, and removals end where it began."""
    watermarks = WatermarkTable()
    watermarks.put(b"c|n|0", b"1")
    assert watermarks.of("c", "m") == watermarks.of("d", "n") == watermarks.of("", "c|n") == ()
    watermarks.put(b"c|m|0", None)
    watermarks.put(b"c|n|0", None)
    assert watermarks.of("c", "n") == watermarks.of("c", "m") == ()


def test_an_older_offset_read_later_wins() -> None:
    """A documents topic that was made anew begins at 0 again."""
    watermarks = WatermarkTable()
    for offset in (b"100", b"0"):
        watermarks.put(b"c|n|10", offset)
        watermarks.put(b"c|n|9", b"7")
    assert watermarks.of("c", "n") == ("9:7", "10:0")


@pytest.mark.parametrize(
    ("record", "begins"),
    [
        pytest.param((b"c|n|0", b"6"), False, id="a greater offset"),
        pytest.param((b"c|n|1", b"4"), False, id="the first of another partition"),
        pytest.param((b"c|m|0", b"4"), False, id="the first of another namespace"),
        pytest.param((b"c|m|0", None), False, id="nothing is removed"),
        pytest.param((b"c|n|0", b""), False, id="no watermark"),
        pytest.param((b"c|n|0", b"4"), True, id="an older offset"),
        pytest.param((b"c|n|0", b"5"), True, id="the same offset"),
        pytest.param((b"c|n|0", None), True, id="a removal"),
    ],
)
def test_an_offset_that_does_not_grow_begins_a_generation(record: tuple[bytes, bytes | None], begins: bool) -> None:
    """The documents may be others from there on, whatever offset they reach again."""
    watermarks = WatermarkTable()
    watermarks.put(b"c|n|0", b"5")
    before = watermarks.generation
    with suppress(InputError):
        watermarks.put(*record)
    assert watermarks.generation - before == begins


JUNK = [
    (b"", b"1"),
    (b"0", b"1"),
    (b"n|0", b"1"),
    (b"c|n|", b"1"),
    (b"c|n|x", b"1"),
    (b"c|n|-1", b"1"),
    (b"c|n|01", b"1"),
    (b"c|n|" + b"9" * 5000, b"1"),
    ("c|n|٣".encode(), b"1"),
    (b"c|n\xff|0", b"1"),
    (b"c|n|0\n", b"1"),
    (b"c|n|0", b""),
    (b"c|n|0", b"-1"),
    (b"c|n|0", b" 1"),
    (b"c|n|0", b"1_0"),
    (b"c|n|0", b"9" * 5000),
    (b"c|n|0", b"\xff"),
]


def test_what_is_no_watermark_changes_nothing() -> None:
    """Each kind of malformed record is refused, and what was known stays."""
    watermarks = WatermarkTable()
    watermarks.put(b"c|n|0", b"5")
    for key, value in JUNK:
        with pytest.raises(InputError):
            watermarks.put(key, value)
    assert watermarks.of("c", "n") == ("0:5",)


@given(st.binary(), st.none() | st.binary())
def test_no_record_raises_anything_else(key: bytes, value: bytes | None) -> None:
    """Whatever bytes come, they are a watermark's or they aren't."""
    with suppress(InputError):
        WatermarkTable().put(key, value)


@given(NAMES, NAMES, st.integers(0, 99), st.integers(0, 2**63 - 1))
def test_names_may_hold_the_separator(collection: str, namespace: str, partition: int, offset: int) -> None:
    """A namespace finds its own record, whatever its name and its collection's."""
    watermarks = WatermarkTable()
    watermarks.put(*record(collection, namespace, partition, offset))
    assert watermarks.of(collection, namespace) == (f"{partition}:{offset}",)

"""Cursors: what was written is read, and nothing else is."""

import base64
import hmac
import math
import struct
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.query.cursor import After, Cursor, CursorCodec, PoolSlice
from schemas.errors import DeadLetterClass, InputError
from schemas.query import MAX_CURSOR_CHARS

SECRET = b"a secret of this deployment"
CODECS = {"signed": CursorCodec(SECRET), "checksummed": CursorCodec(None)}
QUERY, STATE, DRAFT = bytes(range(16)), bytes(range(240, 256)), bytes(range(20))
CURSORS = (
    Cursor(QUERY, None, 0.0, PoolSlice(20, 100)),
    Cursor(QUERY, STATE, -1.5, After(None, 7)),
    Cursor(STATE, QUERY, 1_700_000_000.25, After(1_700_000_000_123, 2)),
    Cursor(QUERY, STATE, 0.0, PoolSlice(2, 100), (b"1234", b"abcd"), continued=True),
    Cursor(QUERY, STATE, 0.0, PoolSlice(2, 100), (b"1234", b"abcd"), draft=DRAFT),
)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

COUNTS = st.integers(0, 2**32 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | FINITE
DIGESTS = st.binary(min_size=16, max_size=16)
POSITIONS = st.builds(PoolSlice, COUNTS, st.integers(1, 2**16 - 1)) | st.builds(After, VALUES, COUNTS)
TIMES = st.floats(datetime(1, 1, 1, tzinfo=UTC).timestamp(), datetime(9999, 12, 31, tzinfo=UTC).timestamp())
GIVEN = st.lists(st.binary(min_size=4, max_size=4), max_size=3).map(tuple)
DRAFTS = st.just(b"") | st.binary(min_size=20, max_size=20)
ANY = st.builds(Cursor, DIGESTS, st.none() | DIGESTS, TIMES, POSITIONS, GIVEN, st.booleans(), DRAFTS)


def refusal(codec: CursorCodec, text: str) -> str:
    """The message about a text that is no cursor."""
    with pytest.raises(InputError) as caught:
        codec.read(text)
    assert caught.value.kind is DeadLetterClass.CURSOR_INVALID
    return str(caught.value)


def refused(codec: CursorCodec, text: str) -> bool:
    """True if a text is refused, and in the one way."""
    try:
        codec.read(text)
    except InputError as error:
        return error.kind is DeadLetterClass.CURSOR_INVALID
    return False


def bits(cursor: Cursor) -> str:
    """All that a cursor holds, integers apart from floats, and 0.0 from -0.0."""
    return repr(cursor)


def body(text: str) -> bytes:
    """The bytes of a cursor before its tag."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-16]


def spelled(content: bytes) -> str:
    """Bytes as a cursor spells them."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def sealed(content: bytes) -> str:
    """A body with a good tag: what one could make who has the secret, or where there is none."""
    return spelled(content + hmac.digest(SECRET, content, "sha256")[:16])


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(cursor=ANY)
@example(Cursor(QUERY, None, 0.0, After(1, 0)))
@example(Cursor(QUERY, None, 0.0, After(1.0, 0)))
@example(Cursor(QUERY, None, 0.0, After(-0.0, 0)))
@example(Cursor(QUERY, None, 0.0, After(2**63 - 1, 0)))
@example(Cursor(QUERY, None, 5e-324, After(-(2**63), 0)))
def test_what_is_written_is_read(codec: CursorCodec, cursor: Cursor) -> None:
    """Each number comes back bit by bit and in its kind; the text is short and needs no quoting in a URL."""
    text = codec.write(cursor)
    assert bits(codec.read(text)) == bits(cursor)
    assert set(text) <= set(ALPHABET)
    assert len(text) <= 94 + 16 + 27
    most = replace(cursor, state=STATE, position=After(1, 1), given=tuple(struct.pack(">I", n) for n in range(72)))
    drafted = replace(most, draft=DRAFT)
    assert len(codec.write(replace(most, draft=b""))) == 478
    assert len(codec.write(drafted)) == 504 < MAX_CURSOR_CHARS
    assert codec.read(codec.write(drafted)) == drafted


@given(ANY, ANY)
def test_two_cursors_are_two_texts(one: Cursor, other: Cursor) -> None:
    """The text says all of a cursor."""
    codec = CODECS["signed"]
    assert (codec.write(one) == codec.write(other)) == (bits(one) == bits(other))


@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
@pytest.mark.parametrize("name", CODECS)
def test_every_changed_character_is_rejected(name: str, cursor: Cursor) -> None:
    """Each position, each of the 255 other characters of one byte."""
    codec = CODECS[name]
    text = codec.write(cursor)
    for index, character in product(range(len(text)), map(chr, range(256))):
        if character != text[index]:
            assert refused(codec, text[:index] + character + text[index + 1 :])


@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
@pytest.mark.parametrize("name", CODECS)
def test_every_changed_byte_is_rejected(name: str, cursor: Cursor) -> None:
    """Each position of what the text spells, each of the 255 other values."""
    codec = CODECS[name]
    text = codec.write(cursor)
    content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for index, value in product(range(len(content)), range(256)):
        if value != content[index]:
            assert refused(codec, spelled(content[:index] + bytes([value]) + content[index + 1 :]))


@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
@pytest.mark.parametrize("name", CODECS)
def test_every_other_length_and_order_is_rejected(name: str, cursor: Cursor) -> None:
    """Each truncation at either end, each character more at any place, any two characters that change places."""
    codec = CODECS[name]
    text = codec.write(cursor)
    others = {text[:end] for end in range(len(text))} | {text[start:] for start in range(1, len(text) + 1)}
    others |= {text[:at] + more + text[at:] for at, more in product(range(len(text) + 1), "Aa0_=\n +/ é\0")}
    for first, second in product(range(len(text)), repeat=2):
        swapped = list(text)
        swapped[first], swapped[second] = text[second], text[first]
        others.add("".join(swapped))
    others |= {text + text, text + "A" * 10_000, text.replace("-", "+").replace("_", "/") + "="}
    assert all(refused(codec, other) for other in others - {text})


@settings(max_examples=30)
@given(ANY, st.binary(max_size=40))
def test_another_secret_is_rejected(cursor: Cursor, secret: bytes) -> None:
    """Neither another secret nor none reads what this one signed, and this one reads nothing of theirs."""
    mine = CODECS["signed"]
    for other in (CursorCodec(secret + b"!"), CODECS["checksummed"]):
        assert "another secret" in refusal(other, mine.write(cursor))
        assert "another secret" in refusal(mine, other.write(cursor))


@given(st.text() | st.text(ALPHABET) | st.text(ALPHABET, min_size=62, max_size=94) | st.binary().map(spelled))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever stands there is refused as a cursor, by name."""
    for codec in CODECS.values():
        assert refusal(codec, text).startswith("cursor: ")


@given(ANY, st.data())
def test_a_good_tag_makes_no_bad_cursor_good(cursor: Cursor, data: st.DataObject) -> None:
    """Any body under a good tag is either what `write` gives for the cursor that it is read as, or refused."""
    codec = CODECS["signed"]
    content = bytearray(body(codec.write(cursor)))
    for index in data.draw(st.lists(st.integers(0, 33), max_size=3)):
        content[index % len(content)] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    more = data.draw(st.sampled_from([b"", bytes(8), bytes(16), b"\xff"]))
    for forged in (bytes(content), bytes(content[:end]), bytes(content) + more):
        text = sealed(forged)
        try:
            read = codec.read(text)
        except InputError:
            continue
        assert codec.write(read) == text


@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
def test_a_good_tag_makes_no_unknown_kind_known(cursor: Cursor) -> None:
    """A few of the 256 kinds have this cursor's form, and each means another thing of the same bytes."""
    codec = CODECS["signed"]
    content = body(codec.write(cursor))
    forms = [content[:1] + bytes([kind]) + content[2:] for kind in range(256)]
    read = {form: codec.read(sealed(form)) for form in forms if not refused(codec, sealed(form))}
    assert read[content] == cursor
    assert len(set(map(bits, read.values()))) == len(read) <= 16
    assert all(codec.write(each) == sealed(form) for form, each in read.items())
    assert all(
        refused(codec, sealed(bytes([version]) + content[1:])) for version in range(256) if version != content[0]
    )


@pytest.mark.parametrize(
    ("number", "place"),
    [(number, place) for number in (math.nan, math.inf, -math.inf) for place in ("now", "value")]
    + [(1e13, "now"), (-1e300, "now")],
)
def test_a_good_tag_makes_no_number_of_none(number: float, place: str) -> None:
    """A clock or an order value that isn't finite is refused, and so is a clock beyond all calendars."""
    codec = CODECS["signed"]
    content = bytearray(body(codec.write(Cursor(QUERY, STATE, 7.0, After(7.0, 1)))))
    start = {"now": 18, "value": 30}[place]
    content[start : start + 8] = struct.pack(">d", 8.0)
    assert codec.read(sealed(bytes(content)))
    content[start : start + 8] = struct.pack(">d", number)
    assert "of a form" in refusal(codec, sealed(bytes(content)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "of no known version"),
        ("*", "not the next_cursor of a result; send that one unchanged"),
        ("AQ==", "not the next_cursor of a result"),
        ("AR", "not the next_cursor of a result"),
        ("Ag", "another secret"),
        ("AQ", "of no known version"),
        ("A" * 505, "not the next_cursor of a result"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, what: str) -> None:
    """In a few words, with no more of the text than any message quotes."""
    said = refusal(CODECS["signed"], text)
    assert said == f"cursor: {said[8 : said.index(' (')]} ({text[:80]!r})"
    assert what in said

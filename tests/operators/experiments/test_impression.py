"""Impressions: a token names one, is taken unchanged alone, and does not tell the side."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.experiments.impression import SIDES, Impression, TokenCodec
from operators.query.cursor import Cursor, CursorCodec, PoolSlice
from schemas.errors import InputError
from tests.operators.experiments.joining import SECRET, TOKENS

impressions = st.builds(
    Impression, st.text(), st.sampled_from(SIDES), st.integers(0, 999), st.text(), st.text(), st.text(), st.integers(0)
)
SPELLING = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(impressions)
def test_what_is_written_is_read(impression: Impression) -> None:
    """And the same impression has the same token."""
    assert TOKENS.read(TOKENS.write(impression)) == impression
    assert TOKENS.write(impression) == TOKENS.write(Impression(*impression))


@given(impressions, st.data())
def test_any_other_text_is_refused(impression: Impression, data: st.DataObject) -> None:
    """Also another spelling of the same bytes, and what another secret signed."""
    token = TOKENS.write(impression)
    place = data.draw(st.integers(0, len(token) - 1) | st.just(len(token) - 1))
    changed = token[:place] + data.draw(st.sampled_from(SPELLING)) + token[place + 1 :]
    foreign = TokenCodec(b"a secret of somebody else").write(impression)
    for text in {changed, token[:-1], f"{token}=", f"{token}A", foreign, ""} - {token}:
        with pytest.raises(InputError, match="token: changed, or signed with another secret"):
            TOKENS.read(text)


@given(impressions)
def test_the_side_is_in_the_signature_alone(impression: Impression) -> None:
    """Tokens of both sides differ in their last 16 bytes."""
    of_sides = [TOKENS.write(impression._replace(side=side)) for side in SIDES]
    one, other = (base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)) for each in of_sides)
    assert one[:-16] == other[:-16]
    assert one[-16:] != other[-16:]


@given(st.binary(min_size=15, max_size=15), st.sampled_from(SIDES))
def test_a_part_of_a_cursor_is_no_token(digest: bytes, side: str) -> None:
    """A cursor is signed with the same secret, and may end as what a token signs does: with a side."""
    written = CursorCodec(SECRET).write(Cursor(b"q" * 16, digest + side.encode(), 0.0, PoolSlice(20, 100)))
    content = base64.urlsafe_b64decode(written + "=" * (-len(written) % 4))
    assert content[-17:-16] == side.encode()
    token = base64.urlsafe_b64encode(content[:-17] + content[-16:]).rstrip(b"=").decode()
    with pytest.raises(InputError, match="token: changed, or signed with another secret"):
        TOKENS.read(token)

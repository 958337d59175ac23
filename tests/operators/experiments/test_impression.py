"""Impressions: a token names one, is taken unchanged alone, and does not tell the side."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.experiments.impression import SIDES, Impression, TokenCodec
from schemas.errors import InputError
from tests.operators.experiments.joining import TOKENS

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

"""Names of headers: the case of ASCII's letters doesn't count, and no other letter is one of ASCII's."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.headers import fold_name

NAMES = st.text(st.sampled_from("kKsS\u212a\u017f\u0130"), max_size=2)


@given(NAMES, NAMES)
def test_names_are_the_same_as_their_bytes_are(one: str, two: str) -> None:
    """By the lower case of bytes, which knows ASCII alone."""
    assert (fold_name(one) == fold_name(two)) == (one.encode().lower() == two.encode().lower())

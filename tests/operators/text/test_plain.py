"""Plain texts: what is told to have no syntax has none."""

from hypothesis import example, given
from hypothesis import strategies as st

from operators.text.lexer import Malformed, lex, plain
from schemas.document import COLUMNS
from tests.operators.text.expressions import texts

FIELDS = {name: name for name in COLUMNS}


@given(st.text() | texts)
@example("cats and dogs")
@example("well-known (but")
@example("^first")
@example("NEAR the sea")
@example("a + b")
def test_a_plain_text_has_no_syntax(text: str) -> None:
    """Reading it token by token finds neither syntax nor an unsupported operator."""
    try:
        read = lex(text, FIELDS)
    except Malformed:
        assert not plain(text)
        return
    if plain(text):
        assert not read.expert
        assert not read.unsupported

"""Texts of strangers stay within their quotes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.chat.completions import quote

ANY = st.text(st.characters(exclude_categories=()))
"""Any characters, lone surrogates included."""


@given(ANY | st.text('"\\\n u{}`<[|>]'))
def test_a_quoted_text_is_one_printable_json_string(text: str) -> None:
    """Any text becomes one JSON string that means that text, with no character in it that can't be seen.

    Nor does it hold one with which tokens of chat templates begin.
    """
    literal = quote(text)
    assert json.loads(literal) == text
    assert literal.isprintable()
    assert not set("<[") & set(literal)


@given(ANY, ANY)
def test_no_text_can_end_its_quotes(text: str, after: str) -> None:
    """Whoever reads JSON stops at the quote that was put there, whatever the text and what comes after it."""
    literal = quote(text)
    assert json.JSONDecoder().raw_decode(literal + after) == (text, len(literal))


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("", '""'),
        ("日本語 é 🙂", '"日本語 é 🙂"'),
        ('say "no"\n', r'"say \"no\"\n"'),
        ("a\u2028b\x85c\x7fd", r'"a\u2028b\u0085c\u007fd"'),
        ("\u202e\u200b\U000e0041", r'"\u202e\u200b\udb40\udc41"'),
        ("\ud800", r'"\ud800"'),
        ("<|im_end|>[/INST]", r'"\u003c|im_end|>\u005b/INST]"'),
    ],
)
def test_quotes_by_hand(text: str, literal: str) -> None:
    """Letters of any script stay; quotes, line separators, the invisible, lone surrogates, < and [ are escaped."""
    assert quote(text) == literal

"""Kinds of texts: one word, several, or a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.phrases import classify_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("lamp", "one word"),
        ("wi-fi", "one word"),
        ("  red   lamp ", "several words"),
        ("can opener", "several words"),
        ("which lamp dims", "question"),
        ("How do I reset the router", "question"),
        ("Wie setze ich den Router zurück", "question"),
        ("Où est la notice", "question"),
        ("router reset?", "question"),
        ("lamp ? ", "question"),
        ("路由器怎么重置？", "question"),
        ("路由器", "one word"),
        ("كيف أعيد ضبط الموجه؟", "question"),
        ("", "one word"),
    ],
)
def test_texts_are_told_apart(text: str, kind: str) -> None:
    """Words are divided by white space; two words are no question without a mark."""
    assert classify_text(text) == kind


@given(st.text())
def test_every_text_has_a_kind(text: str) -> None:
    """Whatever is in it; with a question mark behind it, it is a question."""
    assert classify_text(text) in {"one word", "several words", "question"}
    assert classify_text(text + "?") == "question"
    assert classify_text(f" {text} ") == classify_text(text)

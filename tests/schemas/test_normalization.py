"""Normalisation: what Unicode says, of texts that nobody wrote to be sorted."""

import unicodedata
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.texts import nfc, nfkc

ALTERNATING = "a" + "\u0315\u0334" * 100_000
"""Which takes a minute and a half to sort."""


def runs(text: str) -> list[int]:
    """The length of every run of marks."""
    marked = groupby(unicodedata.normalize("NFKD", text), key=lambda each: unicodedata.combining(each) > 0)
    return [len(list(run)) for mark, run in marked if mark]


@given(st.text())
@example("e\u0301 \u212b \ufb01 \u0f73 \uff9e")
@example("a" + "\u0315\u0334" * 15)
def test_texts_are_normalised(text: str) -> None:
    """Any text becomes what Unicode's own forms make of it."""
    assert nfc(text) == unicodedata.normalize("NFC", text)
    assert nfkc(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("mark", ["\u0315\u0334", "\u0f73", "\u0344", "\uff9e\u0334", "\U0001e94a\U0001d165", "\u0301"])
@pytest.mark.parametrize("before", ["", "a", "\uffff", "\U0001f600"])
def test_long_runs_are_parted(mark: str, before: str) -> None:
    """No run is left that takes longer to sort than to read, and no mark is lost."""
    text = before + mark * 200
    for normal in (nfc, nfkc):
        done = normal(text)
        assert max(runs(done)) <= 2 * 30
        assert sorted(unicodedata.normalize("NFKD", done.replace("\u034f", ""))) == sorted(
            unicodedata.normalize("NFKD", text)
        )


def test_a_text_of_marks_alone_is_normalised() -> None:
    """The longest text of marks that a message can hold has its end."""
    assert len(nfc(ALTERNATING).replace("\u034f", "")) == len(ALTERNATING)


def test_once_is_enough() -> None:
    """A text that was normalised stays as it is."""
    once = nfc(ALTERNATING[:1000])
    assert nfc(once) == once

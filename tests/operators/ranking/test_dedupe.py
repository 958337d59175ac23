"""Dedupe: what two documents must share to count as one, in any script."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.dedupe import dedupe, fingerprint
from tests.operators.ranking.pools import ids, with_content


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("The Cat", "the  cat", id="case and spaces"),
        pytest.param("a b", "\t a\n\u00a0b \u3000", id="tab, line break, no-break and ideographic space"),
        pytest.param("STRASSE", "straße", id="German sharp s"),
        pytest.param("Größe", "GRO\u0308SSE", id="German umlaut as two code points"),
        pytest.param("ｶﾀｶﾅ ＡＢＣ", "カタカナ ABC", id="Japanese half-width and full-width"),
        pytest.param("がく", "か\u3099く", id="Japanese voicing mark as two code points"),
        pytest.param("ﻻ", "لا", id="Arabic ligature"),
        pytest.param("ﷲ", "الله", id="Arabic presentation form"),
        pytest.param("①ﬁ²", "1fi2", id="compatibility characters"),
        pytest.param("ΣΊΣΥΦΟΣ", "σίσυφος", id="Greek final sigma"),
    ],
)
def test_what_says_the_same(one: str, other: str) -> None:
    """Texts that differ in case, white space or compatibility forms have one fingerprint."""
    assert fingerprint(one) == fingerprint(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("ab", "a b", id="a space"),
        pytest.param("schon", "schön", id="German umlaut"),
        pytest.param("はは", "ぱぱ", id="Japanese voicing"),
        pytest.param("كتب", "كِتَب", id="Arabic vowel marks"),
        pytest.param("会う", "会", id="Japanese ending"),
        pytest.param("a.", "a", id="punctuation"),
    ],
)
def test_what_says_something_else(one: str, other: str) -> None:
    """Letters, marks and punctuation tell texts apart."""
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000\u00a0"])
def test_an_empty_text_has_no_fingerprint(text: str) -> None:
    """Nothing but white space has no content to compare."""
    assert fingerprint(text) is None


@given(st.text(st.characters(), max_size=40))
def test_a_fingerprint_is_an_integer_that_every_index_takes(text: str) -> None:
    """Any text, lone surrogates too, has one of 63 bits, the same each time, or none."""
    value = fingerprint(text)
    assert value == fingerprint(text)
    assert value is None or 0 <= value < 2**63


def test_a_fingerprint_never_changes() -> None:
    """The index keeps it: these values hold for every version."""
    assert fingerprint("Hello, World") == int.from_bytes(bytes.fromhex(_HELLO)) >> 1


_HELLO = "11627be1588b7bc3"
"""BLAKE2b with an eight-byte digest of b"hello, world"."""


@given(st.text(max_size=20))
def test_normalising_again_changes_nothing(text: str) -> None:
    """A text and its own compatibility form are duplicates."""
    assert fingerprint(text) == fingerprint(unicodedata.normalize("NFKC", text))


def test_the_first_of_equal_contents_stays() -> None:
    """Later candidates with an earlier one's content go; the order of the others stays."""
    ranked = [with_content("a", 1), with_content("b", 2), with_content("c", 1), with_content("d", 3)]
    assert ids(dedupe(ranked)) == ["a", "b", "d"]


def test_without_content_nothing_is_a_duplicate() -> None:
    """Candidates without a fingerprint all stay, and a fingerprint of 0 is one like others."""
    ranked = [with_content("a", None), with_content("b", None), with_content("c", 0), with_content("d", 0)]
    assert ids(dedupe(ranked)) == ["a", "b", "c"]


@given(st.lists(st.none() | st.integers(0, 3), max_size=15))
def test_dedupe_loses_no_content(contents: list[int | None]) -> None:
    """Each content stays once, at its first place; deduping again changes nothing."""
    ranked = [with_content(str(index), content) for index, content in enumerate(contents)]
    kept = dedupe(ranked)
    assert dedupe(kept) == kept
    expected = [
        str(index) for index, content in enumerate(contents) if content is None or content not in contents[:index]
    ]
    assert ids(kept) == expected

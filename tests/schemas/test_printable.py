"""Texts of others on a terminal: nothing in them is obeyed, hides or reorders, and JSON decodes to itself."""

import json
import re
import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.texts import json_line, printable

ANY = st.text(st.characters(codec=None, categories=("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp", "Zs", "L", "S", "Mn")))
"""Any text, most of it of what a terminal may obey."""

TREE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY,
    lambda inner: st.lists(inner) | st.dictionaries(ANY, inner),
    max_leaves=10,
)


def obeyed(text: str, *ours: str) -> list[str]:
    """The characters of a text that a terminal may obey or hide."""
    harmless = {"\u200c", "\u200d", *ours}
    return [
        each
        for each in text
        if each not in harmless and unicodedata.category(each) in {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
    ]


@given(ANY)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """Each such character is replaced by one, the others stand where they stood, and UTF-8 can hold the rest."""
    shown = printable(text)
    assert obeyed(shown) == []
    assert len(shown) == len(text)
    assert all(new in (old, "\ufffd") for old, new in zip(text, shown, strict=True))
    assert [new for old, new in zip(text, shown, strict=True) if not obeyed(old)] == [
        each for each in text if not obeyed(each)
    ]
    assert shown.encode().decode() == shown
    assert printable(shown) == shown


@given(ANY)
def test_what_is_ours_is_kept(text: str) -> None:
    """Line ends are kept where they are said to be our own, and nothing beside them."""
    assert obeyed(printable(text, "\n"), "\n") == []
    assert printable(text, "\n").count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x9b31m",
        "\x7f",
        "a\rb",
        "a\nb",
        "\u202egpj.exe",
        "\u2066x\u2069",
        "\u200b",
        "\u00ad",
        "\ufeff",
        "\U000e0041",
        "\u2028",
        "\u2029",
        "\ud800",
    ],
)
def test_each_kind_is_replaced(text: str) -> None:
    """Sequences of escapes, C1, DEL, line ends, overrides, isolates, what is invisible, separators, and surrogates."""
    assert printable(text) != text
    assert obeyed(printable(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "prix : 5\u00a0\u20ac",
        "\u6771\u4eac\u3000\u90fd",
        "\u0645\u06cc\u200c\u062e\u0648",
        "\U0001f469\u200d\U0001f52c",
    ],
)
def test_what_languages_are_written_with_stays(text: str) -> None:
    """Spaces of every width, and the joiners of words and emoji."""
    assert printable(text) == text


@given(TREE)
def test_json_is_one_printable_line_that_decodes_to_the_same(value: Any) -> None:
    """Whatever is in it, also as a name, and by any reader; halves of surrogate pairs by those that take them."""
    line = json_line(value)
    assert obeyed(line) == []
    assert json.loads(line) == value or not _surrogates_apart(value)
    if "\\ud" not in line:
        assert orjson.loads(line) == value


def _surrogates_apart(value: object) -> bool:
    """True if no low half follows a high one: JSON takes both for one character."""
    return re.search("[\ud800-\udbff][\udc00-\udfff]", json.dumps(value, ensure_ascii=False)) is None

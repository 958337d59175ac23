"""Analysis: identifiers in their joined form, pairs of characters, and usual width."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.text.analysis import (
    LONG,
    LONGEST,
    MOST,
    MOST_PAIRS,
    analyse,
    identifiers,
    pair,
    spans,
    usual_form,
)
from operators.text.words import words
from tests.growth import LINEAR, growth

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "analysis.md"

LETTERS = st.text("abcdefgxyz", min_size=1, max_size=3)
NUMBERS = st.text("0123456789", min_size=1, max_size=4)
CAPITALS = LETTERS.map(str.upper)
ALTERNATING = st.lists(st.tuples(CAPITALS, NUMBERS), min_size=1, max_size=2).map(lambda pairs: sum(pairs, ()))
"""The words of an identifier in which no two digits and no two letters are side by side."""

UNSPACED = st.text("雨伞很好折りたたみ傘우산กาแฟ", min_size=1)


def terms(text: str, *, query: bool) -> set[str]:
    """The words and identifiers of a text."""
    analysed = analyse(text, query=query)
    return {*words(analysed.text), *(name for name, _ in analysed.identifiers)}


def names(text: str, *, query: bool) -> list[str]:
    """The identifiers of a text."""
    return [name for name, _ in identifiers(text, query=query)]


def joined(text: str) -> str:
    """All letters and digits of a text, in lower case."""
    return re.sub(r"[\W_]", "", text).lower()


def whole(query: str) -> set[str]:
    """The terms of all of a query together."""
    name = joined(usual_form(query))
    return {name, name.lstrip("0")}


def table() -> Iterator[tuple[str, list[str], list[str]]]:
    """The rows of the page's table: a document, the queries that find it, and those that don't."""
    for line in PAGE.read_text().splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[2:5]]
        if line.startswith("|") and len(cells) == 3:
            yield from ((document, cells[1], cells[2]) for document in cells[0])


ROWS = list(table())


@pytest.mark.parametrize(("document", "found", "lost"), ROWS, ids=[row[0] for row in ROWS])
def test_the_examples_of_the_page(document: str, found: list[str], lost: list[str]) -> None:
    """A query of the third column has the joined form among its terms, as the document has; one of the last hasn't."""
    there = terms(document, query=False)
    for query in found:
        assert whole(query) & terms(query, query=True) & there, query
    for query in lost:
        assert not whole(query) & terms(query, query=True) & there, query


def test_the_page_has_all_kinds() -> None:
    """The table is read."""
    assert len(ROWS) > 15


@given(ALTERNATING, st.lists(st.sampled_from(["-", " ", "", "/", "_"]), min_size=4, max_size=4), st.booleans())
def test_signs_spaces_and_case_say_nothing(parts: tuple[str, ...], signs: list[str], lower: bool) -> None:
    """An identifier that a document has with hyphens is found however a query joins its words."""
    written = "".join(part + sign for part, sign in zip(parts, (*signs[: len(parts) - 1], ""), strict=True))
    query = written.lower() if lower else written
    assert joined(query) in terms(query, query=True) & terms("-".join(parts), query=False)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.sampled_from([" ", "-", ".", ",", ":", "/", "  "]), st.booleans())
@example(["10", "5"], " ", True)
def test_short_numbers_are_not_joined(numbers: list[str], sign: str, query: bool) -> None:
    """No two numbers make another of less than seven digits; only hyphens and spaces make a longer one."""
    found = names(sign.join(numbers), query=query)
    joins = [each for each in found if not any(number.lstrip("0") == each for number in numbers)]
    assert all(len(each) >= LONG or sign == "." for each in joins)
    assert joins == [] or sign.strip() in ("", "-") or (sign == "." and len(numbers) > 3)


@given(st.text(st.characters(exclude_categories=["Nd"])), st.booleans())
def test_prose_has_no_identifiers(text: str, query: bool) -> None:
    """Without a digit there is none."""
    assert names(text, query=query) == []


@given(st.text() | st.text("ab1 -./\n"), st.booleans())
def test_identifiers_are_made_of_the_text(text: str, query: bool) -> None:
    """Each is one word in lower case with a digit, of bounded length, made of characters in the text's order."""
    found = list(identifiers(text, query=query))
    everything = "".join(words(text))
    for each, count in found:
        assert 1 <= count <= len(words(text))
        assert words(each) == [each]
        assert any(character.isdecimal() for character in each)
        assert 2 <= len(each) <= LONGEST
        assert each in everything


@given(st.text() | st.text("ab1 -./\n雨伞"))
def test_a_querys_analysis_is_bounded(text: str) -> None:
    """Whatever the text, its identifiers and pairs have their number."""
    analysed = analyse(100 * text, query=True)
    assert len(analysed.identifiers) <= MOST
    assert len(analysed.text.split()) <= len((100 * text).split()) + 2 * MOST_PAIRS + 100 * len(text)


def test_pairs_of_a_query_are_bounded() -> None:
    """Of a long run the first are kept; a document keeps all."""
    text = "雨伞很好折" * 1000
    assert len(pair(text, 10).split()) == 10
    assert len(pair(text).split()) == len(text) - 1
    assert len(analyse(text, query=True).text.split()) == MOST_PAIRS


@given(UNSPACED, UNSPACED, UNSPACED)
def test_a_part_of_a_run_shares_its_pairs(before: str, wanted: str, behind: str) -> None:
    """Each pair of a query is one of every text that holds the query, unless the query is a single character."""
    asked = words(pair(wanted))
    if len(words(pair(wanted + wanted))) > 1 and all(len(each) > 1 for each in asked):
        assert {*asked} <= {*words(pair(before + wanted + behind))}


@given(st.text(st.characters(max_codepoint=0x0DFF, exclude_characters="\u00ad\u00d7")))
def test_scripts_with_spaces_stay(text: str) -> None:
    """Latin, Greek, Cyrillic, Arabic and Indic texts are not touched but for what nobody sees, and times signs."""
    analysed = analyse(text, query=False)
    assert analysed.text == text


def test_scripts_by_hand() -> None:
    """Pairs, with each vowel sign at its letter, without tones; other scripts within are words of their own."""
    assert pair("折りたたみ傘").split() == ["折り", "りた", "たた", "たみ", "み傘"]
    assert pair("M8螺栓30").split() == ["M8", "螺栓", "30"]
    assert pair("伞").split() == ["伞"]
    assert pair("우산을 사다").split() == ["우산", "산을", "사다"]
    assert pair("ร้านกาแฟ").split() == ["รา", "าน", "นก", "กา", "าแ", "แฟ"]
    assert pair("กินน้ำ").split() == ["กิน", "นน", "นำ"]
    assert pair("ខ្មែរ")
    assert pair("မြန်မာ")


def test_width_by_hand() -> None:
    """Full-width letters and half-width kana are the usual ones, and so are ligatures; what only looks alike stays."""
    assert usual_form("ＷＨ－１０００ＸＭ５　ｶﾞﾗｽ") == "WH-1000XM5 ガラス"
    assert usual_form("10² ½ ﬁlter éﬃ") == "10² ½ filter éffi"
    assert usual_form("Akku\u00adschrauber zero\u200bwidth \ufeffx\u2060y") == "Akkuschrauber zerowidth xy"
    assert usual_form("M8×30, 5 × 60, 2×USB, a×b, × 4") == "M8x30, 5 x 60, 2×USB, a×b, × 4"
    assert analyse("ＷＨ－１０００ＸＭ５", query=True).identifiers == (("wh1000xm5", 2),)


def test_a_table_makes_few_identifiers() -> None:
    """A row of numbers has none; a single part in it is still one."""
    assert names(" ".join(["123"] * 20), query=False) == []
    assert names(" ".join(["123"] * 9 + ["AB-1"]), query=False) == ["ab1"]
    assert {"m8x30", "100pcs"} <= {*names("VIS M8 X 30 A2 INOX LOT DE 100 PCS 5 KG", query=False)}


@given(st.lists(st.sampled_from("abc"), max_size=3).map("".join), st.sampled_from(["M8螺栓", "7米以上"]))
def test_scripts_without_spaces_end_an_identifier(word: str, text: str) -> None:
    """A Chinese word beside a number is no part of one."""
    assert all(each.isascii() for each in names(f"{word} {text}", query=True))


@given(st.lists(st.integers(0, 255), min_size=4, max_size=4), st.booleans())
def test_an_ip_address_is_not_joined(numbers: list[int], query: bool) -> None:
    """Two addresses of the same digits differ."""
    assert names(".".join(map(str, numbers)), query=query) == []


def test_an_identifier_stands_for_its_words() -> None:
    """Its number of words is that of those it joins."""
    assert list(identifiers("wh 1000 xm5", query=True)) == [("wh1000", 2), ("wh1000xm5", 3), ("1000xm5", 2)]
    assert list(identifiers("00165314", query=True)) == [("165314", 1)]
    assert list(identifiers("816.418.00.1", query=False)) == [("816418001", 4)]


SCRIPTS = st.text(
    st.one_of(
        st.sampled_from("abAB12 -./\n\u0301ＷＨ１－　ｶﾞﾟ折りたたみ傘กาแก้วह्र우산é👩🏽\u200d🚀\u00ad\u200bﬁ×()"),
        st.characters(codec="utf-8"),
    ),
    max_size=30,
).map(lambda text: unicodedata.normalize("NFC", text))


@given(text=SCRIPTS, query=st.booleans())
@example(text="ｶﾞﾗｽ", query=False)
@example(text="กาแก้ว", query=False)
@example(text="iPhone手机", query=False)
@example(text="ＷＨ－１０００ XM5", query=False)
def test_spans_are_the_terms_with_their_places(text: str, query: bool) -> None:
    """The spans of a text are the words, pairs and identifiers of its analysis, each at its place."""
    found = list(spans(text, query=query))
    usual = usual_form(text)
    there = sorted([*words(pair(usual)), *(name for name, _ in identifiers(usual, query=query))])
    assert sorted(span.text.lower() for span in found) == there
    assert all(0 <= span.start < span.end <= len(text) for span in found)
    for span in found:
        written = joined(usual_form(text[span.start : span.end]))
        assert joined(span.text) in written or joined(span.text) in written.lstrip("0")


def test_numbers_of_any_length_are_read() -> None:
    """Python refuses to read a number of more than 4,300 digits, and a text may hold one."""
    digits = "9" * 5000
    for text in (f"1.2.3.{digits}", f"{digits}.{digits}.1.1", f"v{digits}-{digits}", f"{digits}/{digits}"):
        assert "lamp" in terms(f"lamp {text}", query=False)
        assert "lamp" in terms(f"lamp {text}", query=True)
    assert names("1.2.3.4", query=True) == names("10.0.0.255", query=True) == []
    assert names("1.2.3.0256", query=False) == names("1.2.3.0256", query=True) != []


@pytest.mark.parametrize("repeated", ["\u0e31", "\u103b", "\uff9e", "\u0301", "a1-", "1.", "A ", "雨"])
def test_the_time_grows_with_the_text(repeated: str) -> None:
    """However many parts an identifier has."""

    def analyse_all(size: int) -> object:
        text = "\u30ac" + repeated * size
        return pair(text), list(spans(text, query=False)), analyse(text, query=False)

    assert growth(analyse_all, 1000) < LINEAR


@pytest.mark.parametrize("signs", ["\u0e01\u0e31", "\u1000\u103b", "\u30ac\uff9e"])
def test_the_time_grows_with_the_signs_of_a_letter(signs: str) -> None:
    """A text may be one letter with vowel signs."""

    def pair_all(size: int) -> object:
        text = signs[0] + signs[1] * size
        return pair(text), list(spans(text, query=False))

    assert growth(pair_all, 40_000) < LINEAR

"""Analysis: words, numbers and sizes, parts of words, joined forms, and pairs of characters."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.text.analysis import LONG, LONGEST, MOST, MOST_PAIRS, RUN, Token, analyse, join_neighbours
from operators.text.words import split_words
from tests.growth import LINEAR, growth

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "analysis.md"

LETTERS = st.text("abcdefgxyz", min_size=1, max_size=3)
NUMBERS = st.text("0123456789", min_size=1, max_size=4)
ALTERNATING = st.lists(st.tuples(LETTERS.map(str.upper), NUMBERS), min_size=1, max_size=2).map(
    lambda each: sum(each, ())
)
"""The words of an identifier in which no two digits and no two letters are side by side."""

UNSPACED = st.text("雨伞很好折りたたみ傘우산กาแฟ", min_size=1)

LATIN = "a B 12 1234567 00165314 2.5 kg mm C++ iPhone O'Reilly don't US x . , - – ' ’ / & _ + # : ( ) \" ″ × ½ ² m²"
OTHERS = "雨 傘 แก้ว 우산 ｶﾞ e\u0301 İ ß ﬁ ™ ㎏ Ⅳ \u00ad \u200d كِتاب किताब 🚀 ＷＨ－１ ٣ ﷺ \ud800 \u0345 ǅ …"
PIECES = st.sampled_from([*LATIN.split(), *OTHERS.split(), " ", "\n"])
ANY_TEXT = st.lists(PIECES, max_size=14).map("".join) | st.text()


def terms(text: str, *, query: bool = False) -> list[str]:
    """The words and forms of a text."""
    return [token.text for token in analyse(text, query=query)]


def words(text: str, *, query: bool = False) -> list[str]:
    """The words of a text."""
    return [token.text for token in analyse(text, query=query) if token.is_word]


def forms(text: str, *, query: bool = False) -> list[str]:
    """The forms of a text."""
    return [token.text for token in analyse(text, query=query) if not token.is_word]


def finds(query: str, document: str) -> bool:
    """True if all of the query, as one word or form, is a word or form of the document."""
    tokens = analyse(query, query=True)
    atoms = sum(token.atoms for token in tokens if token.is_word)
    whole = {token.text for token in tokens if (token.first, token.atoms) == (0, atoms)}
    return not whole.isdisjoint(terms(document))


# The page


def table() -> Iterator[tuple[str, list[str], list[str]]]:
    """The rows of the page's table: a document, the queries that find it, and those that don't."""
    for line in PAGE.read_text().splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[2:5]]
        if line.startswith("|") and len(cells) == 3:
            yield from ((document, cells[1], cells[2]) for document in cells[0])


ROWS = list(table())


@pytest.mark.parametrize(("document", "found", "lost"), ROWS, ids=[row[0] for row in ROWS])
def test_the_examples_of_the_page(document: str, found: list[str], lost: list[str]) -> None:
    """A query of the third column is as a whole a word or form of the document; one of the last is not."""
    assert [query for query in found if not finds(query, document)] == []
    assert [query for query in lost if finds(query, document)] == []


def test_the_page_has_all_kinds() -> None:
    """The table is read."""
    assert len(ROWS) > 60


# Any text


@given(ANY_TEXT, st.booleans())
@example("2ba–a", False)
@example("10x-m", True)
def test_tokens_are_parts_of_the_text(text: str, query: bool) -> None:
    """Each token is one word in lower case at a place of the text; words are in order, and their atoms are numbered
    from 0 on; a form covers some of these atoms.
    """
    tokens = analyse(text, query=query)
    found = [token for token in tokens if token.is_word]
    atoms = 0
    for token in found:
        assert token.first == atoms
        atoms += token.atoms
    assert [token.start for token in found] == sorted(token.start for token in found)
    for token in tokens:
        assert 0 <= token.start < token.end <= len(text)
        assert 0 < token.atoms <= atoms - token.first
        # The signs within words and numbers stand for letters in the index.
        assert len(split_words(token.text.translate(dict.fromkeys(map(ord, "./+#"), "a")))) == 1
        assert token.text == token.text.lower()


@given(st.lists(st.text("abcXYZ019", min_size=1, max_size=6), max_size=8), st.sampled_from(" \n,;!?"))
def test_words_are_those_between_separators(written: list[str], separator: str) -> None:
    """If nothing joins, each word is as it is written, in lower case, at its place, each with places of its own."""
    text = f"{separator} ".join(written)
    found = [token for token in analyse(text, query=False) if token.is_word]
    assert [token.text for token in found] == [each.lower() for each in written]
    assert [text[token.start : token.end] for token in found] == written
    assert all(one.end < other.start for one, other in pairwise(found))


@given(ANY_TEXT | st.text("ab1 -./\n雨伞"))
def test_a_querys_analysis_is_bounded(text: str) -> None:
    """Whatever the text, its forms and pairs have their number, and no form is there twice."""
    found = [token for token in analyse(100 * text, query=True) if not token.is_word]
    assert len(found) <= MOST
    assert len(set(found)) == len(found)


@given(ANY_TEXT, st.booleans())
@example("A1B2C3D4E5F6G7H8I9 A1B2C3D4E5F6G7H8I9", False)
@example("-".join(["abcdef"] * 6), True)
def test_joined_forms_are_short(text: str, query: bool) -> None:
    """A form that joins words has a bounded length."""
    tokens = analyse(text, query=query)
    single = {(token.first + place, 1) for token in tokens if token.is_word for place in range(token.atoms)}
    single |= {(token.first, token.atoms) for token in tokens if token.is_word}
    joined = [each for each in tokens if not each.is_word and (each.first, each.atoms) not in single]
    # A size has the unit behind its number.
    assert all(len(each.text) <= LONGEST + 3 for each in joined)


def test_pairs_of_a_query_are_bounded() -> None:
    """Of a long run the first are kept; a document keeps all."""
    text = "雨伞很好折" * 1000
    assert len(words(text, query=True)) == MOST_PAIRS
    assert len(words(text)) == len(text) - 1


# Spellings

DECIMALS = st.tuples(st.integers(0, 999), st.integers(1, 99)).map(lambda each: f"{each[0]}.{each[1]:02}")


@given(DECIMALS, st.sampled_from(["kg", "mm", "l", "V", "GB"]))
@example("2.50", "kg")
def test_a_size_is_found_in_each_of_its_spellings(number: str, unit: str) -> None:
    """A point or comma, zeros, spaces, hyphens and capitals say nothing: a query in one finds a document in another."""
    numbers = {number, number.replace(".", ","), number.rstrip("0")}
    numbers |= {each.removeprefix("0") for each in numbers if each.startswith(("0.", "0,"))}
    written = [f"{each}{sign}{name}" for each in numbers for sign in ("", " ", "-") for name in (unit, unit.upper())]
    for document in written:
        assert all(finds(query, f"A bag, {document}.") for query in written), document


def test_a_decimal_is_no_other_number() -> None:
    """Its tail is no word: 0.5 l is not 5 l."""
    for document in (".5 l", "0.5 l", "0,5l", "(.5 l)", "-.5 l", "1.5 l", "2,5l"):
        assert "5" not in terms(document)
        assert "5l" not in terms(document)
    assert words("Is it 1? .5, or 2.") == ["is", "it", "1", "0.5", "or", "2"]
    assert words("in 1904.5 men") == ["in", "1904.5", "men"]


NAMES = [
    *(("wi-fi", "Wi-Fi", "WiFi", "wifi", "wi–fi"), ("O'Reilly", "O’Reilly", "OʼReilly", "oreilly", "OReilly")),
    *(("Ph.D.", "PhD", "phd", "Ph.D"), ("AT&T", "at&t", "ATT"), ("e-mail", "email", "E-Mail")),
    *(("PHP7", "php7", "PHP-7"), ('6.7"', "6.7”", "6,7 in", "6.7 inches"), (".5 l", "0,5L", "500 ml", "50cl")),
    *(("get_user", "getUser", "getuser"), ("WH-1000XM5", "WH1000XM5", "wh1000-xm5"), ("10²", "10^2", "10 2")),
    *(("за\u0301мок", "замок"), ("كِتاب", "كتاب"), ("İzmir", "IZMIR", "izmir"), ("1½", "1 1/2")),
    *(("48 h", "48h", "48 hours", "48 Stunden"), ("-5 °C", "−5°C", "5 degrees", "5°", "5 Grad"), ("2 ans", "2 years")),
]


@pytest.mark.parametrize("spellings", NAMES, ids=lambda each: each[0])
def test_a_name_is_found_in_each_of_its_spellings(spellings: tuple[str, ...]) -> None:
    """A document in any of them has all words of each, or these joined."""
    for document in spellings:
        for query in spellings:
            assert finds(query, document) or {*words(query, query=True)} <= {*terms(document)}, (query, document)


@pytest.mark.parametrize(
    "distinct",
    [("C", "C++", "C#"), ("v1.1", "v1.10"), ("1/2", "1/20", "12"), ("5 m", "5 m²"), ("5 °C", "5 °F")],
    ids=str,
)
def test_other_names_stay_others(distinct: tuple[str, ...]) -> None:
    """No one finds another as a whole."""
    for document in distinct:
        assert [query for query in distinct if finds(query, document)] == [document]


@given(ALTERNATING, st.lists(st.sampled_from(["-", " ", "", "/", "_"]), min_size=4, max_size=4), st.booleans())
def test_signs_spaces_and_case_say_nothing(parts: tuple[str, ...], signs: list[str], lower: bool) -> None:
    """An identifier that a document has with hyphens is found however a query joins its words."""
    written = "".join(part + sign for part, sign in zip(parts, (*signs[: len(parts) - 1], ""), strict=True))
    assert finds(written.lower() if lower else written, "-".join(parts))


@given(st.lists(NUMBERS, min_size=2, max_size=6), st.sampled_from([" ", "-", ",", ":", "/", "  "]), st.booleans())
@example(["10", "5"], " ", True)
def test_short_numbers_are_not_joined(numbers: list[str], sign: str, query: bool) -> None:
    """No two numbers make another of less than seven digits; only hyphens and spaces make a longer one."""
    tokens = analyse(sign.join(numbers), query=query)
    joined = [token.text for token in tokens if not token.is_word and token.atoms > 1]
    assert all(len(each) >= LONG for each in joined)
    assert joined == [] or sign.strip() in ("", "-")


@given(st.lists(st.integers(0, 255), min_size=4, max_size=4), st.booleans())
def test_an_ip_address_is_not_joined(numbers: list[int], query: bool) -> None:
    """Two addresses of the same digits differ."""
    assert forms(".".join(map(str, numbers)), query=query) == []


@given(st.lists(st.text("abcdef", min_size=1), max_size=30).map(" ".join))
@example("In 2019, 5 to 10 of the 7 men couldn't go a day. It's 3 men.")
def test_prose_has_no_forms(text: str) -> None:
    """Words of small letters are words alone, and so are numbers among them."""
    assert forms(text) == []


def test_a_table_makes_few_forms() -> None:
    """A row of numbers has none; a single part in it is still one."""
    assert forms(" ".join(["123"] * 20)) == []
    assert forms(" ".join(["123"] * 9 + ["AB-1"])) == ["ab1"]
    assert {"m8x30", "100pcs", "5kg"} <= {*forms("VIS M8 X 30 A2 INOX LOT DE 100 PCS 5 KG")}


def test_forms_by_hand() -> None:
    """With the number of atoms that each stands for."""

    def read(text: str, *, query: bool = True) -> list[tuple[str, int, int]]:
        return [(token.text, token.first, token.atoms) for token in analyse(text, query=query) if not token.is_word]

    assert read("wh 1000 xm5") == [
        *(("xm", 2, 1), ("5", 3, 1)),
        *(("wh1000", 0, 2), ("wh1000xm5", 0, 4), ("1000xm5", 1, 3)),
    ]
    assert read("getUserById") == [("get", 0, 1), ("user", 1, 1), ("by", 2, 1), ("id", 3, 1)]
    assert read("2,50 kg") == [("2.5kg", 0, 2)]
    assert read("30 cm") == [("30cm", 0, 2), ("0.3m", 0, 2)]
    assert read('6.7"') == [("6.7in", 0, 1)]
    assert read("0.75 GiB")[-1] == ("768mib", 0, 3)
    assert read("00165314") == [("165314", 0, 1)]
    assert read("01555") == []
    assert read("ORA-01555") == [("ora01555", 0, 2), ("ora1555", 0, 2)]
    assert read("F-3382/07") == [("f338207", 0, 3)]
    assert read("24/12/2024") == []
    assert read("816.418.00.1", query=False) == [("816418001", 0, 1)]
    assert read("made in the US", query=False) == [("us", 3, 1)]
    assert read("MADE IN THE US", query=False) == []
    assert read("size L, padded (M)") == [("l", 1, 1), ("m", 3, 1)]
    assert read("vitamin A", query=False) == [("a", 1, 1)]
    assert read("A lamp. A shade\nA bulb for what I do", query=False) == []
    assert read("SIZE L", query=False) == []
    assert read("an O'Reilly's book", query=False) == [("oreilly", 1, 2)]
    assert read("Google+ and C++", query=False) == [("google+", 0, 1)]


@given(st.lists(LETTERS | NUMBERS, max_size=8), st.data())
def test_neighbours_are_words_of_letters_side_by_side(written: list[str], data: st.DataObject) -> None:
    """Up to four of them, which begin with a word that may be the first."""
    found = [token for token in analyse(" ".join(written), query=True) if token.is_word]
    begins = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    wanted = [
        Token("".join(written[one:other]), found[one].start, found[other - 1].end, one, other - one, False)
        for one in range(len(written))
        for other in range(one + 2, min(one + RUN, len(written)) + 1)
        if begins[one] and "".join(written[one:other]).isalpha()
    ]
    assert list(join_neighbours(found, begins)) == wanted


# Scripts


@given(UNSPACED, UNSPACED, UNSPACED)
def test_a_part_of_a_run_shares_its_pairs(before: str, wanted: str, behind: str) -> None:
    """Each pair of a query is one of every text that holds the query, unless the query is a single character."""
    asked = words(wanted, query=True)
    if len(words(wanted + wanted)) > 1 and all(len(each) > 1 for each in asked):
        assert {*asked} <= {*words(before + wanted + behind)}


def test_scripts_by_hand() -> None:
    """Pairs, with each vowel sign at its letter, without tones; other scripts within are words of their own."""
    assert words("折りたたみ傘") == ["折り", "りた", "たた", "たみ", "み傘"]
    assert words("M8螺栓30") == ["m8", "螺栓", "30"]
    assert words("伞") == ["伞"]
    assert words("우산을 사다") == ["우산", "산을", "사다"]
    assert words("ร้านกาแฟ") == ["รา", "าน", "นก", "กา", "าแ", "แฟ"]
    assert words("กินน้ำ") == ["กิน", "นน", "นำ"]
    assert words("ｶﾞﾗｽ") == ["ガラ", "ラス"]
    assert words("ខ្មែរ")
    assert words("မြန်မာ")


@given(st.lists(st.sampled_from("abc"), max_size=3).map("".join), st.sampled_from(["M8螺栓", "7米以上"]))
def test_scripts_without_spaces_end_a_form(word: str, text: str) -> None:
    """A Chinese word beside a number is no part of one."""
    assert all(each.isascii() for each in forms(f"{word} {text}", query=True))


def test_places_are_those_of_the_text_as_written() -> None:
    """So it is if folding makes a text longer or shorter."""
    for text, wanted in [
        ("ＷＨ－１０００ＸＭ５", "ＷＨ－１０００ＸＭ５"),
        ("A ﬁne soft\u00adware", "soft\u00adware"),
        ("A bag of 2½㎏, new", "½㎏"),
        ("Ｏ’Reilly™ x", "Ｏ’Reilly"),
    ]:
        places = {text[token.start : token.end] for token in analyse(text, query=False)}
        assert wanted in places, places


# Time


def test_numbers_of_any_length_are_read() -> None:
    """Python refuses to read a number of more than 4,300 digits, and a text may hold one."""
    digits = "9" * 5000
    for text in (f"1.2.3.{digits}", f"{digits}.1.1", f"v{digits}-{digits}", f"{digits}/{digits}", f"{digits} kg"):
        assert "lamp" in words(f"lamp {text}")
        assert "lamp" in words(f"lamp {text}", query=True)
    assert forms("1.2.3.0256") == forms("1.2.3.0256", query=True) == ["1230256"]


REPEATED = "1 ,234 .234 1.234, 1,5 a1- 1. 1/ a' 1\" C++ aB (1) ½ 1× \u0e31 \u103b \uff9e \u0301 雨 \u093f"


@pytest.mark.parametrize("repeated", [*REPEATED.split(), "1/2 ", "1kg ", "A "])
def test_the_time_grows_with_the_text(repeated: str) -> None:
    """However many digits, signs and parts a word has."""

    def analyse_all(size: int) -> object:
        text = "\u30ac1" + repeated * size
        return analyse(text, query=False), analyse(text, query=True)

    assert growth(analyse_all, 1000) < LINEAR


@pytest.mark.parametrize("signs", ["\u0e01\u0e31", "\u1000\u103b", "\u30ac\uff9e", "\u0e01\u0eb8\u0e38"])
def test_the_time_grows_with_the_signs_of_a_letter(signs: str) -> None:
    """A text may be one letter with vowel signs."""
    assert growth(lambda size: analyse(signs[0] + signs[1:] * size, query=False), 40_000) < LINEAR

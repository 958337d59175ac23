"""Nearness of words: what an unknown word of a query may mean."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.folding import fold_accents
from operators.text.nearness import LONG, SPELT, count_edits, may_be_near, read_near, replace
from operators.text.terms import QueryWord

letters = st.text("abcde", min_size=SPELT, max_size=12)


@pytest.mark.parametrize(
    ("word", "other", "edits"),
    [
        ("metranome", "metronome", 1),
        ("vaccum", "vacuum", 1),
        ("hampster", "hamster", 1),
        ("pictrue", "picture", 1),
        ("sredder", "shredder", 1),
        ("ehadlamp", "headlamp", 1),
        ("termostatique", "thermostatique", 1),
        ("fermostatique", "thermostatique", None),
        ("accomodatoin", "accommodation", 2),
        ("vouchr", "vouchers", None),
        ("bred", "bread", None),
        ("tuning", "turning", 1),
        ("pool", "poor", None),
        ("mütze", "strickmütze", 0),
        ("bett", "hundebett", 0),
        ("dübel", "dübelsortiment", 0),
        ("bett", "bettwäsche", None),
        ("pump", "pumpe", None),
        ("klingel", "klinge", 1),
        ("set", "reset", None),
        ("shown", "shows", None),
        ("angel", "angle", 1),
        ("torqe", "torque", 1),
        ("patch", "path", None),
        ("lamp", "lamp", 0),
        ("plant", "elephant", None),
    ],
)
def test_edits_by_hand(word: str, other: str, edits: int | None) -> None:
    """One from five letters on, two from nine; a part of a compound has none."""
    assert count_edits(word, other) == edits


def edited(word: str, at: int, kind: int, letter: str) -> str:
    """The word with one edit behind its first letter."""
    at = 1 + at % (len(word) - 1)
    before, behind = word[:at], word[at:]
    swapped = word[: at - 1] + word[at] + word[at - 1] + behind[1:]
    return [before + letter + behind, before + behind[1:], before + letter + behind[1:], swapped][kind]


edits = st.tuples(st.integers(0, 11), st.integers(0, 3), st.sampled_from("abcde"))


@given(letters, edits, edits)
def test_a_word_with_an_edit_is_near(word: str, one: tuple[int, int, str], two: tuple[int, int, str]) -> None:
    """And one with two edits if it is long; neither is near with more edits than that."""
    once = edited(word, *one)
    if min(len(once), len(word)) >= SPELT and (one[1] != 2 or len(word) > SPELT):
        assert count_edits(once, word) in (0, 1)
    twice = edited(once, *two)
    if len(twice) >= LONG and {one[1], two[1]} <= {0, 1, 2}:
        assert count_edits(twice, word) in (0, 1, 2)


@given(letters, letters)
def test_nearness_is_bounded(one: str, other: str) -> None:
    """Edits are at most two, and the same both ways where both words are long."""
    edits = count_edits(one, other)
    assert edits is None or edits <= (1 if len(one) < LONG else 2)
    if len(one) >= LONG and len(other) >= LONG and abs(len(one) - len(other)) < 3:
        assert edits == count_edits(other, one)


def read(word: str, *texts: str) -> str | None:
    """The name of a word's reading; each word has a term of its own, and plurals have that of their singular."""
    query = [QueryWord(word, [], 3, 1)]
    readings = read_near(query, texts, lambda each: [crc32(each.removesuffix("s").encode())])
    assert readings.keys() <= {word}
    return ", ".join(each.text for each in readings[word]) if readings else None


@pytest.mark.parametrize(
    ("word", "texts", "name"),
    [
        ("metranome", ["A Metronome.", "Two metronomes; a metropole"], "metranome ~ metronome"),
        ("loreal", ["Shampoo L’Oréal"], "loreal ~ loréal"),
        ("brulee", ["Crème brûlée", "bruler"], "brulee ~ brûlée"),
        ("muetze", ["Die Strickmütze, 100 % Wolle"], "muetze ~ strickmütze"),
        ("angel", ["angle grinder", "nagel"], "angel ~ angle nagel"),
        ("tapper", ["tapped", "taper"], "tapper ~ tapped taper"),
        ("theaterkasse", ["Kasse des Theaters"], "theaterkasse ~ theaters, theaterkasse ~ kasse"),
        (
            "bienenwachstuecher",
            ["Tücher mit Bienenwachs"],
            "bienenwachstuecher ~ bienenwachs, bienenwachstuecher ~ tücher",
        ),
        ("arbeitszimmer", ["Zimmer für die Arbeit"], "arbeitszimmer ~ arbeit, arbeitszimmer ~ zimmer"),
        ("bookshelf", ["A shelf for books", "bookshelv"], "bookshelf ~ books, bookshelf ~ shelf"),
        ("theaterkasse", ["Kasse", "Theater"], None),
        ("minibar", ["a mini bar"], None),
        ("umbrella", ["a box"], None),
        ("virtue", ["virtually"], None),
        ("lampe", ["lamp5", "lampe3"], None),
    ],
)
def test_a_reading_names_the_nearest_words(word: str, texts: list[str], name: str | None) -> None:
    """Those with the fewest edits, one for each term; the reading stands where the word stood."""
    assert read(word, *texts) == name


def test_a_reading_has_the_terms_of_all_its_words() -> None:
    """So it is found in each candidate that has one of them, by its marks."""
    terms = {"tapped": [7], "taper": [8, 7]}
    reading = read_near([QueryWord("tapper", [1], 2, 1)], ["tapped", "taper"], terms.__getitem__)
    assert reading == {"tapper": [QueryWord("tapper ~ tapped taper", (7, 8), 2, 1)]}


def test_the_parts_of_a_compound_stand_side_by_side() -> None:
    """Words behind it move, and a form that spans it covers both."""
    words = [
        QueryWord("ab", [1], 0, 1),
        QueryWord("cd", [2], 1, 1),
        QueryWord("ef", [3], 2, 1),
        QueryWord("all", [4], 0, 3),
    ]
    parts = {"cd": [QueryWord("c", [5], 1, 1), QueryWord("d", [6], 1, 1)]}
    found = {each.text: (each.first, each.atoms) for each in replace(words, parts)}
    assert found == {"ab": (0, 1), "c": (1, 1), "d": (2, 1), "ef": (3, 1), "all": (0, 4)}


@given(st.lists(letters, min_size=1, max_size=4), st.sets(st.integers(0, 3)))
def test_replaced_words_cover_all_atoms(texts: list[str], compounds: set[int]) -> None:
    """Each atom once, in the order of the words; without readings nothing changes."""
    words = [QueryWord(text, [], place, 1) for place, text in enumerate(texts)]
    readings = {words[at].text: [words[at], words[at]] for at in compounds if at < len(words)}
    found = replace(words, readings)
    assert [each.first for each in found] == [*range(len(found))]
    assert replace(words, {}) == words


@given(letters, letters, st.sampled_from(["", "s", "n"]))
def test_a_compound_is_read_for_its_parts(one: str, other: str, joint: str) -> None:
    """In whatever order a text has them, and with a letter that joins them."""
    found = read(one + joint + other, f"{other} of {one}")
    assert found is not None
    assert {each.split(" ~ ")[1] for each in found.split(", ")} <= {one, other}


@given(st.text(max_size=40), st.text(max_size=12))
def test_a_word_of_a_text_is_read_for_itself(text: str, word: str) -> None:
    """Whatever else the text has: accents are no edits."""
    if may_be_near(word := word.lower()) and word.isascii():
        found = read(word, text, f"and {word}, too")
        assert found is not None
        assert word in [fold_accents(each) for each in found.split(" ~ ")[1].split()]

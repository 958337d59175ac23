"""Passages: the part of a text that a query matched, and the places of its words."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.collections.analysers import CURRENT, Bm25
from operators.text import passages
from operators.text.analysis import analyse
from operators.text.passages import SIZE, Hint, Matcher, excerpt, is_bound
from schemas.settings.qdrant import Bm25Settings
from tests.growth import LINEAR, growth
from tests.tiers import sized

ENGLISH = Bm25(analysis=CURRENT)
BOTH = Bm25(Bm25Settings(languages={"de": "german"}), CURRENT)
FILLER = "Nothing of interest is said here. "


def marked(query: str, text: str, most: int = 1) -> list[str]:
    """The passages, with brackets around what is highlighted."""
    shown = []
    for passage in Matcher(analyse(query, query=True), ENGLISH.terms_of).passages(text, most):
        out, end = "", 0
        for first, last in passage.highlights:
            out += f"{passage.text[end:first]}[{passage.text[first:last]}]"
            end = last
        shown.append(out + passage.text[end:])
    return shown


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        (
            "running shoes",
            "We sell many things. He runs in new shoes!",
            "We sell many things. He [runs] in new [shoes]!",
        ),
        ("the price", "The price of the lamp.", "The [price] of the lamp."),
        ("wh1000xm5", "Buy the WH-1000XM5 now.", "Buy the [WH-1000XM5] now."),
        ("東京都", "昨日、東京都へ行った。", "昨日、[東京都]へ行った。"),
        ("ガラス", "ｶﾞﾗｽの雨傘。", "[ｶﾞﾗｽ]の雨傘。"),
        ("กาแฟ", "ร้านกาแฟดี", "ร้าน[กาแฟ]ดี"),
        ("किताब", "यह किताब है।", "यह [किताब] है।"),
        ("كتاب", "هذا كتاب جديد", "هذا [كتاب] جديد"),
        ("cafe", "The cafe\u0301 is open.", "The [cafe\u0301] is open."),
        ("cafe", "An\u20ddcafe.", "[An\u20ddcafe]."),
        ("замок", "Старый за\u0301мок.", "Старый [за\u0301мок]."),
        ("2.5kg", "A bag of 2,50 kg.", "A bag of [2,50 kg]."),
        ("oreilly", "O’Reilly’s books.", "[O’Reilly’s] books."),
        ("iphone15", "An iPhone 15.", "An [iPhone] [15]."),
        ("rocket", "👩🏽‍🚀 flies a rocket 🚀 today", "👩🏽‍🚀 flies a [rocket] 🚀 today"),
        ("lamp", "", None),
        ("lamp", " \n ", None),
        ("xyz", "No word of it is here.", "No word of it is here."),
        ("the", "The end.", "The end."),
        ("software", "A soft\u00adware.", "A [soft\u00adware]."),
        ("filter", "The ﬁlter, ﬁlters.", "The [ﬁlter], [ﬁlters]."),
        ("M8x30", "Screw M8×30.", "Screw [M8×30]."),
        ("Maße", "Masse, Maße.", "Masse, [Maße]."),
    ],
)
def test_words_of_any_language_are_highlighted(query: str, text: str, expected: str | None) -> None:
    """The words that the keyword leg would find are highlighted as they are written, and no others."""
    assert marked(query, text) == ([expected] if expected is not None else [])


def test_stop_words_count_where_there_is_nothing_else() -> None:
    """As in the keyword leg, which then searches by them."""
    stop_words = partial(ENGLISH.terms_of, stop_words=True)
    (found,) = Matcher(analyse("The Who", query=True), ENGLISH.terms_of, stop_words).passages("Songs by The Who.", 1)
    assert [found.text[first:last] for first, last in found.highlights] == ["The", "Who"]
    (found,) = Matcher(analyse("The lamp", query=True), ENGLISH.terms_of, stop_words).passages("The lamp.", 1)
    assert [found.text[first:last] for first, last in found.highlights] == ["lamp"]


def test_all_languages_of_the_collection_count() -> None:
    """A word matches in each of the collection's languages."""
    (found,) = Matcher(analyse("Fußkörbe", query=True), BOTH.terms_of).passages("Zwei Fusskörbe aus Holz.", 1)
    assert found.highlights == [(5, 14)]


def test_without_a_word_the_hints_count() -> None:
    """The passage is the window with the most of their weights, without highlights; a text with a word has no use for
    them.
    """
    text = FILLER * 30 + "Two-wheelers can be rented here. " + FILLER * 30
    start = text.index("Two-wheelers")
    matcher = Matcher(analyse("bicycle hire", query=True), ENGLISH.terms_of)
    hints = [Hint(3, 8, 0.4), Hint(start, start + 12, 0.5), Hint(start + 20, start + 26, 0.6)]
    (found,) = matcher.passages(text, 1, hints)
    assert "Two-wheelers can be rented here." in found.text
    assert found.highlights == []
    assert text[found.start :].startswith(found.text)
    named = f"{text}A bicycle."
    assert matcher.passages(named, 1, hints) == matcher.passages(named, 1)


def test_the_passage_is_where_the_most_words_are() -> None:
    """Of a long text the sentences with the most of the query's words are the passage, and the next best follow."""
    text = (
        FILLER * 30 + "The lamp is old. The red lamp costs ten euros. " + FILLER * 30 + "A red carpet. " + FILLER * 30
    )
    best, other = marked("red lamp", text, 2)
    assert best.startswith("The [lamp] is old. The [red] [lamp] costs ten euros. Nothing")
    assert other.startswith("A [red] carpet. Nothing")
    assert marked("red lamp", text, 5) == [best, other]


def test_a_rare_word_counts_more() -> None:
    """A word that few sentences have decides against one that most have."""
    praise = "The battery and the screen are good. " * 60
    (best,) = marked("battery screen hinge", praise + FILLER * 20 + "The hinge broke. " + FILLER * 20 + praise)
    assert "The [hinge] broke." in best


def test_abbreviations_end_no_sentence() -> None:
    """A full stop behind a single letter or before a small letter ends no sentence."""
    text = ("J. Smith sold approx. ten lamps. " + FILLER) * 12
    assert all(each.startswith(("J. Smith", "Nothing")) for each in marked("lamps", text, 4))


def test_the_number_of_an_entry_stands_with_it() -> None:
    """Also one of two digits; a number that ends a sentence ends it."""
    entries = "".join(f"{number}. Hold the button. Wait.\n" for number in range(8, 13))
    found = [entries[start:end] for start, end in passages._units(entries)]
    assert found == [part for n in range(8, 13) for part in (f"{n}. Hold the button.", "Wait.")]


def test_a_long_sentence_is_divided_between_words() -> None:
    """A sentence beyond the size is divided at a comma or a space, and a word only if it is longer."""
    words = " ".join(f"word{one}{other}" for one in "abcdefghij" for other in "abcdefghijklmnopqrst")
    (best,) = marked("wordgk", words)
    assert "[wordgk]" in best
    assert len(best) <= SIZE + 2
    assert set(best.replace("[", "").replace("]", "").split()) <= set(words.split())
    assert len(marked("x", "x" * 1000)[0]) == SIZE


def test_an_excerpt_ends_with_a_word() -> None:
    """An excerpt has whole words, no more than its size."""
    assert excerpt("one two three", 4, 6) == "two"
    assert excerpt("one two three", 4, 100) == "two three"
    assert excerpt("👩🏽‍🚀👩🏽‍🚀", 0, 5) == "👩🏽‍🚀"


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "lamp",
                "lamps",
                "Fußkörbe",
                "WH-1000XM5",
                "東京都",
                "ｶﾞﾗｽ",
                "กาแก้ว",
                "किताब",
                "كِتاب",
                "한국어",
                "cafe\u0301",
            ]
        ),
        st.sampled_from(
            ["👩🏽\u200d🚀", "🇩🇪🇫🇷", "\u0301", "e\u0301\u0302", "\r\n", "\n\n", " ", ". ", "。", ", ", "x" * 400]
        ),
        st.text(max_size=8),
    ),
    max_size=60,
).map("".join)


@given(text=TEXTS, query=TEXTS, most=st.integers(1, 4))
@example(text="\u0301" * 700, query="lamp", most=2)
@example(text="\u200d\r\n", query="", most=1)
@example(text=("lamp" + "\u0301" * 400) * 3, query="lamp", most=2)
def test_passages_are_parts_of_the_text_at_bounds(text: str, query: str, most: int) -> None:
    """Each passage is the text at its start, between words, apart from the others, and holds its highlights."""
    found = Matcher(analyse(query, query=True), ENGLISH.terms_of).passages(text, most)
    assert len(found) <= most
    assert bool(found) or not text.strip()
    for passage in found:
        end = passage.start + len(passage.text)
        assert passage.text == text[passage.start : end]
        longest = max(map(len, text.split()), default=0)
        if longest <= SIZE:
            assert is_bound(text, passage.start)
            assert is_bound(text, end)
            assert len(passage.text) <= SIZE
        before = 0
        for first, last in passage.highlights:
            assert before <= first < last <= len(passage.text)
            before = last
            if longest <= SIZE:
                assert is_bound(text, passage.start + first)
                assert is_bound(text, passage.start + last)
        short = excerpt(text, passage.start, 40)
        assert text[passage.start :].startswith(short)
    places = sorted((each.start, each.start + len(each.text)) for each in found)
    assert all(first[1] <= second[0] for first, second in pairwise(places))


@given(text=TEXTS)
def test_a_character_keeps_its_marks(text: str) -> None:
    """No bound is before a combining mark, within an emoji's sequence, or a word of a script with spaces."""
    for at in range(1, len(text)):
        if is_bound(text, at):
            assert not unicodedata.category(text[at]).startswith("M")
            assert "\u200d" not in text[at - 1 : at + 1]
            assert not (text[at - 1].isascii() and text[at].isascii() and text[at - 1 : at + 1].isalnum())


def naive(matcher: Matcher, text: str, most: int) -> list[tuple[int, int]]:
    """The places of the best passages: each run of sentences is scored anew for each of them."""
    units, matches = list(passages._units(text)), matcher._find(text)
    words = [[match.word for match in matches if first <= match.start < last] for first, last in units]
    having = {word: sum(word in each for each in words) for word in {word for each in words for word in each}}

    def score(first: int, last: int) -> float:
        counts = Counter(word for each in words[first : last + 1] for word in each)
        rarity = {word: math.log(1 + (len(units) - count + 0.5) / (count + 0.5)) for word, count in having.items()}
        return math.fsum(matcher._weights[word] * rarity[word] * n / (n + 0.5) for word, n in counts.items())

    free = [True] * len(units)
    found: list[tuple[int, int]] = []
    while len(found) < most and any(free):
        runs = []
        for first in (place for place, each in enumerate(free) if each):
            last = first
            while last + 1 < len(units) and free[last + 1] and units[last + 1][1] - units[first][0] <= SIZE:
                last += 1
            runs.append((score(first, last), bool(words[first]), -first, last))
        best, _, first, last = max(runs)
        first = -first
        if best <= 0 and found:
            break
        while first and free[first - 1] and units[last][1] - units[first - 1][0] <= SIZE:
            first -= 1
        free[first : last + 1] = [False] * (last + 1 - first)
        found.append((units[first][0], units[last][1]))
    return found


WORDS = st.sampled_from(["red", "blue", "lamp", "cable", "7", "a.b", "12", "x"])
BEHIND = st.sampled_from([" ", ". ", "\n", ", ", "! "])
WRITTEN = st.lists(st.tuples(WORDS, BEHIND), max_size=sized(120, nightly=300))


@given(written=WRITTEN, query=st.sampled_from(["red", "blue lamp", "7 12", "red cable a.b"]), most=st.integers(1, 8))
def test_the_best_passages_are_those_of_a_plain_search(written: list[tuple[str, str]], query: str, most: int) -> None:
    """A second implementation tries every run of sentences for every passage."""
    text = "".join(map("".join, written))
    found = Matcher(analyse(query, query=True), ENGLISH.terms_of).passages(text, most)
    assert [(each.start, each.start + len(each.text)) for each in found] == naive(
        Matcher(analyse(query, query=True), ENGLISH.terms_of), text, most
    )


def test_a_text_of_many_short_lines_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A further passage costs only what is near the last one, however long the text is."""
    scored = 0

    def counted(values: Iterable[float]) -> float:
        nonlocal scored
        scored += 1
        return math.fsum(values)

    monkeypatch.setattr(passages, "math", SimpleNamespace(fsum=counted, log=math.log))
    lines, most = 5000, 10
    found = Matcher(analyse("3 5", query=True), ENGLISH.terms_of).passages(
        "\n".join(str(number % 10) for number in range(lines)), most
    )
    assert len(found) == most
    assert lines <= scored <= lines + most * 2 * SIZE


@pytest.mark.parametrize(
    ("begin", "repeated"),
    [
        ("word ", "."),
        ("word ", ".\u061f"),
        ("word ", "!\u201d"),
        ("word ", " "),
        ("word ", "\t\u3000"),
        ("word ", "\n"),
        ("word ", "word\u200d"),
        ("word ", "\u6f22\u200d"),
        ("word ", "\u0e01\u0e31"),
        ("", "word, "),
        ("", "3\n"),
    ],
)
def test_the_time_grows_with_the_text(begin: str, repeated: str) -> None:
    """Dot leaders, padded tables and texts that cannot be divided take no more than others of their length."""

    def passages_of(size: int) -> object:
        return Matcher(analyse("word 3 \u6f22", query=True), ENGLISH.terms_of).passages(
            begin + repeated * size + "x", 3
        )

    assert growth(passages_of, 1000) < LINEAR


PLAIN_END = re.compile(
    "(?P<stop>[.!?\u2026\u203d\u061f\u06d4])[.!?\u2026]*[\"'\u2019\u201d\u00bb)\\]]*(?=\\s)"
    "|[\u3002\uff01\uff1f\uff61\u0964\u0965\u104b\u17d4\u1362]+[\u300d\u300f\u201d\u2019\uff09\u300b]*|\\s*\n\\s*"
)
"""The ends of sentences, with any place of a run as its start: the same ends, in quadratic time."""


@given(st.text(" \t\n\r.!?\u2026\u061f\u203d\u06d4\"')a\u3002\u300d\u2028x", max_size=14))
def test_the_ends_of_sentences_are_those_of_a_plain_reading(text: str) -> None:
    """A second pattern, which says the same in fewer words."""
    found = [(each.span(), each["stop"] == ".") for each in passages._END.finditer(text)]
    assert found == [(each.span(), each["stop"] == ".") for each in PLAIN_END.finditer(text)]

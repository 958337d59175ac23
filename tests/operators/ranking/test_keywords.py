"""Keywords: which words of a query count, in which scripts, and what two spellings must share to be one word."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.content import STOP_WORDS, distinct_words, keywords


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "The CAT sat on a Mat", {"the", "cat", "sat", "on", "mat"}, id="case, and less than two characters"
        ),
        # The fraction slash of one half is no part of a word, which leaves 1 and 2x2.
        pytest.param("ＡＢＣ ﬁsh ½x² abc", {"abc", "fish", "2x2"}, id="compatibility forms"),
        pytest.param("to be or a b 7", {"to", "be", "or"}, id="short words"),
        pytest.param("cat cat, CAT!", {"cat"}, id="repeats"),
        pytest.param("snake_case's  end-of-line", {"snake", "case", "end", "of", "line"}, id="punctuation parts"),
        pytest.param("in 2023, 404 or 42", {"in", "2023", "404", "or", "42"}, id="numbers"),
        pytest.param("https://example.com/a?b=foo", {"https", "example", "com", "foo"}, id="an address"),
        pytest.param("tab\tline\nbreak\u00a0wide\u3000space", {"tab", "line", "break", "wide", "space"}, id="spaces"),
        pytest.param("", set(), id="nothing"),
        pytest.param(" \n\t", set(), id="white space"),
        pytest.param("?!... — “” 🙂", set(), id="punctuation"),
    ],
)
def test_words_by_hand(text: str, expected: set[str]) -> None:
    """Words are case-folded NFKC of two characters or more, each once, and nothing else parts them than non-words."""
    assert distinct_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Größe der Straße", {"grösse", "der", "strasse"}, id="German"),
        pytest.param("Übermut tut gut, Äpfel", {"übermut", "tut", "gut", "äpfel"}, id="German umlauts"),
        pytest.param("الكتاب الجديد في البيت", {"الكتاب", "الجديد", "في", "البيت"}, id="Arabic"),
        pytest.param("كِتَابٌ جَدِيدٌ", {"كِتَابٌ", "جَدِيدٌ"}, id="Arabic with vowel marks"),
        pytest.param("मेरी हिन्दी किताब", {"मेरी", "हिन्दी", "किताब"}, id="Hindi"),
        pytest.param("한국어 문서를 찾아", {"한국어", "문서를", "찾아"}, id="Korean writes spaces"),
        pytest.param("Привет, МИР и мы", {"привет", "мир", "мы"}, id="Russian"),
        pytest.param("ΣΊΣΥΦΟΣ σίσυφος", {"σίσυφοσ"}, id="Greek final sigma"),
        pytest.param("东京都人工智能", {"东京", "京都", "都人", "人工", "工智", "智能"}, id="Chinese"),
        pytest.param("東京都へ、行く。", {"東京", "京都", "都へ", "行く"}, id="Japanese"),
        pytest.param("データベース", {"デー", "ータ", "タベ", "ベー", "ース"}, id="Japanese long vowels"),
        pytest.param("人々", {"人々"}, id="Japanese iteration mark"),
        pytest.param("ภาษาไทย", {"ภา", "าษ", "ษา", "าไ", "ไท", "ทย"}, id="Thai"),
        pytest.param("ที่นี่", {"ที", "ี่", "่น", "นี"}, id="Thai with marks"),
        pytest.param("𠮷野家", {"𠮷野", "野家"}, id="Han beyond the first plane"),
        pytest.param("ພາສາ", {"ພາ", "າສ", "ສາ"}, id="Lao"),
        pytest.param("ភាសា", {"ភា", "ាស", "សា"}, id="Khmer"),
        pytest.param("猫 と 犬", {"猫", "犬"}, id="one Han character alone"),
        pytest.param("물 좀", {"물", "좀"}, id="one Hangul syllable alone"),
        pytest.param("ก ກ ก", set(), id="one letter alone"),
        pytest.param("CSS3入門 と AI入門書 とweb", {"css3", "入門", "ai", "門書", "web"}, id="two scripts in one word"),
    ],
)
def test_words_of_other_scripts_by_hand(text: str, expected: set[str]) -> None:
    """Scripts that write spaces give whole words, marks kept; those that write none give bigrams of characters."""
    assert distinct_words(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("STRASSE", "straße", id="German sharp s"),
        pytest.param("STRAẞE", "straße", id="German capital sharp s"),
        pytest.param("GRO\u0308SSE", "größe", id="German umlaut as two code points"),
        pytest.param("ﻛﺘﺎﺏ", "كتاب", id="Arabic presentation forms"),
        pytest.param("ｶﾀｶﾅ", "カタカナ", id="Japanese half-width"),
        pytest.param("か\u3099くせい", "がくせい", id="Japanese voicing mark as two code points"),
        pytest.param("क़लम", "क\u093cलम", id="Hindi nukta as two code points"),
        pytest.param(unicodedata.normalize("NFD", "한국어"), "한국어", id="Korean letters apart"),
        pytest.param("ทํา", "ทำ", id="Thai vowel as two code points"),
    ],
)
def test_spellings_of_one_word(one: str, other: str) -> None:
    """Case and compatibility forms don't tell words apart."""
    assert distinct_words(one) == distinct_words(other) != frozenset()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("schon", "schön", id="German umlaut"),
        pytest.param("كتاب", "كِتَاب", id="Arabic vowel marks"),
        pytest.param("はは", "ぱぱ", id="Japanese voicing"),
        pytest.param("किताब", "कताब", id="Hindi vowel sign"),
        pytest.param("cat", "category", id="the beginning of a word"),
        pytest.param("cat", "concat", id="the end of a word"),
        pytest.param("문서", "문서를", id="Korean ending"),
    ],
)
def test_different_words(one: str, other: str) -> None:
    """Marks and letters tell words apart, and only a whole word matches."""
    assert distinct_words(one).isdisjoint(distinct_words(other))


def test_stop_words_are_no_keywords() -> None:
    """The English stop words don't count by default, in any case; other words do."""
    assert keywords("What did THEY say about the cats and dogs?") == {"say", "cats", "dogs"}
    assert keywords("what is it that you have") == frozenset()


@pytest.mark.parametrize(
    "word",
    [
        "the",
        "and",
        "for",
        "with",
        "what",
        "when",
        "who",
        "was",
        "were",
        "have",
        "not",
        "you",
        "is",
        "of",
        "to",
        "in",
        "my",
    ],
)
def test_common_english_words_are_stop_words(word: str) -> None:
    """Words that almost every English question holds are among them."""
    assert word in STOP_WORDS


@pytest.mark.parametrize("word", ["get", "give", "buy", "made", "ago", "last"])
def test_words_of_questions_about_the_past_are_stop_words(word: str) -> None:
    """The source's own words, with which one asks for what one has done, say nothing of what it was."""
    assert word in STOP_WORDS
    assert keywords(f"{word} bicycle") == {"bicycle"}


def test_every_stop_word_is_one_that_could_count() -> None:
    """The list holds words as texts give them: each is its own only keyword without the list."""
    assert all(keywords(word, []) == {word} for word in STOP_WORDS)


def test_a_list_of_ones_own_takes_the_place_of_the_english_one() -> None:
    """With other stop words the English ones count, and an empty list stops nothing."""
    assert keywords("the cat and der Hund", ["der", "und"]) == {"the", "cat", "and", "hund"}
    assert keywords("the cat and der Hund", []) == {"the", "cat", "and", "der", "hund"}


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("straße", "STRASSE"),
        ("größe", "GRO\u0308SSE"),
        ("كتاب", "ﻛﺘﺎﺏ"),
        ("です", "です"),
        ("the", "ＴＨＥ"),
    ],
)
def test_stop_words_are_folded_as_texts_are(text: str, stop: str) -> None:
    """A stop word in another case or form stops the word all the same."""
    assert keywords(text, [stop]) == frozenset()


def test_stop_words_stop_words_of_a_query_alone() -> None:
    """A text's words are not thinned: its stop words are among them."""
    assert "the" in distinct_words("the cat")


any_text = st.text(st.characters(exclude_categories=()), max_size=60)


@given(any_text)
def test_any_text_has_words_of_a_length(text: str) -> None:
    """Any text, lone surrogates too, has the same words each time: of two characters or more, or Han or Hangul."""
    found = distinct_words(text)
    assert found == distinct_words(text)
    alone = [word for word in found if len(word) == 1]
    assert all(unicodedata.name(word).startswith(("CJK ", "HANGUL SYLLABLE", "IDEOGRAPHIC ")) for word in alone)
    assert "" not in found


@given(any_text)
def test_keywords_are_words(text: str) -> None:
    """A query's keywords are its words but for stop words, so that a text holds all of its own."""
    assert keywords(text, []) == distinct_words(text)
    assert keywords(text) == distinct_words(text) - STOP_WORDS


@given(st.text(max_size=40))
def test_equivalent_spellings_have_the_same_words(text: str) -> None:
    """A text taken apart or put together by Unicode's rules says the same words."""
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert distinct_words(unicodedata.normalize(form, text)) == distinct_words(text)


@given(st.text("abcde XYZ Ä ß é", max_size=40))
def test_case_says_nothing(text: str) -> None:
    """A text in capitals holds the same words."""
    assert distinct_words(text.upper()) == distinct_words(text) == distinct_words(text.lower())


@given(st.lists(st.text("abcdef", min_size=1, max_size=6), max_size=8), st.randoms())
def test_the_order_of_words_says_nothing(parts: list[str], shuffle: random.Random) -> None:
    """Spaced words in any order and number are the same set."""
    moved = [*parts, *parts]
    shuffle.shuffle(moved)
    assert distinct_words(" ".join(moved)) == {part for part in parts if len(part) >= 2}

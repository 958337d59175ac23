"""Temporal expressions: every row of the table, which row wins, what is no time, and that any text is answered."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.dates import TemporalExpression
from tests.operators.text.times import temporal_expression

NOW = datetime(2024, 5, 20, 15, 30, tzinfo=UTC).timestamp()

PHRASES = Path(__file__).with_name("named_times.txt")

FRAGMENTS = (
    *(
        "yesterday",
        "recently",
        "a couple",
        "of",
        "days",
        "day",
        "ago",
        "last",
        "week",
        "months",
        "a",
        "year",
        "hundred",
    ),
    *("twenty-five", "three", "7", "31", "2023", "2023-02-29", "may", "March", "Sept.", "in", "during", "the", "fall"),
    *(",", ".", "-", "th", "ﬆ", "ı", "ſ", "K", "\x00", "\ud800", "\u00a0", "昨日", "٣"),
)
any_text = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from(FRAGMENTS) | st.text(max_size=3)
).map(" ".join)


def work(query: str) -> float:
    """The processor time that a query takes."""
    start = time.thread_time()
    temporal_expression(query, NOW)
    return time.thread_time() - start


@pytest.mark.parametrize(
    ("phrase", "days", "tolerance"),
    [
        ("3 days ago", 3, 2),
        ("three days ago", 3, 2),
        ("1 day ago", 1, 2),
        ("one day ago", 1, 2),
        ("0 days ago", 0, 2),
        ("9999 days ago", 9999, 2),
        ("twenty-five days ago", 25, 2),
        ("twenty five days ago", 25, 2),
        ("a hundred days ago", 100, 2),
        ("one hundred days ago", 100, 2),
        ("a couple days ago", 2, 2),
        ("a couple of days ago", 2, 2),
        ("yesterday", 1, 1),
        ("3 weeks ago", 21, 5),
        ("three weeks ago", 21, 5),
        ("1 week ago", 7, 5),
        ("one week ago", 7, 5),
        ("a week ago", 7, 3),
        ("last week", 7, 3),
        ("2 months ago", 60, 10),
        ("eleven months ago", 330, 10),
        ("1 month ago", 30, 10),
        ("one month ago", 30, 10),
        ("a month ago", 30, 7),
        ("last month", 30, 7),
        ("a year ago", 365, 30),
        ("last year", 365, 30),
        ("recently", 14, 14),
        ("two years ago", 730, 60),
        ("2 years ago", 730, 60),
        ("1 year ago", 365, 30),
        ("one year ago", 365, 30),
        ("ten years ago", 3650, 300),
        ("0 years ago", 0, 30),
        ("a couple years ago", 730, 60),
        ("a couple of years ago", 730, 60),
        ("a few years ago", 1095, 90),
        ("a couple weeks ago", 14, 5),
        ("a couple of weeks ago", 14, 5),
        ("a few weeks ago", 21, 5),
        ("half a year ago", 182, 20),
        ("a half-year ago", 182, 20),
        ("a few days ago", 3, 2),
        ("a couple months ago", 60, 10),
        ("a couple of months ago", 60, 10),
        ("a few months ago", 90, 15),
        # NOW is a Monday.
        ("last Monday", 7, 1),
        ("last Tuesday", 6, 1),
        ("last Wednesday", 5, 1),
        ("last Thursday", 4, 1),
        ("last Friday", 3, 1),
        ("last Saturday", 2, 1),
        ("last Sunday", 1, 1),
        ("last weekend", 1, 1),
        ("a day ago", 1, 1),
        ("last night", 1, 1),
        ("a fortnight ago", 14, 3),
        ("several days ago", 5, 2),
        ("several weeks ago", 35, 14),
        ("several months ago", 150, 60),
        ("several years ago", 1825, 730),
    ],
)
def test_each_row_by_hand(phrase: str, days: int, tolerance: int) -> None:
    """Each phrase of the table names its days and tolerance: alone, in a sentence, in capitals, between punctuation."""
    expected = TemporalExpression(days, tolerance)
    assert temporal_expression(phrase, NOW) == expected
    assert temporal_expression(f"What did I do {phrase} in Rome?", NOW) == expected
    assert temporal_expression(phrase.upper(), NOW) == temporal_expression(phrase.title(), NOW) == expected
    assert temporal_expression(f"({phrase}), really", NOW) == expected


@pytest.mark.parametrize("space", ["  ", "\t", "\n", "\r\n \t", "\u00a0", "\u3000"])
def test_any_white_space_parts_words(space: str) -> None:
    """Tabs, line ends and wide or unbreakable spaces part words as a space does."""
    assert temporal_expression("twenty five weeks ago".replace(" ", space), NOW) == TemporalExpression(175, 5)
    assert temporal_expression("a couple of days ago".replace(" ", space), NOW) == TemporalExpression(2, 2)


@pytest.mark.parametrize("hyphen", ["-", " - ", "\u2010", "\u2011"])
def test_hyphens_join_words_as_spaces_do(hyphen: str) -> None:
    """A phrase with hyphens is the phrase without them; an absolute date keeps its own."""
    for phrase in ("three weeks ago", "a fortnight ago", "last night", "twenty five days ago", "half a year ago"):
        joined = temporal_expression(f"my {phrase.replace(' ', hyphen)} note", NOW)
        assert joined == temporal_expression(phrase, NOW) is not None
    assert temporal_expression("the note of 2024-05-10", NOW) == TemporalExpression(10, 2)


@pytest.mark.parametrize(
    ("today", "days"), [(20, 1), (21, 2), (24, 5), (25, 6), (26, 1)], ids=["Mon", "Tue", "Fri", "Sat", "Sun"]
)
def test_the_last_weekend_is_its_latest_day(today: int, days: int) -> None:
    """The days to the latest Saturday or Sunday before today, in UTC, plus or minus one."""
    for hour in (0, 23):
        now = datetime(2024, 5, today, hour, 59, tzinfo=UTC).timestamp()
        assert temporal_expression("what happened last weekend?", now) == TemporalExpression(days, 1)


@pytest.mark.parametrize(
    ("query", "days", "tolerance"),
    [
        ("recently, or 3 days ago", 14, 14),
        ("yesterday or a couple of days ago", 1, 1),
        ("two weeks ago or yesterday", 14, 5),
        ("last week, not two weeks ago", 7, 3),
        ("two months ago or last week", 60, 10),
        ("on 7 May 2023, as you recently said", 14, 14),
        ("2 weeks ago, 3 weeks ago", 14, 5),
        ("half a year ago, no, last year", 182, 20),
        ("recently, last Friday", 14, 14),
        ("last Friday, a few days ago", 3, 1),
        ("105,000 days ago, or a hundred and five days ago, or 3 days ago, or last year", 3, 2),
    ],
)
def test_the_first_phrase_of_the_text_wins(query: str, days: int, tolerance: int) -> None:
    """Of several phrases the first in the text decides, and any of them before an absolute date."""
    assert temporal_expression(query, NOW) == TemporalExpression(days, tolerance)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "tomorrow",
        "yesterdays",
        "beyesterday",
        "yesterday_x",
        "last weekends",
        "last weeks",
        "several ago",
        "several nights ago",
        "at last yearly",
        "blast week",
        "a few",
        "last mondays",
        "last mon",
        "half a year",
        "a couple ago",
        "days ago",
        "3 days agog",
        "3 daysago",
        "3 days",
        "in 3 days",
        "three centuries ago",
        "most recent",
        "unrecently",
    ],
)
def test_what_is_no_time(query: str) -> None:
    """Parts of longer words, other units and what the table leaves out name no time."""
    assert temporal_expression(query, NOW) is None


@pytest.mark.parametrize(
    "query",
    [
        "12345 days ago",
        "1.5 days ago",
        "2,000 days ago",
        "two hundred days ago",
        "a hundred and five days ago",
        "one hundred five days ago",
        "two hundred and twenty-five days ago",
        "a thousand twenty five weeks ago",
        "three thousand and one months ago",
        "٣ days ago",
    ],
)
def test_a_number_that_is_not_read_whole_is_none(query: str) -> None:
    """Of a larger or broken number the last part isn't taken for the number."""
    assert temporal_expression(query, NOW) is None


def test_a_number_that_is_not_read_leaves_the_later_rows() -> None:
    """A later row still answers after a number too large for an earlier one."""
    assert temporal_expression("a hundred and five days ago, or last year", NOW) == TemporalExpression(365, 30)


@pytest.mark.parametrize(
    "query",
    [
        "3日前に何をしましたか",
        "昨日",
        "ماذا فعلت قبل ثلاثة أيام",
        "что я делал вчера",
    ],
)
def test_other_languages_name_no_relative_time(query: str) -> None:
    """A relative phrase of a language that no table has is no time, and no error."""
    assert temporal_expression(query, NOW) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a couple of ",
        "twenty-",
        "twenty five ",
        "one hundred and ",
        "thousand ",
        "9",
        "9 ",
        "9999 days ",
        "last ",
        "in the ",
        "7 of mayo ",
        "may the 777 of ",
        "sept. , ",
        "2023-",
        "2023-05-0",
        "during ",
        "winter of ",
        "a \n\t ",
        " ",
        "\x00",
        "\ud800",
        "ﬆ",
        "İ",
    ],
)
def test_hostile_repeats_cost_in_proportion(unit: str) -> None:
    """After long repeats of a phrase's beginning the last row is still read, and eight times the text costs nearer to
    eight times the work than to sixty-four.
    """
    short, long = (unit * (length // len(unit)) + " in 2022" for length in (5_000, 40_000))
    assert temporal_expression(short, NOW) == temporal_expression(long, NOW) == TemporalExpression(689, 120)
    # One time in three is enough: the processor may be another's meanwhile.
    assert any(work(long) < 8**1.5 * work(short) for _ in range(3))


@given(any_text)
def test_any_text_is_answered(query: str) -> None:
    """Any text, surrogates and control characters too, gives an anchor or None, twice the same."""
    found = temporal_expression(query, NOW)
    assert found is None or found.tolerance > 0
    assert temporal_expression(query, NOW) == found


def rows() -> list[tuple[TemporalExpression | None, str]]:
    """The table of phrases in sentences: the time that each names, and the sentence."""
    found: list[tuple[TemporalExpression | None, str]] = []
    for row in PHRASES.read_text().splitlines():
        if row.startswith("- "):
            found.append((None, row.removeprefix("- ")))
        elif not row.startswith("#"):
            days, tolerance, sentence = row.split(" ", 2)
            found.append((TemporalExpression(int(days), int(tolerance)), sentence))
    return found


@pytest.mark.parametrize(("expected", "sentence"), rows())
def test_times_in_sentences_of_three_languages(expected: TemporalExpression | None, sentence: str) -> None:
    """Each sentence of the table names its time: as written, in capitals, and with typographic apostrophes."""
    for written in (sentence, sentence.upper(), sentence.replace("'", "\u2019"), f"({sentence})"):
        assert temporal_expression(written, NOW) == expected


@given(any_text)
def test_case_says_nothing(query: str) -> None:
    """A text in capitals names the time that it names otherwise, ligatures and dotless i included."""
    assert temporal_expression(query.upper(), NOW) == temporal_expression(query, NOW)


@pytest.mark.parametrize("query", ["laﬆ week", "yeſterday", "three weeKs ago", "ﬁve days ago"])
def test_letters_that_case_folds_are_the_same_letters(query: str) -> None:
    """A ligature, a long s and the Kelvin sign read as the letters that their capitals are."""
    found = temporal_expression(query, NOW)
    assert found is not None
    assert found == temporal_expression(query.upper(), NOW)

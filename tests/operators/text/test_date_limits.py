"""Limits by dates in words: which are read in three languages, which dates are none, and what holds of every text."""

import re
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.date_limits import FIRST_WORDS
from operators.text.phrases import BEFORE, WORDS
from operators.text.wishes import read_wishes, take_away
from operators.text.words import words
from schemas.query import Limit, Wish
from tests.tiers import sized

NOW: Final = datetime(2026, 8, 12, 9, tzinfo=UTC).timestamp()
"""A Wednesday."""

SIGNS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def said(wish: Wish) -> str:
    """A limit in brief: its bounds, the unit of years, and its subject."""
    assert isinstance(wish, Limit)
    bounds = [f"{sign}{getattr(wish, name):.0f}" for name, sign in SIGNS.items() if getattr(wish, name) is not None]
    return " ".join([*bounds, *(["year"] if wish.unit == "year" else []), *wish.about])


READ: Final[list[tuple[str, str, str]]] = [
    ("slow dashboard tickets after 2026-06-01", "slow dashboard tickets", ">20260601 date"),
    ("tickets created after 2026-06-01", "tickets", ">20260601 created"),
    ("tickets created after 2026-06", "tickets", ">20260630 created"),
    ("tickets before March 2026", "tickets", "<20260301 date"),
    ("tickets created since May", "tickets", ">=20260501 created"),
    ("tickets created since September", "tickets", ">=20250901 created"),
    ("tickets created after June 1st", "tickets", ">20260601 created"),
    ("tickets created until 10 May 2026", "tickets", "<=20260510 created"),
    ("tickets created on or before 10 May 2026", "tickets", "<=20260510 created"),
    ("tickets created from 2026-06-01 on", "tickets", ">=20260601 created"),
    ("homes listed in March 2026 with garden", "homes with garden", ">=20260301 <=20260331 created"),
    ("homes added since May", "homes", ">=20260501 created"),
    ("homes posted since May", "homes", ">=20260501 published"),
    ("papers published in 2025", "papers", ">=2025 <=2025 year published"),
    ("papers published in May 2025", "papers", ">=20250501 <=20250531 published"),
    ("papers released in February 2024", "papers", ">=20240201 <=20240229 published"),
    ("tickets created since 2024", "tickets", ">=2024 year created"),
    ("docs updated last week", "docs", ">=20260803 <=20260809 updated"),
    ("docs last updated yesterday", "docs", ">=20260811 <=20260811 updated"),
    ("docs updated this month", "docs", ">=20260801 <=20260831 updated"),
    ("docs updated in the last 7 days", "docs", ">=20260805 <=20260812 updated"),
    ("docs updated 3 days ago", "docs", ">=20260807 <=20260811 updated"),
    ("docs updated since Monday", "docs", ">=20260810 updated"),
    ("docs updated last monday", "docs", ">=20260810 <=20260810 updated"),
    ("docs updated last weekend", "docs", ">=20260808 <=20260809 updated"),
    ("docs modified last year", "docs", ">=20250101 <=20251231 updated"),
    ("tickets from last week", "tickets", ">=20260803 <=20260809 date"),
    ("tickets created between 2026-05-01 and 2026-05-31", "tickets", ">=20260501 <=20260531 created"),
    ("tickets created from November to March 2026", "tickets", ">=20251101 <=20260331 created"),
    ("tickets between March and May 2026", "tickets", ">=20260301 <=20260531 date"),
    ("which tickets were created since May", "which tickets were", ">=20260501 created"),
    ("tickets closed after 2026-06-01", "tickets closed", ">20260601 date"),
    ("tickets older than 2026-01-01", "tickets", "<20260101 date"),
    ("invoices due by June 1, 2027", "invoices", "<=20270601 due"),
    ("invoices due this week", "invoices", ">=20260810 <=20260816 due"),
    ("letters dated 1862-09-17", "letters", ">=18620917 <=18620917 date"),
    ("Tickets erstellt seit Mai", "Tickets", ">=20260501 created"),
    ("Tickets, seit Mai erstellt", "Tickets", ">=20260501 created"),
    ("Tickets vor dem 1. Juni 2026", "Tickets", "<20260601 date"),
    ("Tickets nach dem 01.06.2026", "Tickets", ">20260601 date"),
    ("Tickets vor dem 1. Juni 2026 erstellt", "Tickets", "<20260601 created"),
    ("Artikel im Mai 2025 veröffentlicht", "Artikel", ">=20250501 <=20250531 published"),
    ("Artikel erschienen im Jahr 2025", "Artikel", ">=2025 <=2025 year published"),
    ("Seiten letzte Woche geändert", "Seiten", ">=20260803 <=20260809 updated"),
    ("Seiten gestern aktualisiert", "Seiten", ">=20260811 <=20260811 updated"),
    ("Seiten vor 3 Tagen geändert", "Seiten", ">=20260807 <=20260811 updated"),
    ("Fotos von letzter Woche", "Fotos", ">=20260803 <=20260809 date"),
    ("Tickets zwischen dem 1. Mai 2026 und dem 31. Mai 2026", "Tickets", ">=20260501 <=20260531 date"),
    ("Rechnungen fällig bis 30. Juni 2027", "Rechnungen", "<=20270630 due"),
    ("billets créés depuis mars", "billets", ">=20260301 created"),
    ("billets avant le 1er juin 2026", "billets", "<20260601 date"),
    ("articles publiés en 2025", "articles", ">=2025 <=2025 year published"),
    ("articles publiés après mars 2025", "articles", ">20250331 published"),
    ("articles parus entre mars et mai 2025", "articles", ">=20250301 <=20250531 published"),
    ("pages mises à jour la semaine dernière", "pages", ">=20260803 <=20260809 updated"),
    ("pages mises à jour depuis mai", "pages", ">=20260501 updated"),
    ("photos de la semaine dernière", "photos", ">=20260803 <=20260809 date"),
    ("billetes después de 2026-06-01", "billetes", ">20260601 date"),
    ("biglietti prima del 2026-06-01", "biglietti", "<20260601 date"),
    ("informes created 2026-06-01", "informes", ">=20260601 <=20260601 created"),
]
"""A text, its rest, and the limit that is read from it."""

NONE: Final = [
    "what did Anna do in May 2023?",
    "what did Anna do after May 2023",
    "What did Maria participate in last weekend before April 10, 2023?",
    "Where was Tim in the week before 16 November 2023?",
    "How did John overcome his ankle injury from last season?",
    "what happened after 2026-06-01",
    "what changed since May",
    "when was it published in 2021",
    "is the law updated in May 2023 still valid",
    "who was mayor since 2021",
    "mayor since 2021",
    "Bürgermeister seit Mai 2021",
    "maire depuis mars 2021",
    "Kopfschmerzen seit Mai",
    "tickets since May",
    "books after May",
    "letter from May",
    "news of 2021",
    "war in May 1945",
    "photos in May and June 2026",
    "a router from 2017",
    "firmware update in May 2026",
    "coupon valid until 2026-06-01",
    "meetings not before 2026-06-01",
    "the situation was calm before March 2022",
    "photos before 10 May 2024 sunset",
    "invoices due in March",
    "opened 2000 doors",
    "published 300 pages",
    "created by Anna",
    "created after 2026-02-30",
    "created after 31 June 2026",
    "created after 06/01/2026",
    "tickets 2026-06-01",
    "order 2026-06-01-17",
    "Rolling Stones seit gestern",
    '"created after 2026-06-01"',
]
"""Events, questions, things that are named by a date, and dates that the calendar does not have."""


@pytest.mark.parametrize("case", READ, ids=[text for text, *_ in READ])
def test_limits_by_dates_are_read(case: tuple[str, str, str]) -> None:
    """By the words of three languages, by figures in others, and taken away."""
    text, rest, wish = case
    read = read_wishes(text, now=NOW)
    assert (read.rest, [said(each) for each in read.wishes]) == (rest, [wish])


@pytest.mark.parametrize("text", NONE)
def test_other_dates_are_left_alone(text: str) -> None:
    """To the letter."""
    assert read_wishes(text, now=NOW) == (text, ())


@pytest.mark.parametrize("text", [text for text, *_ in READ])
def test_without_a_clock_only_full_dates_are_read(text: str) -> None:
    """A date of its own means the same at any time, and one that is relative nothing without a now."""
    wishes = read_wishes(text).wishes
    assert wishes == () or wishes == read_wishes(text, now=NOW).wishes == read_wishes(text, now=0.0).wishes


PARTS: Final = sorted(
    {
        *FIRST_WORDS,
        *BEFORE.firsts,
        *WORDS["ranged"],
        *(
            "2026-06-01",
            "1.6.2026",
            "2025",
            "May",
            "März",
            "1er",
            "mars",
            "June 1st,",
            "last week",
            "gestern",
            "3",
            "ago",
        ),
        *("the", "dem", "le", "tickets", "?", ".", "-", "und", "9999-12-31", "0001-01-01", "31", "29 February", "in"),
    }
)
TEXTS: Final = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PARTS), max_size=12).map(" ".join))
TIMES: Final = st.floats(-62_135_596_800, 253_402_300_799)
"""Unix seconds within the years 1 to 9999."""


@given(TEXTS, TIMES)
def test_reading_never_fails(text: str, now: float) -> None:
    """Each word is in the rest or in a wish, bounds are days of the calendar, and what comes back is read alike."""
    rest, wishes = read_wishes(text, now=now)
    assert take_away(text, wishes) == rest
    if rest != text:
        together = sorted([*words(rest), *(word for each in wishes for word in words(each.words))])
        assert together == sorted(words(text))
    for each in wishes:
        if isinstance(each, Limit) and each.unit == "date":
            days = [day for name in SIGNS if (day := getattr(each, name)) is not None]
            assert all(datetime.strptime(f"{day:08.0f}", "%Y%m%d") for day in days)


@given(TEXTS, TIMES)
def test_the_day_alone_counts(text: str, now: float) -> None:
    """Two times of one day, by UTC, read a text alike."""
    assert read_wishes(text, now=now) == read_wishes(text, now=now // 86_400 * 86_400)


@pytest.mark.parametrize(
    "unit",
    ["created since ", "from 1 ", "between May and ", "de la ", "2026-06-01 ", "is from last week ", "created in the "],
)
def test_long_texts_are_read(unit: str) -> None:
    """In a time that grows with them, and at most 16 wishes."""
    assert len(read_wishes(unit * sized(500, nightly=20_000), now=NOW).wishes) <= 16


def test_figures_of_a_date_are_no_number() -> None:
    """ "After 2026-06-01" is not after 2026, whatever stands there."""
    for text in ("thing after 2026-06-01", "what is after 2026-06-01", "thing since 2026-06", "thing under 1.6.2026"):
        wishes = read_wishes(text, now=NOW).wishes
        assert not [each for each in wishes if isinstance(each, Limit) and each.unit != "date"], text
    assert re.fullmatch(r".*20260601.*", str(read_wishes("thing after 2026-06-01").wishes))

"""Formats of numbers, booleans and times, as exports write them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.mapping.formats import (
    PATTERNS,
    describe_times,
    read_value,
    recognise_list,
    recognise_number,
    recognise_time,
    recognise_times,
)
from schemas.fields import unix_seconds


@pytest.mark.parametrize(
    ("texts", "form", "first"),
    [
        (["12", "-3"], "integer", 12),
        (["1299.50", "1,299.00"], "decimal", 1299.5),
        (["12,90", "1.299,00 €"], "decimal_comma", 12.9),
        (["ja", "nein"], "boolean", True),
        (["007", "123"], None, None),
        (["12,90", "on request"], None, None),
    ],
)
def test_numbers_are_recognised_and_read(texts: list[str], form: str | None, first: object) -> None:
    """A format is one that all texts have; leading zeros would be lost."""
    assert recognise_number(texts) == form
    if form is not None:
        assert read_value(form, texts[0]) == first


@pytest.mark.parametrize(
    ("texts", "sign", "first"),
    [
        (["Go|gRPC", "Go|SQL", "SQL| gRPC |"], "|", ["Go", "gRPC"]),
        (["Reset | Help", "Paper jam | Help", "Lamps | Help", "Lamps | Setup | Help"], None, None),
        (["red; blue", "blue", "red;green;blue", "green; red"], ";", ["red", "blue"]),
        (["tls, vpn", "vpn", "vpn, tls, dns", "dns, tls"], ",", ["tls", "vpn"]),
        (["Paris, France", "Lyon, France", "Paris, France"], None, None),
        (["2,5 kg", "2,5 kg, 3 kg", "2,5 kg"], None, None),
        (["a|b", "c|d"], None, None),
        ([f"{'x' * 80}|y"] * 3, None, None),
    ],
)
def test_lists_are_recognised_and_read(texts: list[str], sign: str | None, first: object) -> None:
    """By short values that others have, too; commas alone tell less than bars."""
    assert recognise_list(texts) == sign
    if sign is not None:
        assert read_value(sign, texts[0]) == first
        assert read_value(sign, f" {sign} ") is None


@pytest.mark.parametrize(
    ("values", "form", "first"),
    [
        (["2024-01-31T10:00:00Z"], "", None),
        (["2024-01-31 10:00:00", "0000-00-00 00:00:00"], "iso_utc", "2024-01-31T10:00:00.000Z"),
        (["31.12.2024"], "%d.%m.%Y", "2024-12-31T00:00:00.000Z"),
        (["12/31/2024 01:05 PM"], "%m/%d/%Y %I:%M %p", "2024-12-31T13:05:00.000Z"),
        (["Tue, 03 Jun 2008 11:05:30 GMT"], "rfc2822", "2008-06-03T11:05:30.000Z"),
        (["5. Oktober 2026", "Montag, 3. März 2025"], "words", "2026-10-05T00:00:00.000Z"),
        (["1er juin 2020 14:30", "3 août 2021"], "words", "2020-06-01T14:30:00.000Z"),
        (["Sept. 5, 2026, 9:05", "on 5 Oct 2026"], "words", "2026-09-05T09:05:00.000Z"),
        (["1503435956.000247", "1503499956.1"], "unix", "2017-08-22T21:05:56.000Z"),
        ([1700000000123], "unix_ms", "2023-11-14T22:13:20.123Z"),
        ([1700000000, 1710000000], "", None),
        ([1700000000, 0, 1710000000], "unix", "2023-11-14T22:13:20.000Z"),
        ([1700000000123, "0000-00-00", "1710000000000"], "unix_ms", "2023-11-14T22:13:20.123Z"),
    ],
)
def test_times_are_recognised_and_read(values: list[object], form: str, first: str | None) -> None:
    """A time without an offset is in UTC; "" is rankstream's own format, which is not read again."""
    assert recognise_time(values) == form
    if form:
        assert read_value(form, values[0]) == first


@pytest.mark.parametrize(
    "values",
    [
        ["reset the router"],
        ["May 2026", "March 2025"],
        ["5 May 2026 in Rome", "7 May 2026 at sea"],
        ["Oktober", "31. Juni 2026"],
        [1, 2, 3],
        list(range(1_000_000_000, 1_000_000_100)),
        [1100000000006, 1100000000013, 1100000000020],
        [2012345678901],
        [True],
    ],
)
def test_other_numbers_are_no_times(values: list[object]) -> None:
    """Counters, and the numbers of articles: with a check digit, or of the range within shops."""
    assert recognise_time(values) is None


@pytest.mark.parametrize(("form", "value"), [("iso_utc", "0000-00-00"), ("unix_ms", 0), ("%d.%m.%Y", " ")])
def test_a_date_for_none_is_no_value(form: str, value: object) -> None:
    """As databases write it."""
    assert read_value(form, value) is None


@given(st.floats(-1e9, 1e9).map(lambda number: round(number, 2)))
def test_a_number_comes_back_from_both_spellings(number: float) -> None:
    """With points or commas, and with groups of three digits."""
    english = f"{number:,.2f}"
    assert read_value("decimal", english) == pytest.approx(number)
    assert read_value("decimal_comma", english.translate({44: ".", 46: ","})) == pytest.approx(number)


@given(st.datetimes(datetime(2001, 1, 1), datetime(2030, 1, 1)))
def test_a_time_comes_back_from_each_unit(moment: datetime) -> None:
    """Seconds, milliseconds and microseconds are told apart by their size."""
    seconds = int(moment.replace(tzinfo=UTC).timestamp())
    assert recognise_time([seconds, seconds + 86_400]) == ""
    for form, factor in (("unix_ms", 1000), ("unix_us", 1_000_000)):
        assert unix_seconds(read_value(form, seconds * factor)) == seconds


@pytest.mark.parametrize(
    ("values", "forms"),
    [
        (["2026-12-16T08:26:00Z", "24.08.2025 08:27"], ["iso_utc", "%d.%m.%Y %H:%M"]),
        (["03.04.2026", "0000-00-00", "2026-04-03"], ["%d.%m.%Y", "iso_utc"]),
        (["2026-04-03", "03/04/2026", "31/12/2026"], ["iso_utc", "%d/%m/%Y"]),
        (["2026-04-03", "03/04/2026", "12/31/2026"], ["iso_utc", "%m/%d/%Y"]),
        (["2026-04-03", "04/04/2026"], ["iso_utc", "%d/%m/%Y"]),
        (["Tue, 03 Jun 2008 11:05:30 GMT", "3. Juni", "2008-06-03"], None),
        (["2024-01-31T10:00:00Z", 1500000000, 1700000000], ["iso_utc", "unix"]),
        (["2024-01-31", "2024-01-31 10:00"], "iso_utc"),
        (["03.04.2026", "03/04/2026"], None),
        (["31/12/2026", "12/31/2026", "2026-04-03"], None),
        (["S", "M", "36"], None),
    ],
)
def test_a_column_may_have_times_of_several_formats(values: list[object], forms: object) -> None:
    """Unless a value has two readings: days and months that nothing tells apart."""
    assert recognise_times(values) == forms


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["2026-01-01", "2026-01-02", "soon"], "2 of 3 values read as times, and others do not, such as 'soon'"),
        (["2026-01-01", "03/04/2026"], "days and months cannot be told apart, such as in '03/04/2026'"),
        (["31/12/2026", "12/31/2026"], "days and months cannot be told apart, such as in '12/31/2026'"),
        (["Lamp", "Door 2 of 3", "Key", "Tap", "Pipe", "2026-01-01"], None),
        (["1,2 kg", "4 x 12 mm", "IP 65.10"], None),
    ],
)
def test_a_column_of_which_a_part_is_times_is_told(values: list[object], reason: str | None) -> None:
    """With the first value that is none."""
    assert describe_times(values) == reason


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["31.12.2024"] * 30 + ["n/a"], "%d.%m.%Y"),
        (["03/04/2026"] * 30 + ["04/30/2026"], "%m/%d/%Y"),
        (["2026-12-16"] * 30 + ["16.12.2026"], ["iso_utc", "%d.%m.%Y"]),
        (["2026-12-16"] * 30 + ["03/04/2026"], "iso_utc"),
        (["2026-12-16"] * 10 + ["31.12.2026"] * 10 + ["n/a"], ["iso_utc", "%d.%m.%Y"]),
        (["2026-12-16"] * 9 + ["n/a"], None),
    ],
    ids=["none", "the format of most", "two formats", "two readings", "two formats and none", "a tenth"],
)
def test_nearly_all_times_decide_their_format(values: list[object], form: object) -> None:
    """Of several formats that nearly all are of, the one that leaves the fewest others."""
    assert recognise_times(values) == form


@given(st.lists(st.integers(0, 9999), min_size=20, max_size=60), st.text(min_size=1), st.integers(0, 19))
def test_an_odd_text_leaves_a_number_s_format(numbers: list[int], text: str, place: int) -> None:
    """Whatever it is, unless it is a number with leading zeros, which all would lose."""
    texts = [*map(str, numbers)]
    texts.insert(place, text)
    wanted = None if text.isascii() and text[0] == "0" and text.isdigit() and len(text) > 1 else "integer"
    assert recognise_number(texts) in {wanted, wanted and "decimal", wanted and "decimal_comma"}


WRITTEN = [each for each in PATTERNS if "%y" not in each and "%m/%d" not in each]


@given(
    st.lists(
        st.tuples(st.datetimes(datetime(2001, 1, 1), datetime(2030, 1, 1)), st.integers(0, 2)), min_size=4, max_size=12
    ),
    st.lists(st.sampled_from(WRITTEN), min_size=3, max_size=3),
)
def test_times_of_several_patterns_are_read_as_written(
    moments: list[tuple[datetime, int]], patterns: list[str]
) -> None:
    """A column of several patterns is one of these times, or of none."""
    texts = [(moment.strftime(patterns[of]), patterns[of]) for moment, of in moments]
    forms = recognise_times([text for text, _ in texts])
    for text, pattern in texts if forms is not None else ():
        wanted = datetime.strptime(text, pattern).replace(tzinfo=UTC)
        assert unix_seconds(read_value(forms or "", text)) == wanted.timestamp()

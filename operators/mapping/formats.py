"""Formats: the forms in which other programs write numbers, booleans and times; read, and recognised by samples.

Rules:
- A format is recognised if nearly all samples are of it, and of several the one that most are of. The others stay as
  they are.
- Texts are lists if signs part short values that others have, too. Commas part words alone, and not always as many:
  2,5 is a number, and "Paris, France" a place.
- A column may have times of several formats, if no value has two readings. 3/4/2026 has, unless a day over 12 tells.
- A time comes out as RFC 3339, and is in UTC where it has no offset.
- A date that a database writes for "none", such as 0000-00-00 or the second 0, is no value.
- 13 digits may be a time in milliseconds or the number of an article (EAN), and ten digits one in seconds or a number
  that counts up. So check digits, and numbers that follow one another closely, are no times.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import filterfalse, islice, product
from math import inf
from typing import Any, Final

from operators.text.dates import DAY, EPOCH
from operators.text.periods import period_at
from operators.text.phrases import simplify
from schemas.fields import read_time, rfc3339, unix_seconds
from schemas.settings.delivery import LISTS

_SIGN: Final = r"[+-]?"
_CURRENCY: Final = r"(?:[$€£¥]|EUR|USD|GBP|CHF)?"


def _number(group: str, point: str) -> re.Pattern[str]:
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)"
    return re.compile(rf"{_CURRENCY}\s*({_SIGN}{whole}(?:{point}\d+)?|{_SIGN}{point}\d+)\s*{_CURRENCY}", re.ASCII)


_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})", re.ASCII)
_DECIMAL: Final = _number("[, ' ]", r"\.")
_COMMA: Final = _number("[. ' ]", ",")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "y", "ja", "oui", "sí", "si", "on", "t"), True),
    **dict.fromkeys(("false", "no", "n", "nein", "non", "off", "f"), False),
}
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:[Zz]|[+-]\d\d(?::?\d\d)?))?)?")
_NO_DATE: Final = re.compile(r"0000-00-00.*")

_UNITS: Final = {"unix": 1.0, "unix_ms": 1e-3, "unix_us": 1e-6}
_WRITTEN: Final = {
    **dict.fromkeys(_UNITS, re.compile(r"[+-]?(?:0|[1-9]\d{0,17})(?:\.\d+)?", re.ASCII)),
    "rfc2822": re.compile(r"(?:\w{,3},|\d).*(?<![AP]M)", re.IGNORECASE | re.DOTALL),
}
"""Texts that may have these formats: their readers take more, and pass over what they do not know."""
_ANYHOW: Final = re.compile("(?s:.*)")
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
_LAST: Final = datetime(2033, 1, 1, tzinfo=UTC).timestamp()
"""Numbers of times are of these years: milliseconds from 2e12 on are the numbers of articles within shops."""
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
_CLOSE: Final = 1000
"""Mean distance of numbers, in the order of their size, below which they count things and are no seconds."""

_DATES: Final = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y"),
)
_CLOCKS: Final = ("", " %H:%M:%S", " %H:%M", ", %H:%M", ", %H:%M:%S", " %I:%M %p", ", %I:%M %p", " %I:%M:%S %p")
PATTERNS: Final = tuple(date + clock for clock, date in product(_CLOCKS, _DATES))
"""Patterns of times that are recognised; of two that fit the first: where no day is over 12, days come first."""

_TIMES: Final = ("iso_utc", *_UNITS, *PATTERNS, "rfc2822", "words")

_CLOCK: Final = re.compile(r"(?:,? (?:um |at |a )?([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?: uhr)?)?")

NEARLY_ALL: Final = 0.95
"""Share of the values of a field that decides what it is; the others are odd ones, as one among hundreds is."""

Form = str | Sequence[str]
"""A format, or those of a column that has several: the first that reads a value counts."""

_LONGEST: Final = 64
"""Characters of a time, and of a value in a list, at most."""

UNREADABLE: Final = (AttributeError, OverflowError, TypeError, ValueError)
"""Errors of a value that is not of a format."""


def read_value(form: Form, value: Any) -> Any:
    """The value that the text or number stands for in this format; None if it stands for no value.

    Raises one of UNREADABLE for a value that is not of it.
    """
    if not isinstance(form, str):
        *others, form = form
        for each in others:
            with suppress(*UNREADABLE):
                return read_value(each, value)
    if isinstance(value, str):
        value = value.strip()
        if not value or (form not in _READERS and _NO_DATE.fullmatch(value)):
            return None
    if form in _READERS:
        return _READERS[form](value)
    if form in LISTS:
        return split_list(form, value) or None
    return None if form in _UNITS and value in (0, "0") else rfc3339(_seconds(form, value))


def _read_integer(value: Any) -> int:
    if type(value) is int or _INTEGER.fullmatch(value):
        return int(value)
    raise ValueError("not a whole number")


def _reader(pattern: re.Pattern[str], point: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if type(value) in (int, float):
            return float(value)
        if found := pattern.fullmatch(value):
            whole, _, rest = found[1].partition(point)
            return float(f"{re.sub('[^0-9+-]', '', whole) or '0'}.{rest or '0'}")
        raise ValueError("not a number")

    return read


def _read_boolean(value: Any) -> bool:
    if value is True or value is False:
        return value
    if (found := _BOOLEANS.get(value.lower())) is None:
        raise ValueError("neither true nor false")
    return found


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "integer": _read_integer,
    "decimal": _reader(_DECIMAL, "."),
    "decimal_comma": _reader(_COMMA, ","),
    "boolean": _read_boolean,
}
NUMBERS: Final = ("integer", "decimal", "decimal_comma")


def _seconds(form: str, value: Any) -> float:
    if form in _UNITS:
        return unix_seconds(value if isinstance(value, bool) else float(value) * _UNITS[form])
    if form == "iso_utc":
        if not _ISO.fullmatch(value):
            raise ValueError("not a time of ISO 8601")
        return read_time(value.replace(",", ".")).timestamp()
    if form == "words":
        return _read_words(value)
    moment = parsedate_to_datetime(value) if form == "rfc2822" else datetime.strptime(value, form)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _read_words(value: str) -> float:
    """Unix seconds of a day whose month is a word in English, German or French, and of a time of that day behind it."""
    text = " ".join(simplify(value[: _LONGEST + 1]).split())
    first = re.search(r"\d", text) if re.search(r"[a-z]{3}", text) else None
    starts = (0, first.start()) if first is not None else ()
    found = next(filter(None, (period_at(text, at, None) for at in starts)), None)
    clock = _CLOCK.fullmatch(text, found.end) if found is not None and found.precision == "day" else None
    if found is None or clock is None:
        raise ValueError("not a day in words")
    hours, minutes, seconds = (int(each or 0) for each in clock.groups())
    return (found.first - EPOCH) * DAY + hours * 3600 + minutes * 60 + seconds


def read_seconds(form: Form, value: Any) -> float | None:
    """Unix seconds of a time in this format, "" for rankstream's own; None if it is none."""
    try:
        found = read_value(form, value) if form else value
        return unix_seconds(found) if found is not None else None
    except UNREADABLE:
        return None


def is_of(form: Form, value: Any) -> bool:
    """True if the value can be read in this format, "" for rankstream's own times."""
    try:
        read_value(form, value) if form else unix_seconds(value)
    except UNREADABLE:
        return False
    return True


def few(total: int) -> int:
    """The number of odd values that so many may have, at most."""
    return int(total * (1 - NEARLY_ALL))


def _count_odd(form: Form, values: Sequence[Any]) -> int:
    """The number of values that are not of the format; where they are more than a few, not all are counted."""
    return sum(1 for _ in islice(filterfalse(partial(is_of, form), values), few(len(values)) + 1))


def _find_form(forms: Iterable[str], values: Sequence[Any]) -> str | None:
    """The first of the formats that most values are of, if these are nearly all."""
    best, fewest = None, few(len(values)) + 1
    for form in forms:
        if fewest and (odd := _count_odd(form, values)) < fewest and (form in _READERS or _are_times(form, values)):
            best, fewest = form, odd
    return best


def recognise_times(values: Sequence[Any]) -> Form | None:
    """The format of these times as `recognise_time` has it, or the formats of a column that has several."""
    one, groups = recognise_time(values), _by_shape(values)
    if len(groups) < 2 or (one is not None and not _count_odd(one, values)):
        return one
    found = [(_recognise_group(group), group) for group in groups]
    several = [*dict.fromkeys(form for form, _ in found if form is not None)]
    odd = sum(len(group) for form, group in found if form is None)
    readings = ({read_seconds(form, value) for form in several} - {None} for value in values)
    if not several or odd > few(sum(map(len, groups))) or any(len(each) > 1 for each in readings):
        return one
    return several if len(several) > 1 else several[0]


def describe_times(values: Sequence[Any]) -> str | None:
    """The reason why values are no times though a fifth of them read as such; None if fewer do."""
    groups = [each for each in _by_shape(values) if re.match(r"\D*\d+\D+\d", str(each[0]))]
    times = [value for group in groups if recognise_time(group[:1]) is not None for value in group]
    if not times or len(times) < len(values) / 5:
        return None
    other = next((value for value in values if value not in times), None)
    if other is None:
        return f"days and months cannot be told apart, such as in {times[-1]!r}"
    return f"{len(times)} of {len(values)} values read as times, and others do not, such as {other!r:.60}"


def _by_shape(values: Sequence[Any]) -> list[list[Any]]:
    """Values that one format may read: texts with digits and letters at the same places, and numbers."""
    groups: dict[object, list[Any]] = {}
    for value in values:
        text = value.strip()[:_LONGEST] if isinstance(value, str) else ""
        shape = re.sub(r"[^\W\d_]", "a", re.sub(r"\d\d?", "0", text)) or type(value)
        if not _NO_DATE.fullmatch(text):
            groups.setdefault(shape, []).append(value)
    return [*groups.values()]


def _recognise_group(values: Sequence[Any]) -> str | None:
    """The format of times of one shape; None if there is none, or days and months cannot be told apart."""
    form = _find_form(_TIMES, values)
    swapped = re.sub("%([dm])/%([dm])", r"%\2/%\1", form or "")
    ours, others = ([read_seconds(each, value) for value in values] for each in (form or "", swapped))
    told = any(theirs is None and our is not None for our, theirs in zip(ours, others, strict=True))
    return form if told or ours == others else None


def recognise_time(values: Sequence[Any]) -> str | None:
    """The format of these times; "" where they are as rankstream has them, None where they are no times."""
    form = _find_form(_TIMES, values)
    return "" if form in {"iso_utc", "unix"} and all(values) and not _count_odd("", values) else form


def _are_times(form: str, values: Sequence[Any]) -> bool:
    """True if the values of this format are times of likely years, which count nothing."""
    told = [(value, each) for value in values if (each := read_seconds(form, value)) is not None]
    first, last = (_FIRST, _LAST) if form in _UNITS else (-_LATEST, _LATEST) if form in PATTERNS else (-inf, inf)
    written = _WRITTEN.get(form, _ANYHOW)
    odd = sum(not (first <= each < last and written.fullmatch(str(value))) for value, each in told)
    if not told or odd > few(len(told)):
        return False
    if form == "unix":
        times = [each for _, each in told]
        return (max(times) - min(times)) / len(times) >= _CLOSE
    return form != "unix_ms" or sum(_has_check_digit(int(value)) for value, _ in told) <= 0.5 * len(told)


def _has_check_digit(number: int) -> bool:
    """True if the last digit is the check digit of a GTIN (EAN, UPC)."""
    digits = [int(digit) for digit in reversed(str(number))]
    return len(digits) in {8, 12, 13, 14} and sum(digits[0::2], 3 * sum(digits[1::2])) % 10 == 0


def split_list(sign: str, text: str) -> list[str]:
    """The values between these signs."""
    return [value for part in text.split(sign) if (value := part.strip())]


def recognise_list(texts: Sequence[str]) -> str | None:
    """The sign between the values of these texts; None if they are no lists."""
    for sign in LISTS:
        lists = [split_list(sign, text) for text in texts]
        counts = Counter(value for each in lists for value in each)
        # In titles such as "Reset the router | Help" each has a part of its own.
        shared = sum(all(counts[value] > 1 for value in each) for each in lists)
        several = sum(len(each) > 1 for each in lists)
        if 2 * min(shared, several) < len(lists) or max(map(len, counts), default=0) > _LONGEST:
            continue
        if sign == "|" or (len({*map(len, lists)}) > 1 and all(value[0].isalpha() for value in counts)):
            return sign
    return None


def recognise_number(values: Sequence[Any]) -> str | None:
    """The format of values that nearly all are numbers or booleans; None if they are not.

    Digits with leading zeros are no numbers: they would come back without.
    """
    if any(isinstance(value, str) and re.fullmatch(r"0\d+", value) for value in values):
        return None
    return _find_form(_READERS, values)

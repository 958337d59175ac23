"""Times in words: the time that a query names, in English, German or French.

Rules:
- A relative time ("three weeks ago", "vorgestern", "la semaine dernière") goes before a date ("on 7 May 2023"), and the
  first one of the text counts.
- Days, tolerances and phrases are the tables below; a further language is further phrases. A rule is a row of words:
  `a|b` is either, `a?` may be missing, and `{slot}` is a phrase of that slot. Words have no accents and no capitals,
  and hyphens are spaces.
- A time that lasts until now ("in the past week") is its middle, with half of it as the tolerance.
- The time taken is linear in the length of the text.

Source: memini's `search.RegexAnchorExtractor` for days, weeks, months and one year ago, last week, month and year,
yesterday and recently. The rest is own.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import product
from typing import Any, Final, NamedTuple

from operators.text.dates import DAY, NAMES, NamedTime, TemporalExpression, named_date, today_of
from operators.text.folding import fold_accents
from operators.text.measures import NUMBER_WORDS
from operators.text.phrases import read_rows


class _Unit(NamedTuple):
    """A unit of time: its days, and the tolerance of one ("a week"), some ("2 weeks"), a few and several of it.

    `grows`: the tolerances of some and a few are for each of them.
    """

    name: str
    days: float
    one: int
    some: int
    few: int
    several: int
    grows: bool = False


class _Count(NamedTuple):
    """A number of units, and which of a unit's tolerances it has."""

    number: float
    tolerance: str


_Slot = Mapping[tuple[str, ...], Any]
"""Phrases, in words, and the meaning of each."""


def _slot(rows: str, read: Callable[[str], Any]) -> dict[tuple[str, ...], Any]:
    """The phrases of a table with rows `meaning: phrase|phrase`."""
    return {tuple(each.split()): read(meaning) for meaning, phrases in read_rows(rows) for each in phrases.split("|")}


_UNITS: Final = {
    unit.name: unit
    for unit in (
        _Unit("hour", 1 / 24, 1, 1, 1, 1),
        _Unit("day", 1, 1, 2, 2, 2),
        _Unit("week", 7, 3, 5, 5, 14),
        _Unit("fortnight", 14, 3, 5, 5, 14),
        _Unit("month", 30, 7, 10, 15, 60),
        _Unit("quarter", 91, 45, 45, 45, 90),
        _Unit("year", 365, 30, 30, 30, 730, grows=True),
        _Unit("decade", 3650, 365, 365, 365, 3650, grows=True),
    )
}
_NAMES: Final = """
hour: hour|minute|stunde|heure; hours|minutes|stunden|minuten|heures
day: day|tag|tages|jour; days|tage|tagen|jours
week: week|woche|semaine; weeks|wochen|semaines
fortnight: fortnight|quinzaine; fortnights
month: month|monat|monats|mois; months|monate|monaten|mois
quarter: quarter|quartal|trimestre; quarters|quartale|quartalen|trimestres
year: year|jahr|jahres|an|annee; years|jahre|jahren|ans|annees
decade: decade|jahrzehnt|decennie; decades|jahrzehnte|jahrzehnten|decennies
"""
"""Names of each unit, of one and of many."""

_WEEKDAYS: Final = """
0: monday|montag|lundi
1: tuesday|dienstag|mardi
2: wednesday|mittwoch|mercredi
3: thursday|donnerstag|jeudi
4: friday|freitag|vendredi
5: saturday|samstag|sonnabend|samedi
6: sunday|sonntag|dimanche
5 6: weekend|wochenende|week end
"""
_AMOUNTS: Final = """
1 one: a|an|ein|eine|einen|einem|einer|un|une
2 some: a couple|couple|a couple of|couple of
3 few: a few|few|ein paar|paar|einige|einigen|wenigen|quelques
5 several: several|mehrere|mehreren|plusieurs
0.5 half: half a|half an|a half|ein halbes|einem halben|einer halben|une demi
1.5 some: anderthalb|eineinhalb|one and a half
2.5 some: zweieinhalb|two and a half
10 some: une dizaine de|une dizaine d '
15 some: une quinzaine de
100 some: a hundred|one hundred|hundert|einhundert|cent
"""
_TENS: Final = (
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
    "vingt trente quarante cinquante soixante soixante quatre.vingt quatre.vingt",
)
_LARGE: Final = frozenset({"hundred", "thousand", "hundert", "tausend", "cent", "cents", "mille"})
_AND: Final = frozenset({"and", "und", "et"})


def _numbers() -> Iterator[tuple[str, int]]:
    """The number words from zero to ninety-nine."""
    small, klein, petits = (words.split() for words in NUMBER_WORDS)
    tens, zehner, dizaines = (words.split() for words in _TENS)
    for number in range(100):
        ten, one = divmod(number, 10)
        if number < 20:
            yield from ((words[number], number) for words in (small, klein, petits))
            continue
        yield (f"{tens[ten - 2]} {small[one]}" if one else tens[ten - 2]), number
        yield (f"{'ein' if one == 1 else klein[one]}und{zehner[ten - 2]}" if one else zehner[ten - 2]), number
        rest = one + (10 if ten in (7, 9) else 0)
        joint = " et " if rest in (1, 11) and ten < 8 else " "
        yield f"{dizaines[ten - 2]}{joint}{petits[rest]}" if rest else dizaines[ten - 2], number


def _count(meaning: str) -> _Count:
    number, tolerance = meaning.split()
    return _Count(float(number), tolerance)


_NUMBERS: Final = {tuple(words.replace(".", " ").split()): _Count(number, "some") for words, number in _numbers()}
_ONE, _MANY = (
    {
        tuple(each.split()): _UNITS[unit]
        for unit, names in read_rows(_NAMES)
        for each in names.split("; ")[of].split("|")
    }
    for of in (0, 1)
)
_SLOTS: Final[Mapping[str, _Slot]] = {
    "{count}": {**_NUMBERS, **_slot(_AMOUNTS, _count)},
    "{unit}": {**_ONE, **_MANY},
    "{units}": _MANY,
    "{period}": {names: unit for names, unit in _ONE.items() if unit.days > 1},
    "{weekday}": _slot(_WEEKDAYS, lambda meaning: [int(each) for each in meaning.split()]),
}
_DIGITS: Final = re.compile("[0-9]{1,4}")

_ROWS: Final = """
ago: {count} {unit} ago|back|earlier
ago: vor etwa|ungefahr|rund|circa|ca|fast|gut|knapp? {count} {unit}
ago: vor mehr|weniger als {count} {unit}
ago: {count} {unit} zuvor|fruher
ago: ist|sind|war {count} {unit} her
ago: il y a environ|presque|deja? {count} {unit}
ago: il y a plus|moins de {count} {unit}
ago: {count} {unit} plus tot
half: {count} {unit} and a half ago|back|earlier
half: il y a {count} {unit} et demi|demie
last: last {period}
last: letzte|letzten|letzter|letztes|vergangene|vergangenen|vergangener|vergangenes {period}
last: vorige|vorigen|voriger|voriges {period}
last: {period} dernier|derniere|passe|passee|precedent|precedente
last but one: {period} before last
last but one: vorletzte|vorletzten|vorletzter|vorletztes {period}
within: in|within|over|during|for|throughout the last {period}
within: past {period}
within: last|past {count} {unit}
within: letzte|letzten|vergangene|vergangenen {count} {units}
within: {count} derniers|dernieres {units}
within: cours du|de la? dernier|derniere {period}
within few: in|over recent {units}
within few: den letzten|vergangenen {units}
within few: ces|des derniers|dernieres {units}
within few: dans les derniers|dernieres {units}
this: this {period}
this: diese|dieser|diesen|dieses|diesem {period}
this: ce|cet|cette {period}
weekday: last {weekday}
weekday: letzten|letztes|vergangenen|vergangenes|vorigen|voriges {weekday}
weekday: {weekday} dernier|passe
0 1: today|tonight|this morning|this afternoon|this evening|just now|heute|aujourd ' hui|ce matin|ce soir|cet apres midi
1 1: yesterday|last night|gestern|hier soir|hier matin
1 1 in French: hier
2 1: day before yesterday|night before last|vorgestern|avant hier
3 3: the other day|the other night|neulich|l ' autre jour
10 7: the other week
14 14: recently|lately|kurzlich|unlangst|vor kurzem|in letzter zeit|recemment|dernierement|ces derniers temps
"""
_OF_FRENCH: Final = "ai avons c d est etait fait il je j le les l ma mes mon nous ou qu que quel qui vous"
"""Words of which a French query has one: *hier* is German, too."""


class _Rule(NamedTuple):
    kind: str
    words: Sequence[str]


def _rules() -> Iterator[_Rule]:
    for kind, pattern in read_rows(_ROWS):
        if kind[0].isdigit():
            yield from (_Rule(kind, each.split()) for each in pattern.split("|"))
            continue
        places = ([*each.removesuffix("?").split("|"), *([""] if each[-1] == "?" else [])] for each in pattern.split())
        yield from (_Rule(kind, [word for word in words if word]) for words in product(*places))


def _by_head() -> Mapping[str, Sequence[_Rule]]:
    """The rules by each word that one of their phrases begins with; digits are `0`."""
    found: dict[str, list[_Rule]] = {}
    for rule in _rules():
        slot = _SLOTS.get(rule.words[0])
        heads = {rule.words[0]} if slot is None else {phrase[0] for phrase in slot}
        for head in heads | ({"0"} if rule.words[0] == "{count}" else set()):
            found.setdefault(head, []).append(rule)
    return found


_RULES: Final = _by_head()
TELLING: Final = {word for name in ("{unit}", "{weekday}") for phrase in _SLOTS[name] for word in phrase}.union(
    rule.words[-1] for rule in _rules() if _SLOTS.keys().isdisjoint(rule.words)
)
"""Words of which each rule's phrases have one: of units and days, or the last word of a phrase without slots."""
HEADS: Final = frozenset(_RULES).union(phrase[0] for phrase in _SLOTS["{weekday}"])
"""Words with which a relative time or a day of the week begins, without digits."""

_LONGEST: Final = max(len(phrase) for slot in _SLOTS.values() for phrase in slot)
_OVER: Final = 1.2
"""Units to the next one of the calendar, from the beginning of one: months have up to 31 days."""

_WORDS: Final = re.compile(r"[0-9]+(?:[.,:][0-9]+)+|\w+|[^\w\s]")
_YEAR: Final = re.compile("[0-9]{4}")
_HYPHENS: Final = re.compile("[-\u2010\u2011]+")


def find_time(query: str, now: float, *, bare_year: bool = False) -> NamedTime | None:
    """The time that a query names: its first relative phrase, else a date; with `bare_year` also "mayor 2021".

    `now` is in Unix seconds within the years 1 to 9999, and its date is the UTC calendar's. A date after it gives
    negative days. An ISO date is read in a text of any language. Days, months, seasons and years end by the calendar,
    "since" never, and other times at the end of their tolerance.
    """
    # Upper case first: it turns ligatures and long s into plain letters, which lower case alone doesn't.
    text = fold_accents(query.upper().lower()).replace("\u2019", "'")
    words = _WORDS.findall(_HYPHENS.sub(" ", text))
    # Most texts have none of the words that tell of a time, and no date lacks a name or a year.
    relative = _relative(words, now) if not TELLING.isdisjoint(words) else None
    if relative is not None or (NAMES.isdisjoint(words) and _YEAR.search(text) is None):
        return relative
    return named_date(" ".join(text.split()), now, bare_year=bare_year)


def _relative(words: Sequence[str], now: float) -> NamedTime | None:
    today = date.fromordinal(today_of(now))
    for start in range(len(words)):
        for end, slots, kind in _matches(words, start):
            said = _read(kind, slots, today)
            return NamedTime(" ".join(words[start:end]), said, now - (said.days - said.tolerance) * DAY)
    return None


def relative_period(text: str, today: date) -> tuple[int, int, int, bool] | None:
    """The length of the longest relative time that a folded text begins with, and its first and last day as ordinals:
    by the calendar where it names a unit of it, or else within its tolerance. False: it is a day of the week, the
    latest that has begun.
    """
    found = list(_WORDS.finditer(_HYPHENS.sub(lambda signs: " " * len(signs[0]), text)))
    words = [each[0] for each in found]
    for end, slots, kind in _matches(words, 0):
        return found[end - 1].end(), *_days_of(kind, slots, today), True
    weekday = _SLOTS["{weekday}"].get(tuple(words[:1]), ())
    day = today.toordinal() - min(((today.weekday() - each) % 7 for each in weekday), default=0)
    return (found[0].end(), day, day, False) if weekday and day > 0 else None


def _matches(words: Sequence[str], start: int) -> Iterator[tuple[int, list[Any], str]]:
    """The end, the slots and the kind of each relative time at a place, the longest first."""
    rules = _RULES.get("0" if _DIGITS.fullmatch(words[start]) else words[start], ()) if words else ()
    matched = [(*found, rule.kind) for rule in rules if (found := _match(rule, words, start)) is not None]
    for end, slots, kind in sorted(matched, key=lambda each: -each[0]):
        if not kind.endswith("French") or not set(_OF_FRENCH.split()).isdisjoint(words):
            yield end, slots, kind


def _match(rule: _Rule, words: Sequence[str], start: int) -> tuple[int, list[Any]] | None:
    """The end of the rule's phrase at a place, and the meanings of its slots; None if it is not there."""
    at, slots = start, list[Any]()
    for each in rule.words:
        slot = _SLOTS.get(each)
        if slot is None:
            if at == len(words) or words[at] != each:
                return None
            at += 1
            continue
        found = _look_up(each, slot, words, at)
        if found is None:
            return None
        at, meaning = found
        slots.append(meaning)
    return at, slots


def _look_up(name: str, slot: _Slot, words: Sequence[str], at: int) -> tuple[int, Any] | None:
    """The end and the meaning of the longest phrase of a slot at a place."""
    if name == "{count}":
        if _is_rest(words, at):
            return None
        if at < len(words) and _DIGITS.fullmatch(words[at]):
            return at + 1, _Count(int(words[at]), "some")
    ends = range(min(len(words), at + _LONGEST), at, -1)
    return next(((end, slot[phrase]) for end in ends if (phrase := tuple(words[at:end])) in slot), None)


def _is_rest(words: Sequence[str], at: int) -> bool:
    """True behind a larger number, as in "a hundred and five": the rest of a number is no number of its own."""
    before = at - 2 if at > 1 and words[at - 1] in _AND else at - 1
    return before >= 0 and (words[before] in _LARGE or (before == at - 1 and (words[before],) in _NUMBERS))


def _read(kind: str, slots: Sequence[Any], today: date) -> TemporalExpression:
    match kind:
        case "ago":
            return _ago(slots[0], slots[1])
        case "half":
            return _ago(_Count(slots[0].number + 0.5, "some"), slots[1])
        case "last":
            return _ago(_Count(1, "one"), slots[0])
        case "last but one":
            return TemporalExpression(round(2 * slots[0].days), slots[0].one)
        case "within":
            return _until_now(_length(slots))
        case "within few":
            return _until_now(3 * slots[0].days)
        case "this":
            return _until_now((today - _begin(slots[0].name, today)).days)
        case "weekday":
            # To the latest such day before today, 1 to 7.
            return TemporalExpression(min((today.weekday() - each - 1) % 7 + 1 for each in slots[0]), 1)
    days, tolerance = kind.split()[:2]
    return TemporalExpression(int(days), int(tolerance))


def _days_of(kind: str, slots: Sequence[Any], today: date) -> tuple[int, int]:
    now, said = today.toordinal(), _read(kind, slots, today)
    first, last = now - said.days - said.tolerance, now - max(0, said.days - said.tolerance)
    match kind:
        case "last" | "this" if slots[0].name != "fortnight":
            unit = slots[0]
            first = _begin(unit.name, today).toordinal()
            later = date.fromordinal(min(first + int(unit.days * _OVER), date.max.toordinal()))
            last = max(first, _begin(unit.name, later).toordinal() - 1)
            if kind == "last":
                first, last = _begin(unit.name, date.fromordinal(max(1, first - 1))).toordinal(), first - 1
        case "within":
            first = now - math.ceil(_length(slots))
        case "weekday":
            last = now - (today.weekday() - slots[0][-1] - 1) % 7 - 1
            first = last - len(slots[0]) + 1
        case "0 1" | "1 1" | "2 1":
            first = last = now - said.days
    return max(1, first), max(1, last)


def _ago(count: _Count, unit: _Unit) -> TemporalExpression:
    number, kind = count
    tolerance = unit.one * 2 / 3 if kind == "half" else getattr(unit, kind)
    if unit.grows and kind in ("some", "few"):
        tolerance *= max(number, 1)
    return TemporalExpression(int(number * unit.days), max(1, int(tolerance)))


def _length(slots: Sequence[Any]) -> float:
    """The days of a unit, or of a count of it."""
    days: float = slots[-1].days * (slots[0].number if len(slots) == 2 else 1)
    return days


def _until_now(days: float) -> TemporalExpression:
    half = math.ceil(days / 2)
    return TemporalExpression(half, max(1, half))


def _begin(unit: str, today: date) -> date:
    """The first day of the week, month, quarter, year or decade that today belongs to."""
    match unit:
        case "month":
            return today.replace(day=1)
        case "quarter":
            return today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return today.replace(month=1, day=1)
        case "decade":
            return date(max(1, today.year - today.year % 10), 1, 1)
    return date.fromordinal(max(1, today.toordinal() - today.weekday()))

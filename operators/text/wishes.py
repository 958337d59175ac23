"""Wishes: the limits, exclusions and orders that a query says in words, and the rest of its text. Pure.

Promises:
- Reading never fails, needs no collection, and takes time linear in the text's length.
- A word of the text is in the rest or in the words of one wish.
- Numbers without a direction ("at 240 degrees", "for 1200 euros") are no limits. What begins with an exclusion or is
  joined by hyphens is a name ("Not found error", "no-knead bread"); the state of a thing is none ("is not working").
- Texts with the signs of the keyword syntax are left alone.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from operators.text import measures, phrases
from operators.text.date_limits import FIRST_WORDS, DateReader
from operators.text.expression import parse
from operators.text.lexer import plain
from operators.text.measures import YEAR, Lexeme, Measure, Unit, is_year, measure_at, subjects_in, subjects_of, tokenize
from operators.text.phrases import Bound, Direction, Meaning, Phrases
from operators.text.vocabulary import Vocabulary, choose
from schemas.query import MAX_ABOUT, MAX_WISHES, Exclusion, Limit, Order, Wish

_FILLERS: Final = 2
_CONNECTORS: Final = 2
_NAMED: Final = 2
"""Words at most that are read of what is excluded, where nothing says where it ends."""

_INFLECTED: Final = ("e", "en", "er", "es", "em")
"""Endings of a German adjective before its noun."""

_CLAUSE: Final = 4
"""Words from a relative pronoun to its verb at most: "whose head is not of metal"."""

_LEFT: Final = re.compile(r"\s*,(?=\s*(?:,|$))|^\s*,|\(\s*\)|\s+(?=[,;.])")


class Read(NamedTuple):
    """The rest of a text, and the wishes that were taken from it."""

    rest: str
    wishes: tuple[Wish, ...]


class _Found(NamedTuple):
    """A wish whose words are the tokens from `start` to before `end`; `stays`: what is searched keeps them."""

    start: int
    end: int
    wish: Wish
    stays: bool = False


def read_wishes(
    text: str,
    kinds: Collection[str] = ("limit", "exclusion", "order"),
    lang: str | None = None,
    at_home: Collection[str] = (),
    now: float | None = None,
) -> Read:
    """The wishes of these kinds in a text; if nothing would be left of it, the rest is the whole text.

    `lang` is the language of the text, if it is known, and those in `at_home` are the collection's. `now` is the
    query's clock in Unix seconds: without it "last week" is none.
    """
    if not plain(text) and parse(text, {}).expression is not None:
        return Read(text, ())
    tokens = tokenize(text)
    said = [each.text if each.number is None else "0" for each in tokens]
    vocabulary = choose({*map(itemgetter(0), tokens)}, text, lang, at_home)
    ranged, behind = (not each.isdisjoint(said) for each in (vocabulary.words["ranged"], vocabulary.behind.firsts))
    openings, firsts = _find_openings(vocabulary, "0" in said, ranged and said.count("0") > 1, behind)
    if firsts.isdisjoint(said):
        return Read(text, ())
    reader = _Reader(text, tokens, vocabulary, DateReader(tokens, vocabulary.before, now))
    found: list[_Found] = []
    for at, first in enumerate(said):
        end = found[-1].end if found else 0
        begun = [read for kind, read, begins in openings if first in begins and kind in kinds] if at >= end else []
        if begun and len(found) < MAX_WISHES and (wish := reader.read(at, end, begun)) is not None:
            found.append(wish)
    return Read(take_away(text, [each.wish for each in found]), tuple(each.wish for each in found))


def take_away(text: str, wishes: Sequence[Wish]) -> str:
    """The text without the wishes' words, each taken away once; the whole text if no word would be left."""
    rest = text
    for wish in wishes:
        if wish.words and (at := re.search(_whole_words(wish.words), rest)):
            rest = f"{rest[: at.start()]} {rest[at.end() :]}"
    if rest == text:
        return text
    rest = " ".join(_LEFT.sub("", " ".join(rest.split())).split())
    return rest if any(each.isalnum() for each in rest) else text


def _whole_words(words: str) -> str:
    """A pattern of words that are no part of longer ones; Chinese and Japanese words bound each other."""
    before = f"(?<!{measures.SPACED})" if re.match(measures.SPACED, words) else ""
    behind = f"(?!{measures.SPACED})" if re.match(measures.SPACED, words[-1]) else ""
    return f"{before}{re.escape(words)}{behind}"


@dataclass(frozen=True)
class _Reader:
    text: str
    tokens: Sequence[Lexeme]
    vocabulary: Vocabulary
    dates: DateReader

    def read(self, at: int, least: int, openings: "Iterable[_Read]") -> _Found | None:
        """The wish that begins at a token, as one of these reads it; the words before `least` are another one's."""
        found = next(filter(None, (read(self, at) for read in openings)), None)
        if found is None or found.start < least or len(self._words(found.start, found.end)) > 512:
            return None
        start = self._with_connectors(found.start, least) if isinstance(found.wish, Limit) else found.start
        end = self._skip(found.end, "link", 1)
        words = "" if found.stays else self._words(start, end)
        return _Found(start, end, found.wish.model_copy(update={"words": words}))

    def _words(self, start: int, end: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def _text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def _is(self, at: int, kind: str) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].text in self.vocabulary.words[kind]

    def _is_word(self, at: int) -> bool:
        """True for a word that is neither a number nor a word of grammar."""
        word = self._text(at)
        return word[:1].isalpha() and word not in self.vocabulary.words["stop"] and self.tokens[at].number is None

    def _phrase(self, at: int, table: Phrases[Meaning]) -> tuple[Meaning, int] | None:
        """The meaning of the longest phrase of a table that begins at a token, and the token behind it."""
        return measures.phrase_at(self.tokens, at, table)

    def _is_hyphened(self, start: int, end: int) -> bool:
        """True if a hyphen joins the words to one beside them."""
        before = start > 1 and self._text(start - 1) == "-" and self.tokens[start].glued
        return before or self._is_hyphen(end)

    def _skip(self, at: int, kind: str, most: int) -> int:
        return next((each for each in range(at, at + most) if not self._is(each, kind)), at + most)

    def _with_connectors(self, start: int, least: int) -> int:
        """The first token of the words that lead to a limit, such as "released" or "with"."""
        if start > least and "date" in subjects_of(self._text(start - 1)) and start - 1 > 0:
            start -= 1
        for _ in range(_CONNECTORS):
            if start - 1 >= max(least, 1) and self._is(start - 1, "connector"):
                start -= 1
        return start - 1 if start - 1 == least > 0 and self._is(least, "also") else start

    def _date(self, at: int) -> _Found | None:
        """Days or years in words: "created since May", "after 2026-06-01"."""
        found = self.dates.read(at)
        return found and _Found(at, found.end, _limit(found.bounds, found.unit, [found.about]))

    def _limit(self, at: int) -> _Found | None:
        """A direction, a number, its unit and subject: "at least 16 GB of memory"."""
        phrase = self._phrase(at, self.vocabulary.before)
        negated = phrase is None and self._is(at, "negation")
        phrase = phrase or self._phrase(at + negated, self.vocabulary.before)
        if phrase is None or (at and self._is_hyphened(at, at + 1)):
            return None
        said, behind = phrase
        is_name = at and (self._text(at - 1) == "pro" or self.text[self.tokens[at].start].isupper())
        if is_name and self._text(at + negated).startswith(("max", "min")):
            # "Pro Max 256 GB" is a model.
            return None
        number = self._skip(behind, "filler", _FILLERS)
        sized = self._is(number, "size")
        measure = measure_at(self.tokens, number + sized)
        if measure is None:
            return None
        said = said._replace(subject="size") if sized else said
        return self._make_limit(at, measure, said, phrases.FLIPPED[said.bound] if negated else said.bound)

    def _make_limit(self, start: int, measure: Measure, said: Direction, bound: Bound) -> _Found | None:
        end, unit, about = measure.end, measure.unit, [said.subject] if said.subject else []
        named, dated = self._subject_before(start, unit), said.subject == "date" or said.strength == "moment"
        may_date = dated or (said.strength == "since" and not named)
        if unit is None and may_date and is_year(measure.number, 1000 if said.strength == "moment" else 1900):
            # "The economy after 2008 crisis" and "mayor since 2021" name events.
            is_event = self._is_word(end) or (said.strength, said.bound) == ("moment", "gte")
            if said.subject != "date" and is_event and "date" not in subjects_of(self._text(start - 1)):
                return None
            return self._make_years(start, end, {bound: measure.number}, dated=dated)
        if said.strength == "moment":
            return None
        if said.strength == "from":
            # "from 20 euro" begins a range of prices, "a router from 2017" and "photos from 5 angles" none.
            onwards = self._phrase(end, phrases.ONWARDS)
            if onwards is not None and unit is None and is_year(measure.number):
                return self._make_years(start, onwards[1], {bound: measure.number}, dated=True)
            if unit is None or unit.kind not in {"currency", "area", "mass", "volume", "data"}:
                return None
        if said.subject == "date":
            # Older than 18, newer than 3 years: an age grows the other way.
            bound, about = phrases.TURNED[bound], ["age"]
        if unit is not None and about and subjects_in(unit.kind).isdisjoint(about):
            about = []
        end, subject = self._subject(end, unit)
        about += subject or named
        # Version 4.10 is behind 4.9, and no number.
        if "version" in about:
            return None
        if unit is None and not about:
            # "More than 4 ports" is a limit, as is "headphones under 50". "Under 18 drivers" has an age.
            counted, led = self._is_word(end), not start or self._is(start - 1, "connector")
            is_amount = led if bound == "lte" else bound == "lt" and measure.number > measures.OLDEST
            if said.strength != "strong" and (said.strength != "weak" or (counted and not is_amount)):
                return None
            about = [self._text(end)] if counted else []
        return _Found(start, end, _limit({bound: measure.number}, unit, about))

    def _make_years(self, start: int, end: int, bounds: dict[Bound, float], *, dated: bool) -> _Found:
        """A limit by years; one that no word says to be about dates may be one of amounts."""
        dated = dated or any("date" in subjects_of(self._text(each)) for each in range(start - 1, end))
        return _Found(start, end, _limit(bounds, YEAR, ["date"] if dated else []))

    def _subject(self, end: int, unit: Unit | None) -> tuple[int, list[str]]:
        """The subject that is named behind a number and its unit: "cm wide", "GB of memory", "players"."""
        at = self._skip(end, "determiner", _FILLERS)
        subjects = sorted(subjects_of(self._text(at)))
        if unit is not None:
            subjects = [each for each in subjects if not subjects_in(unit.kind) or each in subjects_in(unit.kind)]
        elif at > end or "date" in subjects:
            subjects = []
        if not subjects:
            return end, []
        return (at + 1 if self._is(at, "adjective") else end), subjects

    def _subject_before(self, start: int, unit: Unit | None) -> list[str]:
        """The subject that is named before a limit: "a price below 300"."""
        at = start - 1
        while at > 0 and (self._is(at, "connector") or self._text(at) == ":"):
            at -= 1
        # What is "4 years old under 30" is a price.
        subjects = subjects_of(self._text(at)) - {"date"} if at >= 0 and not self._is(at, "adjective") else frozenset()
        measured = subjects_in(unit.kind) if unit is not None else frozenset()
        # A "battery under 20" is a thing and no property of one.
        known = measured or self.vocabulary.words["property"]
        return sorted(subjects if self._is(at, "counting") else subjects & known)

    def _range(self, at: int) -> _Found | None:
        """A range: "between 20 and 40 cm", "von 2015 bis 2018", "100-200 euro"."""
        opened, ranged = self._is(at, "opening"), self._is(at, "range")
        first = measure_at(self.tokens, self._skip(at + (opened or ranged), "filler", 1))
        if first is None or not self._is(first.end, "ranged"):
            return None
        second = measure_at(self.tokens, first.end + 1)
        if second is None or first.number > second.number * (1 if first.unit == second.unit else 1e6):
            return None
        unit, low = second.unit or first.unit, first.number
        if first.unit is not None and unit is not None and first.unit != unit:
            if first.unit.kind != unit.kind:
                return None
            low = low * first.unit.factor / unit.factor
        money = unit is not None and unit.kind == "currency"
        # "20 to 40 seats" is a range, and "70-200 mm" what a lens is called.
        counted = unit is None and self._text(first.end).isalpha() and not self._is(first.end, "also")
        if low > second.number or not (opened or ranged or money or (counted and subjects_of(self._text(second.end)))):
            return None
        bounds: dict[Bound, float] = {"gte": low, "lte": second.number}
        named = self._subject_before(at, unit)
        if unit is None and not named and is_year(low) and is_year(second.number):
            return self._make_years(at, second.end, bounds, dated=False)
        end, about = self._subject(second.end, unit)
        about = about or named
        if unit is None and not about and (ranged or self._is_word(end)):
            return None
        return _Found(at, end, _limit(bounds, unit, about))

    def _limit_behind(self, at: int) -> _Found | None:
        """A number and a direction behind it: "50 euro or less", "16 GB minimum", "4+ players"."""
        measure = measure_at(self.tokens, at)
        if measure is None or (at and self._is_hyphened(at, at + 1)):
            return None
        unit, end = measure.unit, measure.end
        counted = self._is_word(end) if unit is None else bool(subjects_of(self._text(end)))
        behind = self._phrase(end + counted, self.vocabulary.behind)
        if behind is None:
            return None
        about = sorted(subjects_of(self._text(end))) if counted else []
        if unit is None and not counted:
            # "4+ players"
            about = self._subject(behind[1], None)[1]
        about = about or self._subject_before(at, unit)
        bounds = {behind[0]: measure.number}
        if unit is not None or about:
            return _Found(at, behind[1], _limit(bounds, unit, about))
        return self._make_years(at, behind[1], bounds, dated=False) if is_year(measure.number) else None

    def _people(self, at: int) -> _Found | None:
        """A number of those whom it must suit: "for 300 people", "for a 4 year old"."""
        number = self._skip(at + 1, "determiner", _FILLERS)
        found = None if self._phrase(number - 1, self.vocabulary.before) else measures.people_at(self.tokens, number)
        if found is None:
            return None
        measure, subject = found
        bounds: dict[Bound, float] = {"lte" if subject == "age" else "gte": measure.number}
        return _Found(at, measure.end, _limit(bounds, measure.unit, [subject]), stays=True)

    def _size(self, at: int) -> _Found | None:
        """A size: "size 42", "Größe XL"."""
        if not at or not self._is(at, "size") or at + 1 >= len(self.tokens):
            return None
        number, end = self.tokens[at + 1].number, at + 2
        measured = number is not None and measure_at(self.tokens, at + 1) != Measure(number, None, at + 1, end)
        if measured or (number is None and not self._is(at + 1, "letter")):
            return None
        if number is not None and (behind := self._phrase(end, self.vocabulary.behind)) is not None:
            return _Found(at, behind[1], _limit({behind[0]: number}, None, ["size"]))
        return _Found(at, end, Limit(value=self._words(at + 1, end), about=["size"]))

    def _exclusion(self, at: int) -> _Found | None:
        """An exclusion behind what is wanted: "without sugar", ", not leather", "that do not rust"."""
        said, marked = self._phrase(at, self.vocabulary.excluding) or (" case", at)
        kind, _, reach = said.partition(" ")
        if kind in {"", "clause"} and (verb := self._clause(at)) is not None:
            kind, marked = "", verb
        # "No more than 8" is a limit, and "not over the pub" is none.
        bound = self._phrase(marked, self.vocabulary.before)
        if marked == at or (bound and measure_at(self.tokens, self._skip(bound[1], "filler", _FILLERS)) is not None):
            return None
        is_name = self._is_hyphened(at, marked) or self._phrase(at, phrases.NAMES) is not None
        if is_name or self._is(at - 1, "either") or (kind == "clause" and not self._is_apart(at)):
            return None
        is_behind_noun = self._is_word(at - 1) or self._text(at - 1) == "," or self.tokens[at - 1].number is not None
        if kind == "noun" and not is_behind_noun:
            # In other languages "no" is another word.
            return None
        first = self._skip(marked, "determiner", len(self.tokens))
        is_state = self._text(first).endswith(("ing", "ed")) or self._is(first, "state")
        is_told = is_state and kind == "clause" and self._text(at) == "not" and self._text(at - 1) != ","
        if is_told or self._is(first, "never") or any(each.isdigit() for each in self._text(first)):
            return None
        end = self._end_of_name(first, reach)
        # Chinese and Japanese clauses stand before what is wanted.
        is_linked = self._is(end, "link") and self._is_word(end + 1)
        if end == first or not (is_linked or (at > self._wanted and kind != "linked")):
            return None
        return _Found(at, end, Exclusion(without=self._words(first, end)[:256]))

    def _exclusion_behind(self, at: int) -> _Found | None:
        """A word of what is not wanted before an exclusion, and what is wanted somewhere: "deri olmayan çanta"."""
        phrase = self._phrase(at, self.vocabulary.excluded)
        if phrase is None or not self._is_word(at - 1):
            return None
        wanted = (self._is_word(each) for each in range(len(self.tokens)) if not at - 1 <= each < phrase[1])
        return _Found(at - 1, phrase[1], Exclusion(without=self._words(at - 1, at)[:256])) if any(wanted) else None

    @cached_property
    def _wanted(self) -> int:
        """The first word of what is wanted: an exclusion stands behind it."""
        said = (at for at, each in enumerate(self.tokens) if self._is_word(at) or each.number is not None)
        return next((at for at in said if not self._is(at, "question")), len(self.tokens))

    def _is_apart(self, at: int) -> bool:
        """True if "not" at a token excludes what follows, and negates no verb."""
        if self._text(at - 1) == ",":
            return True
        if self._text(at) != "not":
            # The other languages put it behind the verb.
            return self._is(at - 1, "relative")
        negates = self._is(0, "question") or self._is(at - 1, "auxiliary") or self._is(at - 1, "pronoun")
        return not negates and (self._is_word(at - 1) or self.tokens[at - 1].number is not None)

    def _clause(self, at: int) -> int | None:
        """The token behind the negation of a relative clause: "that is not", "which do not", "that don't"."""
        for verb in range(at + 1, min(at + _CLAUSE, len(self.tokens))) if self._is(at, "relative") else ():
            word = self._text(verb)
            if word.endswith("n't") or word == "cannot":
                return verb + 1
            if self._is(verb, "auxiliary") and self._text(verb + 1) in {"not", "no", "nicht"}:
                return verb + 2
        return None

    def _end_of_name(self, first: int, reach: str) -> int:
        """The token behind the words that name what is excluded."""
        end = first
        while self._is_word(end) or (first < end < len(self.tokens) - 1 and self._is_hyphen(end)):
            if end > first and (self._size(end) is not None or self._phrase(end, self.vocabulary.before) is not None):
                break
            end += 1
        words = [each for each in range(first, end) if not self._is_hyphen(each) and not self._is_hyphen(each - 1)]
        if not words:
            return first
        written = [self.text[self.tokens[each].start : self.tokens[each].end] for each in words]
        capital = [each[0].isupper() for each in written]
        last = min(len(words), _NAMED)
        if capital[0] or reach == "case":
            # A short form, such as GPS, is of both cases.
            others = (at for at, each in enumerate(written) if capital[at] != capital[0] and not each.isupper())
            last = next(others, last)
        if reach == "noun":
            nouns = (at for at, each in enumerate(written) if capital[at] or not each.endswith(_INFLECTED))
            last = min(last, next(nouns, last) + 1)
        end = [*words, end][last]
        also = self._skip(end, "also", 1)
        goes_on = also > end and self._is_word(also) and not self._phrase(end, self.vocabulary.excluding)
        return self._end_of_name(also, reach) if goes_on else end

    def _is_hyphen(self, at: int) -> bool:
        return self._text(at) == "-" and self.tokens[at].glued

    def _order(self, at: int) -> _Found | None:
        phrase = self._phrase(at, self.vocabulary.orders)
        if phrase is None or self._is_hyphened(at, phrase[1]) or len(self.tokens) == phrase[1] - at:
            return None
        (subject, direction), end = phrase
        return _Found(at - self._is(at - 1, "filler"), end, Order(about=[subject], direction=direction))


_Read: TypeAlias = Callable[[_Reader, int], _Found | None]
_Opening: TypeAlias = tuple[str, _Read, Set[str]]

_AMOUNTS: Final = {"0", *(sign for sign, of in measures.UNITS.items() if of.kind == "currency" and not sign.isalpha())}


@lru_cache(256)
def _find_openings(of: Vocabulary, numbers: bool, ranged: bool, behind: bool) -> tuple[Sequence[_Opening], Set[str]]:
    """Kinds of wishes, their readers, and the words and signs that begin them, `0` for numbers; then all of these."""
    words = of.words
    openings: list[_Opening] = [
        ("limit", _Reader._date, FIRST_WORDS | of.before.firsts),
        ("limit", _Reader._range, _AMOUNTS.union(words["opening"], words["range"], words["filler"])),
        ("limit", _Reader._limit, words["negation"] | of.before.firsts),
        ("limit", _Reader._limit_behind, _AMOUNTS),
        ("limit", _Reader._people, words["recipient"]),
        ("limit", _Reader._size, words["size"]),
        ("exclusion", _Reader._exclusion, of.excluding.firsts | words["relative"]),
        ("exclusion", _Reader._exclusion_behind, of.excluded.firsts),
        ("order", _Reader._order, of.orders.firsts),
    ]
    # Most texts have no number, no two of a range, and no direction behind one: wishes of these kinds are not tried.
    has: dict[_Read, bool] = {_Reader._range: ranged, _Reader._limit: numbers, _Reader._limit_behind: behind}
    openings = [each for each in openings if has.get(each[1], True)]
    return openings, frozenset().union(*(firsts for _, _, firsts in openings))


def _limit(bounds: dict[Bound, float], unit: Unit | None, about: Sequence[str]) -> Limit:
    subjects = [each[:64] for each in dict.fromkeys(about)][:MAX_ABOUT]
    return Limit.model_validate({**bounds, "unit": unit and unit.name, "about": subjects})

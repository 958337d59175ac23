"""Analysis: the words of a text as BM25 counts them, the parts of words, and words joined. One for queries and texts.

Rules:
- A text is folded first (`operators.text.folding`). Words are runs of letters and digits.
- A number is one word, whatever its decimals: `2,5` and `2.5` are 2.5, `.5` is 0.5, and `1/2` stays a fraction. So no
  tail of a number is a word. One with two full stops and LONG digits is a form without them, unless it is an IP
  address: `816.418.00.1` is 816418001, too.
- The *atoms* of a word are its parts between letters and digits, and where small letters turn to capitals. The parts
  are forms beside the word: `getUserById` is get, user, by, id, too, and `PHP7` is php, 7.
- Hyphens, apostrophes and the signs & / . _ + # join words to a form beside them: `wi-fi` is wifi, `O'Reilly` oreilly,
  `Ph.D.` phd. A letter with + or # behind it is a word with its sign, `C++`; a longer word has it in a form.
- A number and a unit are one form with one spelling: `2,50 kg`, `2.5kg` and `2.5 KG` are 2.5kg, `6.7"` is 6.7in,
  and `5 °C` 5deg (`operators.text.folding`).
- White space joins words with a digit and short words: in a document only those in capitals, units behind a number,
  and the x between two numbers, so that prose makes no forms. A query's words of letters are joined as evidence.
- Only hyphens, white space and parentheses join two digits, and only in a form of LONG characters or more: `10 5` is
  not 105, and times and dates with slashes are not joined. A slash joins them behind a letter: `F-3382/07`.
- A number of ZEROS digits or more behind leading zeros is a form without them, and one of as many with its zeros behind
  letters: `ORA-01555` is ora1555, too.
- Chinese, Japanese, Thai, Lao, Khmer, Burmese and Korean become overlapping pairs of characters, Korean of syllables. A
  vowel sign belongs to its letter; marks that separate words for the engine, such as tones, are left out.
Source: the word delimiters of Apache Lucene's WordDelimiterGraphFilter; numbers, units and joins are own.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from operators.text.folding import NUMBER, UNITS, fold, normal_number, sizes
from operators.text.words import LETTERS, split_words

LONG: Final = 7
"""Characters from which on a form may join two digits: seven are a telephone number, six two prices."""

ZEROS: Final = 5
"""Digits from which on leading zeros say nothing."""

LONGEST: Final = 32
"""Characters of a joined form at most."""

SPACED: Final = 5
"""Words at most that white space joins around a digit: an ISBN has five."""

SHORT: Final = 4
"""Letters of a word at most that white space joins to a number."""

ROW: Final = 8
"""Numbers side by side in a document at most: of a table's row white space joins nothing."""

CLITIC: Final = 2
"""Small letters at most that an apostrophe does not join in a document: `don't`, `l'eau`."""

RUN: Final = 4
"""Words of a query side by side at most that are joined as evidence."""

MOST: Final = 64
"""Forms of a query at most: each is a term of its search."""

SIGNS: Final = 8
"""Characters of a letter with its signs at most: to put many in their order takes time in proportion to the square."""

MOST_PAIRS: Final = 1024
"""Pairs of characters of a query at most."""

_UNSPACED: Final = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf"
    "\u1780-\u17d3\u17dc-\u17dd\u1000-\u103f\u104c-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f]+"
)
_PROSE: Final = frozenset({"a", "go", "to"})
"""Units that are words of English prose in small letters, as in `5 to 10`; the French `2 To` is a size."""

_SIGN: Final = r"(?:[-/._+#&']|(?<=\d)[,:](?=\d))"
_WORD: Final = rf"(?:{NUMBER}|{LETTERS})++"
_CHUNK: Final = re.compile(rf"{_WORD}(?:{_SIGN}{_WORD})*+(?P<sign>(?<=[^\W\d_])(?:\+\+|[+#](?!\w)))?")
_WORDS: Final = re.compile(_WORD)
_ATOMS: Final = re.compile(rf"(?P<number>{NUMBER})|(?<=\d)(?i:[cm]?m)[23](?!\w)|{LETTERS}")
_CASES: Final = re.compile("(?<=l)(?=U)|(?<=U)(?=Ul)")
_SPACE: Final = re.compile(r"[^\S\r\n]{1,2}")
_BRACKET: Final = re.compile(r"(?<=\d)(?:\)[^\S\r\n]{0,2}|[^\S\r\n]{0,2}\()(?=\d)")
_POINT: Final = re.compile(r"(?<![\w.,:;!?\")\]}'])[.,]")
_INCHES: Final = re.compile(r"\"(?!\w)")
_DEGREES: Final = re.compile(r"[^\S\r\n]?°(?:[^\S\r\n]?(?P<scale>[CF])(?!\w))?")
_WITHIN: Final = re.compile(r"[^\n]?\(|[\w,:;&/)][^\S\n]")
"""The two characters before a word that begins no sentence."""

_DIGIT: Final = re.compile(r"\d")
_LEADING: Final = re.compile(rf"(?<![\d.])(?=\d{{{ZEROS}}})0+(?!$)")


class Token(NamedTuple):
    """A word of a text as it is searched for, or a form beside the words, and its place in the text as written.

    `first` is the number of its first atom in the text, and `atoms` is how many atoms it covers.
    """

    text: str
    start: int
    end: int
    first: int
    atoms: int
    is_word: bool


class _Chunk(NamedTuple):
    """Words that no white space divides. `text` is all of them as one, None where they make no form.

    `risky`: two digits were joined. `number` is the last atom, if that is a number.
    """

    text: str | None
    start: int
    end: int
    first: int
    atoms: int
    risky: bool = False
    number: str | None = None


def analyse(text: str, *, query: bool) -> list[Token]:
    """The words and forms of a document's text, or of a query's, whose forms are bounded."""
    folded = fold(text)
    tokens = list(_Reader(folded.text, query=query).read())
    if query:
        tokens = list(dict.fromkeys(tokens))
    if query and len(tokens) > MOST:
        kept = {*islice((each for each in tokens if not each.is_word), MOST)}
        tokens = [each for each in tokens if each.is_word or each in kept]
    if folded.spans is None:
        return tokens
    places = (folded.locate(each.start, each.end) for each in tokens)
    return [each._replace(start=start, end=end) for each, (start, end) in zip(tokens, places, strict=True)]


def join_neighbours(words: Sequence[Token], begins: Sequence[bool]) -> Iterator[Token]:
    """The forms that a query's words of letters make side by side: evidence that a document writes them together.

    They are no terms of the keyword leg, where few texts with `boundary-layer` would outweigh the others. `begins` says
    which words may be the first of a form: a stop word is none.
    """
    for place, first in enumerate(words):
        text = first.text
        if not begins[place]:
            continue
        for one, other in pairwise(words[place : place + RUN]):
            text += other.text
            atoms = other.first + other.atoms - first.first
            if other.start - one.end not in (1, 2) or not text.isalpha() or len(text) > LONGEST:
                break
            yield Token(text, first.start, other.end, first.first, atoms, False)


def is_unspaced(character: str) -> bool:
    """True for a character of a script that puts no spaces between words."""
    return not character.isascii() and _UNSPACED.match(character) is not None


class _Reader:
    """Reads one folded text from left to right. `_atom` is the number of the next atom."""

    def __init__(self, text: str, *, query: bool) -> None:
        self._text = text
        self._query = query
        self._atom = 0
        self._pairs = MOST_PAIRS if query else len(text)
        self._in_capitals = text.upper() == text
        self._has_digits = _DIGIT.search(text) is not None

    def read(self) -> Iterator[Token]:
        end = 0
        for run in _UNSPACED.finditer(self._text) if not self._text.isascii() else ():
            yield from self._read_spaced(end, run.start())
            yield from self._read_pairs(*run.span())
            end = run.end()
        yield from self._read_spaced(end, len(self._text))

    def _read_spaced(self, start: int, end: int) -> Iterator[Token]:
        """The tokens of a part in a script with spaces."""
        row: list[_Chunk] = []
        before: _Chunk | None = None
        for found in _CHUNK.finditer(self._text, start, end):
            written, place = found[0], found.span()
            if written.isalpha() and (lower := written.lower())[1:] == written[1:]:
                yield Token(lower, *place, self._atom, 1, True)
                if lower != written and len(written) == 1 and self._names(written, place[0]):
                    yield Token(lower, *place, self._atom, 1, False)
                chunk = None if self._is_alone(written, before) else _Chunk(lower, *place, self._atom, 1)
                self._atom += 1
            else:
                chunk, tokens = self._read_chunk(found)
                yield from tokens
            if before is not None and not self._is_joint(before.end, place[0]):
                before = None
                yield from self._join_row(row)
                row = []
            if before is not None and before.number is not None and chunk is not None and chunk.text is not None:
                last = Token(before.number, before.start, before.end, before.first + before.atoms - 1, 1, False)
                yield from _sizes(last, _token(chunk))
            if chunk is not None and self._is_in_row(chunk, before):
                row.append(chunk)
            elif row:
                yield from self._join_row(row)
                row = []
            before = chunk
        yield from self._join_row(row)

    def _names(self, written: str, start: int) -> bool:
        """True for a capital within a sentence of small letters, other than the pronoun: vitamin A, size L."""
        return (
            written != "I"
            and not self._in_capitals
            and _WITHIN.fullmatch(self._text, max(0, start - 2), start) is not None
        )

    def _is_alone(self, word: str, before: _Chunk | None) -> bool:
        """True for a word that white space joins to nothing, as most words, which spares their chunks."""
        if not self._has_digits:
            return True
        if before is not None and before.number is not None:
            return not self._query and word in _PROSE
        return len(word) > SHORT or not (self._query or word.isupper())

    def _read_chunk(self, found: re.Match[str]) -> tuple[_Chunk, list[Token]]:
        """A chunk, and its words, their atoms and forms."""
        words: list[Token] = []
        tokens: list[Token] = []
        first = self._atom
        atoms: list[Token] = []
        for each in _WORDS.finditer(self._text, *found.span()):
            before, atoms = atoms, list(self._read_atoms(each))
            words.append(Token("".join(atom.text for atom in atoms), *each.span(), atoms[0].first, len(atoms), True))
            tokens.append(words[-1])
            tokens += atoms if len(atoms) > 1 else ()
            for one, other in (*zip(before[-1:], words[-1:], strict=False), *pairwise(atoms)):
                tokens += _sizes(one, other)
        if found["sign"]:
            last = words[-1]
            signed = last._replace(text=last.text + found["sign"], end=found.end(), is_word=len(last.text) == 1)
            # One letter and its sign are one word: C++ is no C.
            tokens = [each for each in tokens if each is not last or not signed.is_word] + [signed]
        number = atoms[-1].text if atoms[-1].text[0].isdecimal() else None
        chunk = self._join_words(found, words, first, number)
        if chunk.text not in {None, words[0].text}:
            tokens.append(_token(chunk))
        elif len(words) == 1 and found[0].isalpha() and found[0].isupper() and not self._in_capitals:
            # Capitals among small letters are a short form, and may spell a stop word: US.
            tokens.append(words[0]._replace(is_word=False))
        tokens += _without_zeros(chunk, ZEROS if len(words) == 1 else LONG)
        if number is not None and _INCHES.match(self._text, found.end()) is not None:
            tokens += _sizes(atoms[-1], Token("in", found.end(), found.end() + 1, self._atom, 0, False))
        if number is not None and (degrees := _DEGREES.match(self._text, found.end())) is not None:
            name = "degf" if degrees["scale"] == "F" else "deg"
            tokens += _sizes(atoms[-1], Token(name, *degrees.span(), self._atom, len(degrees["scale"] or ""), False))
        return chunk, tokens

    def _read_atoms(self, word: re.Match[str]) -> Iterator[Token]:
        """The atoms of a word: numbers, and runs of letters, divided where small letters turn to capitals."""
        for found in _ATOMS.finditer(self._text, *word.span()):
            written, start = found[0], found.start()
            if found["number"] is not None:
                text = normal_number(written)
                if text.isdecimal() and start and _POINT.match(self._text, start - 1) is not None:
                    text = f"0.{text}"
                parts = [(text, found.end())]
            elif written.islower() or written.isupper():
                parts = [(written.lower(), found.end())]
            else:
                cases = "".join("U" if each.isupper() else "l" if each.islower() else "-" for each in written)
                bounds = [0, *(each.start() for each in _CASES.finditer(cases)), len(written)]
                parts = [(written[one:other].lower(), start + other) for one, other in pairwise(bounds)]
            for text, end in parts:
                yield Token(text, start, end, self._atom, 1, False)
                self._atom += 1
                start = end

    def _join_words(self, found: re.Match[str], words: Sequence[Token], first: int, number: str | None) -> _Chunk:
        """The chunk of these words, in a document without a short ending such as that of `O'Reilly's`."""
        if len(words) > 2 and self._text[words[-1].start - 1] == "'" and not self._query and self._is_clitic(words[-1]):
            words = words[:-1]
        text: str | None = "".join(word.text for word in words)
        risky = False
        if number is not None and number == text and number.count(".") > 1 and not _is_address(number):
            text, risky = number.replace(".", ""), True
        for one, other in pairwise(words):
            sign = self._text[one.end : other.start]
            if one.text[-1].isdecimal() and other.text[0].isdecimal():
                risky = True
                # A number behind a letter is no date.
                text = text if sign == "-" or (sign == "/" and words[0].text[0].isalpha()) else None
            elif sign == "'" and not self._query and (self._is_clitic(one) or self._is_clitic(other)):
                text = None
        if text is not None and (len(text) > LONGEST or (risky and len(text) < LONG)):
            text = words[0].text if len(words) == 1 else None
        atoms = words[-1].first + words[-1].atoms - first
        return _Chunk(text, found.start(), found.end(), first, atoms, risky, number)

    def _is_clitic(self, word: Token) -> bool:
        return word.end - word.start <= CLITIC and self._text[word.start : word.end].islower()

    def _is_joint(self, start: int, end: int) -> bool:
        """True for white space, and for a parenthesis of a telephone number."""
        if _SPACE.fullmatch(self._text, start, end) is not None:
            return True
        found = _BRACKET.match(self._text, start)
        return found is not None and found.end() == end

    def _is_in_row(self, chunk: _Chunk, before: _Chunk | None) -> bool:
        """True if white space may join the chunk to others around a digit."""
        if chunk.text is None or not chunk.text.isalnum():
            return False
        if _DIGIT.search(chunk.text) is not None:
            return True
        written = self._text[chunk.start : chunk.end]
        if chunk.text.isalpha() and len(chunk.text) <= SHORT and (self._query or written.isupper()):
            return True
        return before is not None and before.number is not None and (chunk.text == "x" or chunk.text in UNITS)

    def _join_row(self, row: Sequence[_Chunk]) -> Iterator[Token]:
        """The forms with a digit that two or more of these chunks make."""
        if not self._query and sum(chunk.number == chunk.text for chunk in row) > ROW:
            return
        for start in range(len(row)):
            for end in range(start + 2, min(start + SPACED, len(row)) + 1):
                chunks = row[start:end]
                text = "".join(chunk.text or "" for chunk in chunks)
                risky = any(chunk.risky for chunk in chunks) or any(
                    one.text and other.text and one.text[-1].isdecimal() and other.text[0].isdecimal()
                    for one, other in pairwise(chunks)
                )
                if len(text) > LONGEST or _DIGIT.search(text) is None or (risky and len(text) < LONG):
                    continue
                atoms = sum(chunk.atoms for chunk in chunks)
                joined = _Chunk(text, chunks[0].start, chunks[-1].end, chunks[0].first, atoms, risky)
                yield _token(joined)
                yield from _without_zeros(joined, LONG)

    def _read_pairs(self, start: int, end: int) -> Iterator[Token]:
        """The pairs of characters of a run without spaces; a character that stands alone is a word."""
        letters: list[list[str]] = []
        places: list[tuple[int, int]] = []
        for place in range(start, end):
            character = self._text[place]
            is_word = bool(split_words(character))
            if letters and (not is_word or unicodedata.category(character).startswith("M")):
                # A mark that separates words for the engine stays out of the term.
                letters[-1] += character if is_word and len(letters[-1]) < SIGNS else ""
                places[-1] = places[-1][0], place + 1
            elif is_word:
                letters.append([character])
                places.append((place, place + 1))
        read = [("".join(letter), *span) for letter, span in zip(letters, places, strict=True)]
        pairs = [(one[0] + other[0], one[1], other[2]) for one, other in pairwise(read)] or read
        for text, first, last in pairs[: self._pairs]:
            yield Token(unicodedata.normalize("NFC", text).lower(), first, last, self._atom, 1, True)
            self._atom += 1
        self._pairs -= min(self._pairs, len(pairs))


def _token(chunk: _Chunk) -> Token:
    return Token(chunk.text or "", chunk.start, chunk.end, chunk.first, chunk.atoms, False)


def _sizes(number: Token, unit: Token) -> Iterator[Token]:
    if number.text[0].isdecimal() and unit.text in UNITS:
        for text in sizes(number.text, unit.text):
            yield Token(text, number.start, unit.end, number.first, number.atoms + unit.atoms, False)


def _without_zeros(chunk: _Chunk, least: int) -> Iterator[Token]:
    """A form whose number has no leading zeros: behind letters, or if it has `least` digits without them."""
    text = chunk.text or ""
    short = _LEADING.sub("", text)
    if short != text and (len(short) >= least or not short.isdecimal()):
        yield _token(chunk)._replace(text=short)


def _is_address(number: str) -> bool:
    """True for four numbers of an IP address."""
    groups = number.split(".")
    return len(groups) == 4 and all(
        len(group) <= 3 and int(group) <= 255 and (group[0] != "0" or len(group) == 1) for group in groups
    )

"""The tokens of the keyword syntax: words, phrases and prefixes, operators, parentheses, column filters.

An operator and a column filter stand alone: white space, a parenthesis, a quote or an end is next to them, on the left
of a filter. A filter is `title:`, `{title content}:` or, for all columns but some, either behind a `-`; there may be
white space around its colon, and quotes around a name. It goes with the phrase or the parentheses behind it, or with
all words up to the next white space, parenthesis or quote (`title:sister's` is title:sister title:s). A star behind a
word or a phrase, with or without white space before it, makes its last word a prefix. Within a phrase `""` is a quote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from operators.text.words import WORD, split_words

Columns = tuple[str, ...]
"""Payload fields to look in, without repeats, in the order of the configuration; of none nothing matches."""


class Malformed(Exception):
    """The text breaks the syntax; the message gives the reason and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Words as they are written that follow one another in one of the payload's fields `columns`, or in any; with a
    `prefix`, any word that starts so behind them. Without both it matches nothing.
    """

    words: tuple[str, ...] = ()
    prefix: str = ""
    columns: Columns | None = None

    @property
    def is_open(self) -> bool:
        """True for a phrase that ends in a prefix."""
        return bool(self.words and self.prefix)


class Operator(Enum):
    """Operators, which stand between operands, by their spelling, and the end of a group."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    CLOSE = ")"


@dataclass(frozen=True, slots=True)
class Open:
    """The begin of a group, which is looked for in these columns only, if there are any."""

    columns: Columns | None = None


Token = Leaf | Operator | Open


_TOKEN: Final = re.compile(
    # A quote behind a digit is an inch mark, for it opens no phrase there.
    rf'(?P<operand>(?<!\d)"(?:[^"]|"")*+"|{WORD})(?P<star>\s*+\*)?|(?P<sign>(?<!\d)"|[(){{-]|\^(?=\s*+(?:"|{WORD})))'
)
_BESIDE: Final = re.compile(r'[\s"()]|\Z')
_OPERATOR: Final = re.compile(rf"(?:AND|OR|NOT)(?={_BESIDE.pattern})")
_NAME: Final = rf'(?:{WORD}|"{WORD}")'
_FILTER: Final = re.compile(rf"(?P<but>-\s*+)?(?P<names>{_NAME}|\{{\s*+(?:{_NAME}\s*+)++\}})\s*+:\s*+")
_FILTERED: Final = re.compile(rf'(?:\^\s*+)?(["(]|{WORD})')
_NEAR: Final = re.compile(r"NEAR\s*+\(")
_PLUS: Final = re.compile(rf'\s*+\+\s*+(?:"|{WORD})')


_MARKS: Final = re.compile(r'["*:^+(){}]|AND|OR|NOT')


def plain(text: str) -> bool:
    """True if nothing in the text can be syntax: most texts are told by this alone, at a fraction of the cost."""
    return _MARKS.search(text) is None


def lex(text: str, columns: Mapping[str, str]) -> "Lexer":
    """Read any text; `columns` maps a column's name in any case to the payload's field.

    Raises Malformed for a quote that isn't closed, and a column filter before an operator or another filter.
    """
    lexer = Lexer(text, {name.casefold(): field for name, field in columns.items()})
    lexer.read()
    return lexer


@dataclass(slots=True)
class Lexer:
    """Reads one text: its `tokens`, whether there is any syntax among them, and the operators of FTS5 that are plain
    text here. Without syntax parentheses are punctuation.

    The last column filter, `within`, is that of what begins before `reach`.
    """

    text: str
    fields: Mapping[str, str]
    tokens: list[Token] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    expert: bool = False
    within: Columns | None = None
    reach: int = 0

    def read(self) -> None:
        position = 0
        while found := _TOKEN.search(self.text, position):
            position = self._read_filter(found.start()) or self._read_token(found)

    def _read_filter(self, start: int) -> int | None:
        """Read a column filter; where it ends, None if there is none."""
        found = self._filter_at(start)
        if found is None or not self._alone(start):
            return None
        if self._filter_at(found.end()):
            raise Malformed("a column before another one")
        filtered = _FILTERED.match(self.text, found.end())
        if filtered is None:
            return None
        if self._operator_at(filtered.start(1)):
            raise Malformed("a column before an operator")
        named = {self.fields[name.casefold()] for name in split_words(found["names"])}
        kept = (field for field in self.fields.values() if (field in named) == (found["but"] is None))
        self.within = tuple(dict.fromkeys(kept))
        self.reach = next(_BESIDE.finditer(self.text, filtered.start(1) + 1)).start()
        self.expert = True
        return found.end()

    def _read_token(self, found: re.Match[str]) -> int:
        start, end = found.span()
        within = self.within if start < self.reach else None
        if (operator := self._operator_at(start)) is not None:
            if operator is Operator.NOT and self.tokens[-1:] == [Operator.AND]:
                self.tokens.pop()
            self.tokens.append(operator)
            self.expert = True
        elif (operand := found["operand"]) is not None:
            words, starred = tuple(split_words(operand)), found["star"] is not None
            self.tokens.append(Leaf(words[:-1], words[-1], within) if starred and words else Leaf(words, "", within))
            self.expert = self.expert or starred or operand.startswith('"')
            if _NEAR.match(self.text, start):
                self.unsupported.append("NEAR")
            if _PLUS.match(self.text, end):
                self.unsupported.append("+")
        elif found["sign"] == "(":
            self.tokens.append(Open(within))
        elif found["sign"] == ")":
            self.tokens.append(Operator.CLOSE)
        elif found["sign"] == "^":
            self.unsupported.append("^")
        elif found["sign"] == '"':
            raise Malformed("unbalanced quotes")
        return end

    def _filter_at(self, start: int) -> re.Match[str] | None:
        found = _FILTER.match(self.text, start)
        known = found is not None and all(name.casefold() in self.fields for name in split_words(found["names"]))
        return found if known else None

    def _operator_at(self, start: int) -> Operator | None:
        found = _OPERATOR.match(self.text, start)
        return Operator(found[0]) if found is not None and self._alone(start) else None

    def _alone(self, start: int) -> bool:
        return start == 0 or _BESIDE.match(self.text, start - 1) is not None

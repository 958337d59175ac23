"""The tokens of the keyword syntax: words, phrases and prefixes, operators, parentheses, column filters.

An operator and a column filter stand alone: white space, a parenthesis, a quote or an end is beside them, on the left of
a filter. A filter is `title:`, `{title content}:` or, for all columns but some, either behind a `-`; there may be white
space around its colon. It goes with the phrase or the parentheses behind it, or with all words up to the next white
space, parenthesis or quote (`title:sister's` is title:sister title:s). A star behind a word or a phrase, with or without
white space before it, makes its last word a prefix. Within a phrase `""` is a quote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from operators.query.syntax.words import WORD, cut

Columns = tuple[str, ...]
"""Payload fields to look in, without repeats, in the order of the configuration; of none nothing matches."""


class Malformed(Exception):
    """The text isn't what the syntax allows; the message says why and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word, as it is written; in one of the payload's fields `columns`, or in any."""

    text: str
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that follow one another in one field: two or more. Of none, it matches nothing."""

    words: tuple[str, ...]
    columns: Columns | None = None

    @property
    def text(self) -> str:
        """The words, with spaces between."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Any word that starts so."""

    text: str
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class PhrasePrefix:
    """One or more words that follow one another in one field, and then any word that starts with `prefix`."""

    words: tuple[str, ...]
    prefix: str
    columns: Columns | None = None

    @property
    def text(self) -> str:
        """The whole words, with spaces between."""
        return " ".join(self.words)


class Operator(Enum):
    """What may stand between operands, by its spelling."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"


class Parenthesis(Enum):
    """What closes a group."""

    CLOSE = ")"


@dataclass(frozen=True, slots=True)
class Open:
    """What opens a group, which is looked for in these columns only, if there are any."""

    columns: Columns | None = None


Leaf = Word | Phrase | Prefix | PhrasePrefix
Token = Leaf | Operator | Open | Parenthesis


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens, whether there is any syntax among them, and the constructs of FTS5 that are plain words here.

    Without syntax parentheses are punctuation.
    """

    tokens: list[Token]
    expert: bool
    unsupported: tuple[str, ...]


_TOKEN: Final = re.compile(
    rf'(?P<phrase>"(?:[^"]|"")*+")(?P<ends>\s*+\*)?|(?P<word>{WORD})(?P<star>\s*+\*)?|(?P<mark>["(){{^+-])'
)
_NAME: Final = re.compile(WORD)
_NAMES: Final = re.compile(r"\{([^{}:\"()]*+)\}")
_SPACE: Final = re.compile(r"\s*+")
_COLON: Final = re.compile(r"\s*+:\s*+")
_BESIDE: Final = re.compile(r'[\s"()]|\Z')
_OPERAND: Final = re.compile(rf'\s*+(?:"|{WORD})')
_HELD: Final = re.compile(rf'["(]|(?P<word>{WORD})')
_OPERATORS: Final = frozenset(operator.value for operator in Operator)
_NEAR: Final = re.compile(r"\s*+\(")


def lex(text: str, columns: Mapping[str, str]) -> Tokens:
    """The tokens of any text; `columns` maps a column's name in any case to the payload's field.

    Raises Malformed for a quote that isn't closed, and a column filter before an operator or another filter.
    """
    return _Lexer(text, {name.lower(): field for name, field in columns.items()}).tokens()


class _Lexer:
    """Reads one text; `filter` holds for what begins before `reach`."""

    def __init__(self, text: str, fields: Mapping[str, str]) -> None:
        self._text = text
        self._fields = fields
        self._read: list[Token] = []
        self._unsupported: list[str] = []
        self._expert = False
        self._filter: Columns | None = None
        self._reach = 0
        self._leaf_end = -1

    def tokens(self) -> Tokens:
        position = 0
        while found := _TOKEN.search(self._text, position):
            if found["phrase"] is not None:
                position = self._phrase(found)
            elif found["word"] is not None:
                position = self._word(found)
            else:
                position = self._mark(found.start(), found["mark"])
        return Tokens(self._read, self._expert, tuple(dict.fromkeys(self._unsupported)))

    def _phrase(self, found: re.Match[str]) -> int:
        held = tuple(cut(found["phrase"]))
        within = self._within(found.start())
        leaf: Leaf
        if len(held) == 1:
            leaf = Prefix(held[0], within) if found["ends"] else Word(held[0], within)
        elif held and found["ends"]:
            leaf = PhrasePrefix(held[:-1], held[-1], within)
        else:
            leaf = Phrase(held, within)
        return self._operand(leaf, found.end(), expert=True)

    def _word(self, found: re.Match[str]) -> int:
        word, start, end = found["word"], found.start(), found.end("word")
        if word in _OPERATORS and self._alone(start) and _BESIDE.match(self._text, end):
            self._operator(Operator(word))
            return end
        if (behind := self._filtered(start, start)) is not None:
            return behind
        if word == "NEAR" and self._alone(start) and _NEAR.match(self._text, end):
            self._unsupported.append(word)
        within = self._within(start)
        starred = found["star"] is not None
        return self._operand(Prefix(word, within) if starred else Word(word, within), found.end(), expert=starred)

    def _mark(self, start: int, mark: str) -> int:
        if mark == '"':
            raise Malformed("unbalanced quotes")
        if mark == ")":
            self._read.append(Parenthesis.CLOSE)
        elif mark == "(":
            self._read.append(Open(self._within(start)))
        elif mark == "^" and self._alone(start, ":") and _OPERAND.match(self._text, start + 1):
            self._unsupported.append(mark)
        elif mark == "+" and self._behind_leaf(start) and _OPERAND.match(self._text, start + 1):
            self._unsupported.append(mark)
        elif mark in "{-":
            names = _SPACE.match(self._text, start + 1).end() if mark == "-" else start  # type: ignore[union-attr]
            return self._filtered(start, names) or start + 1
        return start + 1

    def _filtered(self, start: int, names: int) -> int | None:
        """Read a column filter from `start`, whose names begin at `names`; where it goes on, None if it is none."""
        text = self._text
        found = _NAMES.match(text, names) or _NAME.match(text, names)
        if found is None or not self._alone(start):
            return None
        named = [name.lower() for name in (found[1].split() if found.re is _NAMES else (found[0],))]
        colon = _COLON.match(text, found.end())
        if not named or not self._fields.keys() >= set(named) or colon is None:
            return None
        held = _HELD.match(text, colon.end())
        if held is None:
            return None
        if start < self._reach:
            raise Malformed("a column before another one")
        if held["word"] in _OPERATORS and colon[0][-1] != ":":
            raise Malformed("a column before an operator")
        chosen = {self._fields[name] for name in named}
        kept = (field for field in self._fields.values() if (field in chosen) == (start == names))
        self._filter = tuple(dict.fromkeys(kept))
        end = _BESIDE.search(text, colon.end() + 1)
        self._reach = colon.end() + 1 if held["word"] is None or end is None else end.start()
        self._expert = True
        return colon.end()

    def _operator(self, operator: Operator) -> None:
        if operator is Operator.NOT and self._read and self._read[-1] is Operator.AND:
            self._read[-1] = operator
        else:
            self._read.append(operator)
        self._expert = True

    def _operand(self, leaf: Leaf, end: int, *, expert: bool) -> int:
        self._read.append(leaf)
        self._leaf_end = end
        self._expert = self._expert or expert
        return end

    def _within(self, start: int) -> Columns | None:
        return self._filter if start < self._reach else None

    def _alone(self, start: int, also: str = "") -> bool:
        before = self._text[start - 1] if start else " "
        return before in also or _BESIDE.match(before) is not None

    def _behind_leaf(self, start: int) -> bool:
        return self._leaf_end >= 0 and not self._text[self._leaf_end : start].strip()

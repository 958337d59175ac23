"""The tokens of the keyword syntax: words, phrases and prefixes, operators, parentheses.

An operator and the name of a column stand alone: white space, a parenthesis, a quote or an end is beside them, on the
left of a column's name. A column goes with the phrase behind its colon, or with all words up to the next white space,
parenthesis or quote (`title:sister's` is title:sister title:s). Within a phrase `""` is a quote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from operators.query.syntax.words import WORD, cut


class Malformed(Exception):
    """The text isn't what the syntax allows; the message says why and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word, as it is written; in the payload's field `column`, or in any."""

    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that follow one another in one field: two or more. Of none, it matches nothing."""

    words: tuple[str, ...]
    column: str | None = None

    @property
    def text(self) -> str:
        """The words, with spaces between."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Any word that starts so."""

    text: str
    column: str | None = None


class Operator(Enum):
    """What may stand between operands, by its spelling."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"


class Parenthesis(Enum):
    """What opens and closes a group."""

    OPEN = "("
    CLOSE = ")"


Leaf = Word | Phrase | Prefix
Token = Leaf | Operator | Parenthesis


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens, and whether there is any syntax among them: without, parentheses are punctuation."""

    tokens: list[Token]
    expert: bool


_TOKEN: Final = re.compile(rf'(?P<phrase>"(?:[^"]|"")*+")|(?P<word>{WORD})(?P<star>\*)?|(?P<mark>["()])')
_BESIDE: Final = re.compile(r'[\s"()]|\Z')
_HELD: Final = re.compile(rf'"|{WORD}')
_OPERATORS: Final = frozenset(operator.value for operator in Operator)


def lex(text: str, columns: Mapping[str, str]) -> Tokens:
    """The tokens of any text. Raises Malformed for a quote that isn't closed."""
    fields = {name.lower(): field for name, field in columns.items()}
    read: list[Token] = []
    expert = False
    column, reach = None, 0
    for found in _TOKEN.finditer(text):
        start, end = found.start(), found.end("word")
        word, phrase = found["word"], found["phrase"]
        if phrase is not None:
            held = cut(phrase)
            within = column if start < reach else None
            read.append(Word(held[0], within) if len(held) == 1 else Phrase(tuple(held), within))
            expert = True
        elif word is None:
            if found["mark"] == '"':
                raise Malformed("unbalanced quotes")
            read.append(Parenthesis(found["mark"]))
        elif word in _OPERATORS and _alone(text, start) and _BESIDE.match(text, end):
            _operator(read, Operator(word))
            expert = True
        elif (
            word.lower() in fields and _alone(text, start) and text.startswith(":", end) and _HELD.match(text, end + 1)
        ):
            column = fields[word.lower()]
            reach = next(_BESIDE.finditer(text, end + 2)).start()
            expert = True
        else:
            within = column if start < reach else None
            read.append(Prefix(word, within) if found["star"] else Word(word, within))
            expert = expert or found["star"] is not None
    return Tokens(read, expert)


def _alone(text: str, start: int) -> bool:
    return start == 0 or _BESIDE.match(text, start - 1) is not None


def _operator(read: list[Token], operator: Operator) -> None:
    if operator is Operator.NOT and read and read[-1] is Operator.AND:
        read[-1] = operator
    else:
        read.append(operator)

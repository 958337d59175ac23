"""The matches of expressions, on the engine: those of SQLite's FTS5, and those of the keyword leg."""

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from operators.text.expression import NOTHING, Parsed, parse
from tests.operators.text.keyword_index import PREFIXES, WORDS, Document, Index, corpus, index
from tests.tiers import sized

pytestmark = pytest.mark.slow

COLUMNS = {"title": "title", "text": "text", "content": "text"}
DOCUMENTS = corpus(300)
EXPRESSIONS = sized(700, nightly=1_700)
SPELLINGS: Final = [
    re.compile(spelling)
    for spelling in (r"\w[\"} ]*: ?\(", r' \w+"\*', r"\w +\*", r"\w :", r": \w", r"- ?\w+ ?:", r"\{.+?\} ?: ?\w")
]
Spelled = tuple[str, str]
"""An expression as we read it, and as FTS5 does."""


class Writer:
    """Writes random expressions, in both spellings."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def expression(self, depth: int = 3) -> Spelled:
        """Operands, with operators between; what isn't in parentheses is bound by precedence."""
        ours, theirs = self._operand(depth)
        for _ in range(self._draw.choice((0, 0, 1, 1, 2, 3))):
            operator = self._draw.choice(("AND", "OR", "NOT", "AND NOT"))
            operand = self._operand(depth)
            ours = f"{ours} {operator} {operand[0]}"
            theirs = f"{theirs} {operator.removeprefix('AND ') if operator == 'AND NOT' else operator} {operand[1]}"
        return ours, theirs

    def _operand(self, depth: int) -> Spelled:
        if depth and self._draw.random() < 0.3:
            ours, theirs = self.expression(depth - 1)
            column, same = self._columns() if self._draw.random() < 0.4 else ("", "")
            return f"{column}({ours})", f"{same}({theirs})"
        if depth and self._draw.random() < 0.1:
            group, leaf = self.expression(depth - 1), self._leaf(empty=False)
            if parse(group[0], COLUMNS).expression == NOTHING:
                # Side by side with others it isn't there, and FTS5 has no groups side by side.
                return leaf
            return f"({group[0]}) {leaf[0]}", f"(({group[1]}) AND ({leaf[1]}))"
        leaves = [self._leaf(empty=True) for _ in range(self._draw.choice((1, 1, 1, 2, 3)))]
        return " ".join(ours for ours, _ in leaves), " ".join(theirs for _, theirs in leaves)

    def _leaf(self, *, empty: bool) -> Spelled:
        word = self._draw.choice
        column, theirs = self._columns() if self._draw.random() < 0.5 else ("", "")
        star = word(("*", "*", " *", "  *"))
        match self._draw.randrange(11 if empty else 10):
            case 0 | 1 | 2 | 3:
                one = self._cased(word(WORDS))
                return f"{column}{one}", f"{theirs}{one}"
            case 4 | 5:
                phrase = word((" ", ", ", "-")).join(self._cased(word(WORDS)) for _ in range(self._draw.randint(1, 3)))
                return f'{column}"{phrase}"', f'{theirs}"{phrase}"'
            case 6 | 7:
                whole = [self._cased(word(WORDS)) for _ in range(self._draw.randint(0, 2))]
                phrase = " ".join([*whole, self._cased(word(PREFIXES))])
                return f'{column}"{phrase}"{star}', f'{theirs}"{phrase}"{star}'
            case 8:
                prefix = self._cased(word(PREFIXES))
                return f"{column}{prefix}{star}", f"{theirs}{prefix}{star}"
            case 9:
                first, second = self._cased(word(WORDS)), self._cased(word(WORDS))
                return f"{column}{first}'{second}", f"{theirs}{first} {theirs}{second}"
        nothing = word(('""', '"..."'))
        return column + nothing, theirs + nothing

    def _columns(self) -> Spelled:
        """A column filter: one column or both, or all but one, with or without spaces around its colon."""
        word = self._draw.choice
        # Of no column at all, FTS5's own NOT and OR contradict each other.
        both, one = ("{title content}", '{ "text" title }'), ("title", "text", "content", "{title}", '"title"')
        named = word((*both, *(sign + name for sign in ("", "", "-", "- ") for name in one)))
        written = named + word((":", ":", ": ", " : ", " :"))
        return written, written.replace("content", "text")

    def _cased(self, word: str) -> str:
        # Upper case would make operators of some.
        return self._draw.choice((str.lower, str.title))(word)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """The documents, their words as they are."""
    with index(tmp_path_factory.mktemp("none")) as made:
        made.write(DOCUMENTS)
        yield made


def fts5(documents: list[Document], expressions: list[str]) -> list[set[int]]:
    """The documents that FTS5 matches."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE d USING fts5(title, text, tokenize='unicode61 remove_diacritics 0')")
        database.executemany(
            "INSERT INTO d (rowid, title, text) VALUES (?, ?, ?)", ((n, *d) for n, d in enumerate(documents))
        )
        found = (database.execute("SELECT rowid FROM d WHERE d MATCH ?", (each,)) for each in expressions)
        return [{row[0] for row in rows} for rows in found]


def test_expressions_match_what_fts5_matches(documents: Index) -> None:
    """On random expressions by the hundred, each matches exactly the same documents; all spellings are among them."""
    writer = Writer(20)
    spelled = [writer.expression() for _ in range(EXPRESSIONS)]
    parsed_all = ((parse(ours, COLUMNS), ours, theirs) for ours, theirs in spelled)
    # FTS5 takes any number of phrases that end in a prefix.
    read = [each for each in parsed_all if not any("too many" in said for said in each[0].warnings)]
    expert = [each for each in read if each[0].expression is not None]
    assert len(expert) >= 0.85 * EXPRESSIONS
    assert not [parsed.warnings for parsed, _, _ in read if parsed.warnings]
    spellings = [[spelling.search(ours) is not None for spelling in SPELLINGS] for _, ours, _ in expert]
    assert sum(map(any, spellings)) >= 0.55 * EXPRESSIONS
    assert min(map(sum, zip(*spellings, strict=True))) >= 0.05 * EXPRESSIONS
    found = documents.matches([parsed for parsed, _, _ in expert])
    wanted = fts5(DOCUMENTS, [theirs for _, _, theirs in expert])
    assert [
        (ours, got ^ right) for (_, ours, _), got, right in zip(expert, found, wanted, strict=True) if got != right
    ] == []
    assert sum(0 < len(each) < len(DOCUMENTS) for each in wanted) > len(wanted) / 2


def test_the_keyword_leg_finds_what_an_expression_matches(documents: Index) -> None:
    """The terms under the filter, and the filter alone where a match may hold no term, find each match and no other."""
    read = expressions(300)
    assert documents.leg(read) == documents.matches(read)


def test_the_keyword_leg_finds_what_holds_only_stop_words(
    tmp_path_factory: pytest.TempPathFactory, documents: Index
) -> None:
    """So it is where the analyser leaves out words, and changes others."""
    read = expressions(150)
    with index(tmp_path_factory.mktemp("english"), "english") as made:
        made.write(DOCUMENTS)
        assert made.leg(read) == documents.matches(read)


def expressions(count: int) -> list[Parsed]:
    """Random texts that are expressions."""
    writer = Writer(21)
    read = (parse(writer.expression()[0], COLUMNS) for _ in range(2 * count))
    return [parsed for parsed in read if parsed.expression is not None][:count]

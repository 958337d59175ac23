"""The keyword syntax, sentence by sentence."""

import pytest

from operators.text.expression import (
    DEEPEST,
    MOST,
    MOST_OPEN,
    NOTHING,
    All,
    Any,
    Expression,
    Not,
    Parsed,
    parse,
)
from operators.text.lexer import Leaf
from operators.text.words import words

COLUMNS = {"title": "title", "text": "text", "content": "text"}
A, B, C, D = (Leaf((name,)) for name in "abcd")


def read(text: str) -> Expression:
    """The expression that a text is."""
    parsed = parse(text, COLUMNS)
    assert parsed.warnings == ()
    assert parsed.expression is not None
    return parsed.expression


def bare(text: str) -> Parsed:
    """A text that is read as a bare query."""
    parsed = parse(text, COLUMNS)
    assert parsed == Parsed(None, parsed.warnings, text, uncovered=False, leaves=())
    return parsed


@pytest.mark.parametrize("text", ["Größe:a", "größe:a", "GRÖSSE:a", "grösse:a"])
def test_a_column_is_named_in_any_case(text: str) -> None:
    """A letter that is two in capitals is the same."""
    assert parse(text, {"Größe": "size"}).expression == Leaf(("a",), "", ("size",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what was my sister doing",
        "sister's dog",
        "salt and pepper or not",
        "(a) b) :( ()",
        "NEAR a b, NEARBY(a b)",
        "^ , a ^, b + - c++, C++ ^",
        "http://example.com:80/x 12:30",
        "title: , the title :",
        "subtitle:a my-title:a -subtitle: a",
        "{a b}: c {} : d {title, b}: e {title",
        "+ 2 + , * 3",
        "R&D AND-gates, NOT. OR's ANDROID",
        "“curly quotes”",
        "\ud800 \udfff",
    ],
)
def test_a_text_without_syntax_is_bare(text: str) -> None:
    """All its words rank, nothing filters, and there is nothing to warn of."""
    assert bare(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param('"exact phrase"', Leaf(("exact", "phrase")), id="a phrase"),
        pytest.param('"Don\'t, ""stop"""', Leaf(("Don", "t", "stop")), id="a phrase with punctuation and quotes"),
        pytest.param('"word"', Leaf(("word",)), id="a phrase of one word"),
        pytest.param('"NOT" a', All((Leaf(("NOT",)), A)), id="an operator in quotes"),
        pytest.param("a AND b", All((A, B)), id="and"),
        pytest.param("a OR b", Any((A, B)), id="or"),
        pytest.param("a NOT b", Not(A, (B,)), id="not"),
        pytest.param("a AND NOT b", Not(A, (B,)), id="and not"),
        pytest.param("(a)AND(b)", All((A, B)), id="an operator between parentheses"),
        pytest.param('"a"OR"b"', Any((A, B)), id="an operator between quotes"),
        pytest.param("a AND b and c", All((A, B, Leaf(("and",)), C)), id="lower case is a word"),
        pytest.param("pre*", Leaf((), "pre"), id="a prefix"),
        pytest.param("a*b", All((Leaf((), "a"), B)), id="a prefix ends at its star"),
        pytest.param("AND* OR*", All((Leaf((), "AND"), Leaf((), "OR"))), id="prefixes of an operator's letters"),
        pytest.param("title*:a", All((Leaf((), "title"), A)), id="a prefix of a column's name"),
        pytest.param("a ** (* b)", All((Leaf((), "a"), B)), id="another star says nothing"),
        pytest.param("title:a", Leaf(("a",), "", ("title",)), id="a column"),
        pytest.param(
            "TITLE:a Content:b",
            All((Leaf(("a",), "", ("title",)), Leaf(("b",), "", ("text",)))),
            id="its name in any case",
        ),
        pytest.param('title:"a b" c', All((Leaf(("a", "b"), "", ("title",)), C)), id="a column of a phrase"),
        pytest.param('title:"a"b', All((Leaf(("a",), "", ("title",)), B)), id="a column ends with its phrase"),
        pytest.param("title:pre* a", All((Leaf((), "pre", ("title",)), A)), id="a column of a prefix"),
        pytest.param(
            "title:a's b",
            All((Leaf(("a",), "", ("title",)), Leaf(("s",), "", ("title",)), B)),
            id="a column of a word cut in two",
        ),
        pytest.param(
            "title:AND text:a:b",
            All((Leaf(("AND",), "", ("title",)), Leaf(("a",), "", ("text",)), Leaf(("b",), "", ("text",)))),
            id="colons",
        ),
        pytest.param(
            "a* http://b 1:2", All((Leaf((), "a"), Leaf(("http",)), B, Leaf(("1",)), Leaf(("2",)))), id="plain colons"
        ),
        pytest.param('"a" sister\'s', All((A, Leaf(("sister",)), Leaf(("s",)))), id="punctuation cuts"),
        pytest.param('"machine lear"*', Leaf(("machine",), "lear"), id="a phrase that ends in a prefix"),
        pytest.param('"a b pre" *', Leaf(("a", "b"), "pre"), id="with a space before its star"),
        pytest.param('"pre"*', Leaf((), "pre"), id="a prefix in quotes"),
        pytest.param('""* a', A, id="a prefix of nothing"),
        pytest.param("neur *", Leaf((), "neur"), id="a space before the star"),
        pytest.param(
            "SELECT * FROM t", All((Leaf((), "SELECT"), Leaf(("FROM",)), Leaf(("t",)))), id="a star that stands alone"
        ),
        pytest.param("title: a title :a", All((Leaf(("a",), "", ("title",)),) * 2), id="a space beside the colon"),
        pytest.param("content : a b", All((Leaf(("a",), "", ("text",)), B)), id="spaces around the colon"),
        pytest.param(
            "content:(a OR b)",
            Any((Leaf(("a",), "", ("text",)), Leaf(("b",), "", ("text",)))),
            id="a column of parentheses",
        ),
        pytest.param("{title content}: a", Leaf(("a",), "", ("title", "text")), id="two columns"),
        pytest.param(
            "{content TITLE}:(a)", Leaf(("a",), "", ("title", "text")), id="in the order of the configuration"
        ),
        pytest.param("-title:a", Leaf(("a",), "", ("text",)), id="all columns but one"),
        pytest.param("- title : a b", All((Leaf(("a",), "", ("text",)), B)), id="with spaces"),
        pytest.param("-{title content}: a", Leaf(("a",), "", ()), id="all columns but all"),
        pytest.param(
            "{title text}:(a content:(b))",
            All((Leaf(("a",), "", ("title", "text")), Leaf(("b",), "", ("text",)))),
            id="nested",
        ),
        pytest.param("title:(content:a)", Leaf(("a",), "", ()), id="nested, of other columns"),
        pytest.param("(title: a)", Leaf(("a",), "", ("title",)), id="in parentheses"),
        pytest.param('"Title" : a', Leaf(("a",), "", ("title",)), id="a column in quotes"),
        pytest.param('- {"title"content}:a', Leaf(("a",), "", ()), id="columns in quotes"),
        pytest.param('"a": b', All((A, B)), id="a phrase before a colon"),
        pytest.param(
            "{title text}: AND*", Leaf((), "AND", ("title", "text")), id="a column of a prefix of such letters"
        ),
        pytest.param("title:NOT b", All((Leaf(("NOT",), "", ("title",)), B)), id="a column of an operator's letters"),
    ],
)
def test_a_text_with_syntax_is_an_expression(text: str, expression: Expression) -> None:
    """Phrases, upper-case operators, prefixes and columns, and nothing else, are syntax."""
    assert read(text) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a b OR c d", Any((All((A, B)), All((C, D))))),
        ("a NOT b c", Not(A, (All((B, C)),))),
        ("a AND b NOT c", All((A, Not(B, (C,))))),
        ("a NOT b AND c", All((Not(A, (B,)), C))),
        ("a OR b AND c NOT d", Any((A, All((B, Not(C, (D,))))))),
        ("a b AND NOT c OR d", Any((Not(All((A, B)), (C,)), D))),
        ("(a OR b) AND c", All((Any((A, B)), C))),
        ("(a OR b) c", All((Any((A, B)), C))),
        ("a NOT (b OR c)", Not(A, (Any((B, C)),))),
        ("a NOT b NOT c", Not(A, (B, C))),
        ("(a NOT b) NOT c", Not(A, (B, C))),
        ("a NOT (b NOT c)", Not(A, (Not(B, (C,)),))),
        ("a AND (b AND (c AND d))", All((A, B, C, D))),
        ("a OR (b OR c) OR d", Any((A, B, C, D))),
        ("(((a))) AND ((b))", All((A, B))),
    ],
)
def test_side_by_side_binds_tightest_then_not_and_or(text: str, expression: Expression) -> None:
    """Parentheses group, and a chain of one operator is flat."""
    assert read(text) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a AND (NOT b)", Not(A, (B,))),
        ("(NOT b) a", Not(A, (B,))),
        ("NOT b AND a", Not(A, (B,))),
        ("(a NOT b) (NOT c)", Not(Not(A, (B,)).wanted, (B, C))),
        ("a OR NOT b", Any((A, Not(NOTHING, (B,))))),
    ],
)
def test_a_not_with_nothing_before_it_only_excludes(text: str, expression: Expression) -> None:
    """Beside another operand it takes away from that; as an alternative it gives nothing."""
    assert read(text) == expression


@pytest.mark.parametrize("text", ["NOT a", "NOT (a)", "(NOT a)", "(NOT a) AND NOT a"])
def test_an_expression_that_only_excludes_is_warned_of(text: str) -> None:
    """It has nothing to rank by, and a warning says so without quoting it."""
    parsed = parse(text, COLUMNS)
    assert isinstance(parsed.expression, Not)
    assert (parsed.expression.wanted, parsed.terms, parsed.uncovered) == (NOTHING, "", False)
    assert parsed.warnings == ("the keyword syntax excludes without naming anything: no document matches by keywords",)


@pytest.mark.parametrize(
    "text",
    [
        "a AND AND b",
        "a NOT AND b",
        "a NOT NOT b",
        "a AND",
        "OR a",
        "AND",
        "a AND ()",
        "a AND (b",
        "a) AND b",
        "Title: NOT FOUND",
        "title: content: a",
        "title : -content:a",
        "title:content:a",
        "title: NOT a",
        "a AND (b OR)",
        'a AND "b',
        'a "screen',
        "(" * 33 + "a*" + ")" * 33,
        " OR ".join("a" * (MOST + 1)),
        '"a b"*' * (MOST_OPEN + 1),
    ],
)
def test_a_malformed_text_is_bare_with_a_warning(text: str) -> None:
    """An operator without operands, what is unbalanced and what is too large; it isn't quoted."""
    [warning] = bare(text).warnings
    assert warning.startswith("the keyword syntax is malformed (")
    assert '"' not in warning
    assert text not in warning


@pytest.mark.parametrize("text", ['24" or 27" monitor', '5" screen', 'a 1/2" pipe', '6" x 4" (black)'])
def test_a_quote_behind_a_digit_is_an_inch_mark(text: str) -> None:
    """It opens no phrase."""
    assert bare(text).warnings == ()
    assert read(f'"b {text[0]}" b') == All((Leaf(("b", *words(text[0]))), B))


@pytest.mark.parametrize("text", ["404 NOT FOUND", "ERROR: NOT FOUND", "DO NOT RESUSCITATE"])
def test_a_not_among_capitals_is_told(text: str) -> None:
    """It may be a line of a log: what it excludes would be missing without a word."""
    assert parse(text, COLUMNS).warnings == (
        "NOT is an operator, and excludes what follows it: in small letters it is a word",
    )
    assert parse(text.capitalize(), COLUMNS).warnings == parse(f'"A" {text}', COLUMNS).warnings == ()


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ('""', NOTHING),
        ('"..." ""', NOTHING),
        ('a "" b', All((A, B))),
        ('a AND ""', All((A, NOTHING))),
        ('a OR "?"', Any((A, NOTHING))),
        ('a NOT ""', Not(A, (NOTHING,))),
    ],
)
def test_a_phrase_without_words_is_not_there_but_between_operators(text: str, expression: Expression) -> None:
    """Side by side it says nothing, alone or beside an operator it matches nothing, as in FTS5."""
    assert read(text) == expression


@pytest.mark.parametrize(
    ("text", "leaves", "uncovered"),
    [
        ('x NOT (a "b c") AND title:"d e"', ("x", "d e"), False),
        ("pre*", (), True),
        ("a AND pre*", ("a",), False),
        ("a OR pre*", ("a",), True),
        ("(a OR pre*) b", ("a", "b"), False),
        ("(a pre*) NOT b*", ("a",), False),
        ("pre* NOT a", (), True),
        ('"" OR a', ("a",), False),
        ('"a b pre"*', ("a b",), False),
        ('"a pre"* OR b', ("a", "b"), False),
        ('x NOT "a pre"*', ("x",), False),
    ],
)
def test_positive_words_and_phrases_rank(text: str, leaves: tuple[str, ...], uncovered: bool) -> None:
    """Not those under a NOT, and no prefixes, with which alone a match may hold none of the others."""
    parsed = parse(text, COLUMNS)
    assert (parsed.leaves, parsed.terms, parsed.uncovered) == (leaves, " ".join(leaves), uncovered)


def test_only_configured_columns_are_columns() -> None:
    """Another configuration has other names."""
    assert parse("title:a", {"heading": "title"}).expression is None
    assert parse("Heading:a", {"heading": "title"}).expression == Leaf(("a",), "", ("title",))


def test_an_expression_is_bounded_in_depth() -> None:
    """An expression that parentheses make too deep is bare, with a warning; as deep as is allowed it is one."""

    def nested(groups: int) -> str:
        return "(x OR a NOT " * groups + "b" + ")" * groups

    assert read(nested(DEEPEST // 2 - 1))
    assert bare(nested(DEEPEST // 2)).warnings


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("NEAR(a b)", "NEAR"),
        ('a NEAR ("b" c, 5)', "NEAR"),
        ("^a", "^"),
        ("title: ^ a", "^"),
        ('"one" + "two"', "+"),
        ("a+b", "+"),
        ("a* +b", "+"),
        ("a^b", "^"),
        ("title:NEAR(a b)", "NEAR"),
    ],
)
def test_what_fts5_has_beyond_this_is_named(text: str, named: str) -> None:
    """It is read as the words and signs that it is written with, which a warning says."""
    parsed = parse(text, COLUMNS)
    assert parsed.warnings == (f"the keyword syntax has no operator {named}: it is read as plain text",)


def test_a_column_goes_with_what_is_behind_a_plain_sign() -> None:
    """`^` in a column, which FTS5 has, loses the sign alone."""
    assert parse("title:^a b", COLUMNS).expression == All((Leaf(("a",), "", ("title",)), B))


def test_what_stands_in_a_phrase_is_no_construct() -> None:
    """Nor is a sign or a word that FTS5 itself would not read so."""
    assert read('"NEAR(a)" AND "a + ^b"')
    assert bare("c++, ^, NEAR a and near(a)").warnings == ()


@pytest.mark.parametrize(
    ("text", "expression", "terms"),
    [
        ("a*", A, "a"),
        ("a b*", All((A, B)), "a b"),
        ("a NOT b*", Not(A, (B,)), "a"),
        ('"a b"*', Leaf(("a", "b")), "a b"),
        ("title:a*", Leaf(("a",), "", ("title",)), "a"),
    ],
)
def test_without_an_index_of_prefixes_a_prefix_is_a_word(text: str, expression: Expression, terms: str) -> None:
    """Every match holds it, and a warning says so; what has no prefix is read as ever."""
    parsed = parse(text, COLUMNS, prefixes=False)
    assert (parsed.expression, parsed.terms, parsed.uncovered) == (expression, terms, False)
    assert len(parsed.warnings) == 1
    assert "prefix* is read as a word" in parsed.warnings[0]
    for same in ("a AND b", "a b", '"a b"'):
        assert parse(same, COLUMNS, prefixes=False) == parse(same, COLUMNS)

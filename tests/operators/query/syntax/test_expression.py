"""The keyword syntax, sentence by sentence."""

import pytest

from operators.query.syntax.expression import DEEPEST, MOST, NOTHING, All, Any, Expression, Not, Parsed, parse
from operators.query.syntax.lexer import Phrase, Prefix, Word

COLUMNS = {"title": "title", "text": "text", "content": "text"}
A, B, C, D = (Word(name) for name in "abcd")


def read(text: str) -> Expression:
    """The expression that a text is."""
    parsed = parse(text, COLUMNS)
    assert parsed.warning is None
    assert parsed.expression is not None
    return parsed.expression


def bare(text: str) -> Parsed:
    """A text that is read as a bare query."""
    parsed = parse(text, COLUMNS)
    assert parsed == Parsed(None, parsed.warning, text, uncovered=False, leaves=())
    return parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what was my sister doing",
        "sister's dog",
        "salt and pepper or not",
        "(a) b) :( ()",
        "NEAR(a b)",
        "^a + b - c",
        "http://example.com:80/x 12:30",
        "title: a title :a",
        "subtitle:a my-title:a",
        "title:(a b)",
        "SELECT * FROM t, a *b",
        "R&D AND-gates, NOT. OR's ANDROID",
        "title :a TITLE : b",
        "“curly quotes”",
        "\ud800 \udfff",
    ],
)
def test_a_text_without_syntax_is_bare(text: str) -> None:
    """All its words rank, nothing filters, and there is nothing to warn of."""
    assert bare(text).warning is None


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param('"exact phrase"', Phrase(("exact", "phrase")), id="a phrase"),
        pytest.param('"Don\'t, ""stop"""', Phrase(("Don", "t", "stop")), id="a phrase with punctuation and quotes"),
        pytest.param('"word"', Word("word"), id="a phrase of one word"),
        pytest.param('"NOT" a', All((Word("NOT"), A)), id="an operator in quotes"),
        pytest.param("a AND b", All((A, B)), id="and"),
        pytest.param("a OR b", Any((A, B)), id="or"),
        pytest.param("a NOT b", Not(A, (B,)), id="not"),
        pytest.param("a AND NOT b", Not(A, (B,)), id="and not"),
        pytest.param("(a)AND(b)", All((A, B)), id="an operator between parentheses"),
        pytest.param('"a"OR"b"', Any((A, B)), id="an operator between quotes"),
        pytest.param("a AND b and c", All((A, B, Word("and"), C)), id="lower case is a word"),
        pytest.param("pre*", Prefix("pre"), id="a prefix"),
        pytest.param("a*b", All((Prefix("a"), B)), id="a prefix ends at its star"),
        pytest.param("AND* OR*", All((Prefix("AND"), Prefix("OR"))), id="prefixes of an operator's letters"),
        pytest.param("title*:a", All((Prefix("title"), A)), id="a prefix of a column's name"),
        pytest.param("a** (* b)", All((Prefix("a"), B)), id="another star says nothing"),
        pytest.param("title:a", Word("a", "title"), id="a column"),
        pytest.param("TITLE:a Content:b", All((Word("a", "title"), Word("b", "text"))), id="its name in any case"),
        pytest.param('title:"a b" c', All((Phrase(("a", "b"), "title"), C)), id="a column of a phrase"),
        pytest.param('title:"a"b', All((Word("a", "title"), B)), id="a column ends with its phrase"),
        pytest.param("title:pre* a", All((Prefix("pre", "title"), A)), id="a column of a prefix"),
        pytest.param(
            "title:a's b", All((Word("a", "title"), Word("s", "title"), B)), id="a column of a word cut in two"
        ),
        pytest.param(
            "title:AND text:a:b", All((Word("AND", "title"), Word("a", "text"), Word("b", "text"))), id="colons"
        ),
        pytest.param("a* http://b 1:2", All((Prefix("a"), Word("http"), B, Word("1"), Word("2"))), id="plain colons"),
        pytest.param('"a" sister\'s', All((A, Word("sister"), Word("s"))), id="punctuation cuts"),
        pytest.param('NEAR(a b) + ^c "d"', All((Word("NEAR"), A, B, C, D)), id="words of other syntaxes"),
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
    "text",
    [
        "NOT a",
        "a AND (NOT b)",
        "a OR NOT b",
        "a AND AND b",
        "a NOT AND b",
        "a NOT NOT b",
        "a AND",
        "OR a",
        "AND",
        "a AND ()",
        "a AND (b",
        "a) AND b",
        "a AND (b OR)",
        'a AND "b',
        '5" screen',
        "(" * 33 + "a*" + ")" * 33,
        " OR ".join("a" * (MOST + 1)),
    ],
)
def test_a_malformed_text_is_bare_with_a_warning(text: str) -> None:
    """A leading NOT, an operator without operands, what is unbalanced and what is too large; it isn't quoted."""
    warning = bare(text).warning
    assert warning is not None
    assert warning.startswith("the keyword syntax is malformed (")
    assert '"' not in warning
    assert text not in warning


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
    ],
)
def test_positive_words_and_phrases_rank(text: str, leaves: tuple[str, ...], uncovered: bool) -> None:
    """Not those under a NOT, and no prefixes, with which alone a match may hold none of the others."""
    parsed = parse(text, COLUMNS)
    assert (parsed.leaves, parsed.terms, parsed.uncovered) == (leaves, " ".join(leaves), uncovered)


def test_only_configured_columns_are_columns() -> None:
    """Another configuration has other names."""
    assert parse("title:a", {"heading": "title"}).expression is None
    assert parse("Heading:a", {"heading": "title"}).expression == Word("a", "title")


def test_an_expression_is_bounded_in_depth() -> None:
    """What parentheses let be too deep is bare, with a warning; as deep as is allowed it is an expression."""

    def nested(groups: int) -> str:
        return "(x OR a NOT " * groups + "b" + ")" * groups

    assert read(nested(DEEPEST // 2 - 1))
    assert bare(nested(DEEPEST // 2)).warning

"""Expressions and texts as the tests of the keyword syntax draw them, and how an expression is spelled."""

from functools import partial

from hypothesis import strategies as st

from operators.text.expression import NOTHING, All, Any, Expression, Not
from operators.text.lexer import Leaf

OPERATORS = ("AND", "OR", "NOT")
COLUMNS = {"title": "title", "text": "text"}

_words = st.sampled_from([*OPERATORS, "title", "a", "Sister", "été", "पानी", "12"]) | st.text(
    st.characters(categories=("L", "N")), min_size=1, max_size=5
)
_columns = st.sampled_from([None, None, ("title",), ("text",), ("title", "text")])
_leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Leaf, st.lists(_words, min_size=1, max_size=3).map(tuple), st.just(""), _columns),
    st.builds(Leaf, st.lists(_words, max_size=2).map(tuple), _words, _columns),
    st.just(NOTHING),
)


def _composite(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3)
    return several.map(partial(_flat, All)) | several.map(partial(_flat, Any)) | several.map(_not)


def _flat(kind: type[All | Any], parts: list[Expression]) -> Expression:
    return kind(tuple(part for each in parts for part in (each.parts if isinstance(each, kind) else (each,))))


def _not(parts: list[Expression]) -> Expression:
    wanted, *unwanted = parts
    if isinstance(wanted, Not):
        return Not(wanted.wanted, (*wanted.unwanted, *unwanted))
    return Not(wanted, tuple(unwanted))


expressions = st.recursive(_leaves, _composite, max_leaves=10)
"""Expressions as `parse` makes them."""

_token_ids = st.sampled_from(
    [
        *"\"()*:_'^+-{} \n",
        " AND ",
        " OR ",
        " NOT ",
        " AND NOT ",
        "title:",
        "text:",
        "-title : ",
        "{title text}:",
        "{text",
        "title: (",
        '"a b"*',
        '"a b" *',
        "a *",
        "a",
        "b ",
        "a*",
        '"a b"',
        "NEAR(",
        "…",
    ]
)
_characters = st.characters(exclude_categories=())
texts = st.lists(_token_ids | _token_ids | _characters, max_size=25).map("".join)
"""Texts that are full of syntax, right and wrong; lone surrogates too."""


def spelled(expression: Expression, conjunction: str = " AND ") -> str:
    """The expression as a text; side by side can't hold a phrase without words."""
    match expression:
        case Leaf((word,), "", columns):
            return _in(columns, f'"{word}"' if word in OPERATORS or columns is None else word)
        case Leaf((), prefix, columns) if prefix:
            return _in(columns, f"{prefix}*")
        case Leaf(words, prefix, columns) if prefix:
            return _in(columns, f'"{" ".join(words)} {prefix}"*')
        case Leaf(words, _, columns):
            return _in(columns, f'"{" ".join(words)}"')
        case All(parts):
            joined = " AND " if NOTHING in parts else conjunction
            return joined.join(_part(part, conjunction) for part in parts)
        case Any(parts):
            return " OR ".join(_part(part, conjunction) for part in parts)
        case Not(wanted, unwanted):
            return " NOT ".join(_part(part, conjunction) for part in (wanted, *unwanted))


def _in(columns: tuple[str, ...] | None, leaf: str) -> str:
    if columns is None:
        return leaf
    return f"{columns[0]}:{leaf}" if len(columns) == 1 else f"{{{' '.join(columns)}}}: {leaf}"


def _part(expression: Expression, conjunction: str) -> str:
    text = spelled(expression, conjunction)
    return f"({text})" if isinstance(expression, All | Any | Not) else text

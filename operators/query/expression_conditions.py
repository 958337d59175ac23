"""Conditions of keyword expressions: what an expression of the keyword syntax asks of Qdrant's filter.

Words and phrases are matched on the columns' text indexes, prefixes on the keyword arrays of the columns' words. No
index tells which words follow a phrase, so the endings of a phrase that ends in a prefix are looked up first, and each
makes a phrase. Without a column any of them may hold it; no phrase goes from one into another.
"""

from collections.abc import Sequence

from operators.access.filters import NOTHING, any_condition
from operators.query.search import Condition, Ending, Endings
from operators.text.expression import All, Expression, Not, all_leaves
from operators.text.expression import Any as AnyOf
from operators.text.lexer import Leaf
from schemas import document


def keyword_conditions(expression: Expression, fields: Sequence[str], endings: Endings | None) -> Condition:
    """The condition that matches exactly what the expression does; `fields` are the columns to look in.

    Without `endings` a phrase that ends in a prefix matches all documents that may hold it.
    It is nested at most twice the expression's depth and two levels, so 82 for an expression of `parse`.
    """
    match expression:
        case All(parts):
            return {"must": [keyword_conditions(part, fields, endings) for part in parts]}
        case AnyOf(parts):
            return {"should": [keyword_conditions(part, fields, endings) for part in parts]}
        case Not(wanted, unwanted):
            return {
                "must": [keyword_conditions(wanted, fields, endings)],
                "must_not": [keyword_conditions(part, fields, endings) for part in unwanted],
            }
        case Leaf((), ""):
            return NOTHING
    columns = fields if expression.columns is None else [name for name in expression.columns if name in fields]
    return any_condition([match for column in columns for match in _matches(expression, column, endings)])


def exclusions(expression: Expression, fields: Sequence[str]) -> list[Condition]:
    """The conditions of what no match of the expression has: of an open phrase, its words and a word that begins so."""
    match expression:
        case All(parts):
            return [each for part in parts for each in exclusions(part, fields)]
        case AnyOf(parts):
            of_each = [exclusions(part, fields) for part in parts]
            return [{"must": [{"should": each} for each in of_each]}] if all(of_each) else []
        case Not(wanted, unwanted):
            return [*(keyword_conditions(part, fields, None) for part in unwanted), *exclusions(wanted, fields)]
    return []


def open_endings(expression: Expression, fields: Sequence[str]) -> dict[Ending, Condition]:
    """The endings that must be known, each with the condition of all documents that may hold one of them."""
    return {
        (leaf, column): _may_hold(leaf, column)
        for leaf in all_leaves(expression)
        if leaf.is_open
        for column in fields
        if leaf.columns is None or column in leaf.columns
    }


def _matches(leaf: Leaf, column: str, endings: Endings | None) -> list[Condition]:
    if leaf.is_open and endings is not None:
        return [_text(column, (*leaf.words, ending)) for ending in endings[leaf, column]]
    return [_may_hold(leaf, column)]


def _may_hold(leaf: Leaf, column: str) -> Condition:
    parts = [_text(column, leaf.words)] if leaf.words else []
    if leaf.prefix:
        parts.append({"key": document.words_key(column), "match": {"prefix": leaf.prefix.lower()}})
    return parts[0] if len(parts) == 1 else {"must": parts}


def _text(column: str, words: Sequence[str]) -> Condition:
    return {
        "key": document.text_key(column),
        "match": {"phrase": " ".join(words)} if len(words) > 1 else {"text": words[0]},
    }

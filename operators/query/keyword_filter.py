"""An expression of the keyword syntax as a condition of a Qdrant filter.

Words and phrases are matched on the columns' text indexes, prefixes on the keyword arrays of the columns' words. No
index tells which words follow a phrase, so the endings of a phrase that ends in a prefix are looked up first, and each
makes a phrase. Without a column any of them may hold it; no phrase goes from one into another.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any as Json

from operators.text.expression import All, Any, Expression, Not, all_leaves
from operators.text.lexer import Phrase, PhrasePrefix, Prefix, Word
from schemas.document import text_key, words_key

Condition = dict[str, Json]
Ending = tuple[PhrasePrefix, str]
"""A phrase that ends in a prefix, and the column that it is looked for in."""

Endings = Mapping[Ending, Sequence[str]]
"""The words that each prefix may stand for."""


def conditions(expression: Expression, fields: Sequence[str], endings: Endings | None) -> Condition:
    """The condition that matches exactly what the expression does; `fields` are the columns to look in.

    Without `endings` a phrase that ends in a prefix matches all documents that may hold it.
    It is nested at most twice the expression's depth and two levels, so 82 for an expression of `parse`.
    """
    match expression:
        case All(parts):
            return {"must": [conditions(part, fields, endings) for part in parts]}
        case Any(parts):
            return {"should": [conditions(part, fields, endings) for part in parts]}
        case Not(wanted, unwanted):
            return {
                "must": [conditions(wanted, fields, endings)],
                "must_not": [conditions(part, fields, endings) for part in unwanted],
            }
        case Phrase(()):
            return _nothing()
    columns = fields if expression.columns is None else [name for name in expression.columns if name in fields]
    matches = [match for column in columns for match in _matches(expression, column, endings)]
    if not matches:
        return _nothing()
    return matches[0] if len(matches) == 1 else {"should": matches}


def exclusions(expression: Expression, fields: Sequence[str]) -> list[Condition]:
    """The conditions of what no match of the expression has.

    A phrase that ends in a prefix excludes all documents that have its words and a word that begins so.
    """
    match expression:
        case All(parts):
            return [each for part in parts for each in exclusions(part, fields)]
        case Any(parts):
            of_each = [exclusions(part, fields) for part in parts]
            return [{"must": [{"should": each} for each in of_each]}] if all(of_each) else []
        case Not(wanted, unwanted):
            return [*(conditions(part, fields, None) for part in unwanted), *exclusions(wanted, fields)]
    return []


def open_endings(expression: Expression, fields: Sequence[str]) -> dict[Ending, Condition]:
    """The endings that must be known, each with the condition of all documents that may hold one of them."""
    return {
        (leaf, column): _may_hold(column, leaf.words, leaf.prefix)
        for leaf in all_leaves(expression)
        if isinstance(leaf, PhrasePrefix)
        for column in fields
        if leaf.columns is None or column in leaf.columns
    }


def _matches(leaf: Word | Phrase | Prefix | PhrasePrefix, column: str, endings: Endings | None) -> Iterator[Condition]:
    match leaf:
        case Word(text):
            yield _text(column, (text,))
        case Phrase(words):
            yield _text(column, words)
        case Prefix(text):
            yield _prefix(column, text)
        case PhrasePrefix(words, prefix) if endings is None:
            yield _may_hold(column, words, prefix)
        case PhrasePrefix(words):
            yield from (_text(column, (*words, ending)) for ending in endings[leaf, column])


def _text(column: str, words: Sequence[str]) -> Condition:
    return {"key": text_key(column), "match": {"phrase": " ".join(words)} if len(words) > 1 else {"text": words[0]}}


def _may_hold(column: str, words: Sequence[str], prefix: str) -> Condition:
    return {"must": [_text(column, words), _prefix(column, prefix)]}


def _prefix(column: str, text: str) -> Condition:
    return {"key": words_key(column), "match": {"prefix": text.lower()}}


def _nothing() -> Condition:
    # An empty list of conditions would match everything.
    return {"has_id": []}

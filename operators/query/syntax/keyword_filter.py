"""An expression of the keyword syntax as a condition of a Qdrant filter.

Words and phrases are matched on the columns' text indexes, prefixes on the keyword arrays of the columns' words.
Without a column any of them may hold it; no phrase goes from one into another.
"""

from collections.abc import Mapping, Sequence
from typing import Any as Json

from operators.query.syntax.expression import All, Any, Expression, Not
from operators.query.syntax.lexer import Phrase, Prefix, Word
from schemas.document import WORDS


def conditions(expression: Expression, fields: Sequence[str]) -> dict[str, Json]:
    """The condition that matches exactly what the expression does; `fields` are the columns to look in.

    It is nested at most twice the expression's depth and two levels, so 82 for what `parse` makes.
    """
    match expression:
        case All(parts):
            return {"must": [conditions(part, fields) for part in parts]}
        case Any(parts):
            return {"should": [conditions(part, fields) for part in parts]}
        case Not(wanted, unwanted):
            return {
                "must": [conditions(wanted, fields)],
                "must_not": [conditions(part, fields) for part in unwanted],
            }
        case Phrase(()):
            # An empty list of conditions would match everything.
            return {"has_id": []}
    columns = fields if expression.column is None else (expression.column,)
    matches = [_match(expression, column) for column in columns]
    return matches[0] if len(matches) == 1 else {"should": matches}


def _match(leaf: Word | Phrase | Prefix, column: str) -> dict[str, Json]:
    match: Mapping[str, str]
    match leaf:
        case Word(text):
            match = {"text": text}
        case Phrase():
            match = {"phrase": leaf.text}
        case Prefix(text):
            return {"key": WORDS[column], "match": {"prefix": text.lower()}}
    return {"key": column, "match": match}

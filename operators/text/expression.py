"""The keyword syntax: a query's text as an expression over words, or as a bare query.

A text is an expression if it has a `"phrase"`, an upper-case AND, OR or NOT, a `prefix*`, or a column filter. Then
side by side is AND and binds tightest, then NOT, AND, OR; parentheses group; punctuation separates words and says
nothing. `AND NOT` is NOT; with nothing before it, it only excludes. A filter within another's parentheses can only take
columns away. What is malformed is read as a bare query, and what FTS5 has beyond this as plain text, either with a
warning. Nothing raises, and the time is linear in the text's length.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from operators.text.lexer import Columns, Leaf, Malformed, Open, Operator, Token, lex, plain

DEEPEST: Final = 40
"""Levels of an expression at most: each is two levels of JSON, which readers of JSON bound."""

MOST: Final = 256
"""Words, phrases and prefixes of an expression at most: the engine looks up each, in each column."""

MOST_OPEN: Final = 4
"""Phrases of an expression at most that end in a prefix: the endings of each are counted exactly, in each column."""

_NESTED: Final = 32

_OTHERS: Final = frozenset('"*(){}')
"""Signs of an author who knows the syntax."""


@dataclass(frozen=True, slots=True)
class All:
    """All of two or more; none of the parts is an All."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """One or more of two or more; none of the parts is an Any."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`wanted`, which is no Not, without any of `unwanted`."""

    wanted: "Expression"
    unwanted: tuple["Expression", ...]


Expression = Leaf | All | Any | Not

NOTHING: Final = Leaf()
"""A phrase without words, which matches nothing; side by side with others it isn't there."""

_UNNAMED: Final = Leaf()
"""The operand of a NOT that has nothing before it. It matches nothing, either, but side by side it isn't there."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text, parsed for the keyword leg.

    `expression` is None for a bare query. `terms` is the text to rank by BM25: of an expression only its positive words
    and phrases, which `leaves` has one by one. `uncovered` says that a match may hold none of them, because of a
    prefix; whether the analyser leaves a term of each leaf isn't known here.
    """

    expression: Expression | None
    warnings: tuple[str, ...]
    terms: str
    uncovered: bool = False
    leaves: tuple[str, ...] = ()


def parse(text: str, columns: Mapping[str, str], *, prefixes: bool = True) -> Parsed:
    """Read any text; `columns` maps a column's name in queries, where case doesn't matter, to the payload's field.

    Without `prefixes`, where no index has the words by their beginnings, a prefix is read as a whole word.
    """
    if plain(text):
        return Parsed(None, (), text)
    try:
        read = lex(text, columns)
        tokens = read.tokens if prefixes else [*map(_complete, read.tokens)]
        expression = _expression(tokens) if read.expert else None
    except Malformed as error:
        return Parsed(None, (f"the keyword syntax is malformed ({error}): the text is read as words",), text)
    warnings = tuple(
        f"the keyword syntax has no operator {name}: it is read as plain text"
        for name in dict.fromkeys(read.unsupported)
    )
    if expression is None:
        return Parsed(None, warnings, text)
    if Operator.NOT in read.tokens and text.isupper() and _OTHERS.isdisjoint(text):
        warnings = (*warnings, "NOT is an operator, and excludes what follows it: in small letters it is a word")
    if tokens != read.tokens:
        warnings = (*warnings, "the collection has no index of the beginnings of words: prefix* is read as a word")
    leaves = tuple(" ".join(leaf.words) for leaf in _ranking(expression))
    if _excludes_only(expression):
        warnings = (*warnings, "the keyword syntax excludes without naming anything: no document matches by keywords")
    return Parsed(expression, warnings, " ".join(leaves), not _is_covered(expression), leaves)


def _complete(token: Token) -> Token:
    if not isinstance(token, Leaf) or not token.prefix:
        return token
    return Leaf((*token.words, token.prefix), "", token.columns)


def all_leaves(expression: Expression) -> Iterator[Leaf]:
    """All words, phrases and prefixes of an expression, excluded ones, too."""
    if isinstance(expression, Leaf):
        yield expression
    for part in _operands(expression):
        yield from all_leaves(part)


@dataclass(slots=True)
class _Group:
    """The content of two parentheses, as far as it is read: the operands of each binding, the loosest first.

    `columns` are those that it is looked for in.
    """

    columns: Columns | None = None
    either: list[Expression] = field(default_factory=list)
    both: list[Expression] = field(default_factory=list)
    without: list[Expression] = field(default_factory=list)
    beside: list[Expression] = field(default_factory=list)

    def close(self, operator: Operator) -> None:
        """An operator ends all that binds tighter. Raises Malformed where nothing is before it."""
        if not self.beside and operator is Operator.NOT and not self.without:
            self.without.append(_UNNAMED)
            return
        if not self.beside:
            raise Malformed("nothing on one side of an operator, or in parentheses")
        there = [each for each in self.beside if not isinstance(each, Leaf) or each.words or each.prefix]
        self.without.append(_all(there or [NOTHING]))
        self.beside = []
        if operator is not Operator.NOT:
            self.both.append(_not(self.without))
            self.without = []
        if operator is Operator.OR:
            self.either.append(_all(self.both))
            self.both = []

    def whole(self) -> Expression:
        """The group's expression. Raises Malformed."""
        self.close(Operator.OR)
        return _join(Any, self.either)


def _expression(tokens: Sequence[Token]) -> Expression:
    outer: list[_Group] = []
    group, leaves, open_ended = _Group(), 0, 0
    for token in tokens:
        if isinstance(token, Open):
            outer.append(group)
            group = _Group(_narrow(group.columns, token.columns))
            if len(outer) > _NESTED:
                raise Malformed("too many parentheses in each other")
        elif token is Operator.CLOSE:
            if not outer:
                raise Malformed("unbalanced parentheses")
            inner, group = group.whole(), outer.pop()
            group.beside.append(inner)
        elif isinstance(token, Operator):
            group.close(token)
        else:
            leaves += 1
            open_ended += token.is_open
            if leaves > MOST or open_ended > MOST_OPEN:
                raise Malformed("too many words or phrases")
            group.beside.append(replace(token, columns=_narrow(group.columns, token.columns)))
    if outer:
        raise Malformed("unbalanced parentheses")
    expression = group.whole()
    if _depth(expression) > DEEPEST:
        raise Malformed("nested too deep")
    return expression


def _narrow(outer: Columns | None, inner: Columns | None) -> Columns | None:
    if outer is None or inner is None:
        return inner if outer is None else outer
    return tuple(column for column in inner if column in outer)


def _all(operands: list[Expression]) -> Expression:
    # `a (NOT b)` is a NOT b.
    unwanted = [part for each in operands if _excludes_only(each) for part in _operands(each)[1:]]
    operands = [each for each in operands if not _excludes_only(each)] or [_UNNAMED]
    if unwanted:
        return _not([_all(operands), *unwanted])
    return _join(All, operands)


def _excludes_only(expression: Expression) -> bool:
    return isinstance(expression, Not) and expression.wanted is _UNNAMED


def _join(kind: type[All] | type[Any], operands: list[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    return kind(tuple(part for each in operands for part in (each.parts if isinstance(each, kind) else (each,))))


def _not(operands: list[Expression]) -> Expression:
    wanted, *unwanted = operands
    if not unwanted:
        return wanted
    if isinstance(wanted, Not):
        return Not(wanted.wanted, (*wanted.unwanted, *unwanted))
    return Not(wanted, tuple(unwanted))


def _operands(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case All(parts) | Any(parts):
            return parts
        case Not(wanted, unwanted):
            return (wanted, *unwanted)
    return ()


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, _operands(expression)), default=0)


def _ranking(expression: Expression) -> Iterator[Leaf]:
    """The words and phrases that aren't under a NOT; of a phrase that ends in a prefix the whole words."""
    if isinstance(expression, Not):
        yield from _ranking(expression.wanted)
    elif isinstance(expression, All | Any):
        for part in expression.parts:
            yield from _ranking(part)
    elif expression.words:
        yield expression


def _is_covered(expression: Expression) -> bool:
    """True if every match holds one of the ranking words."""
    match expression:
        case All(parts):
            return any(map(_is_covered, parts))
        case Any(parts):
            return all(map(_is_covered, parts))
        case Not(wanted, _):
            return _is_covered(wanted)
    return bool(expression.words) or not expression.prefix

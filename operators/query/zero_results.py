"""Zero results: why a query found nothing, by counts of what each of its criteria leaves.

The causes are looked for in this order, and the first that is there is said:
- Nothing that the query may see is in its namespace, destination and collection.
- A filter that no document passes; its field, if no document has that, the type of the field's index, if no value of
  that type was asked for, or a value of the field that is written nearly so.
- The filters, which documents pass one by one, and no document all together.
- The words of the text, where nothing else is searched by.

All counts are of documents that the query may see, so that they tell of no other.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from operators.access.filters import condition
from operators.access.indexes import Ask, Indexed, asked_paths, other_type
from operators.query.search import Condition, Count, Explanation, Request, Words, narrow_by
from operators.text.folding import fold_accents
from schemas.errors import likely
from schemas.filters import AnyOf, Eq, Exists, FieldFilter, spellings
from schemas.result import NO_DOCUMENT

MOST: Final = 32
"""Criteria that are counted at most: the first ones."""

_VALUES: Final = 1000
"""Values of a field, the commonest, among which one that was likely meant is looked for."""

_NO_WORDS: Final = "no results: no document that the query's filters pass has a word of its text"
_TOGETHER: Final = "no results: no document passes all filters together, and each filter alone passes some"


class Criterion(NamedTuple):
    """One condition that a query sets: its path in the event, the payload fields that it reads, and Qdrant's form.

    `filters` are those on fields that it is made of, if it is a filter.
    """

    path: str
    fields: frozenset[str]
    condition: Condition
    filters: Sequence[FieldFilter] = ()

    def is_on(self, field: str) -> bool:
        """True if it is on this field alone, in whichever of its spellings."""
        return len(self.fields) == 1 and all({*spellings(each)} & {*spellings(field)} for each in self.fields)


def explain_zero_results(
    visible: Condition, criteria: Sequence[Criterion], where: str, known: Indexed, *, words: bool
) -> Explanation:
    """The warnings that say why nothing was found.

    `visible` is the condition of all that the query may see, `where` names the namespace in words, `known` are fields
    that there are, with their indexes. `words`: the query's words were searched for, and nothing else was.
    """
    counted = criteria[:MOST]
    every, there, *alone = yield Count(
        [
            narrow_by(visible, *(each.condition for each in criteria)),
            visible,
            *(narrow_by(visible, each.condition) for each in counted),
        ]
    )
    if every:
        return [_NO_WORDS] if words else []
    if not there:
        return [f"no results: no document that the query may see is in {where}"]
    impossible = [each for each, number in zip(counted, alone, strict=True) if not number]
    if not impossible:
        return [_TOGETHER]
    fields = [field for each in impossible for field in sorted(each.fields)]
    there = [condition(Exists.on(each)) for each in fields]
    having = yield Count([narrow_by(visible, each) for each in there])
    missing = {field for field, number in zip(fields, having, strict=True) if not number}
    there_are = {name: asks for name, asks in known.items() if name not in missing}
    meant = yield from _find_meant(visible, impossible, there_are)
    return [warning for each in impossible for warning in _impossible(each, missing, there_are, meant)]


def _find_meant(
    visible: Condition, criteria: Sequence[Criterion], known: Indexed
) -> Generator[Request, Any, Mapping[str, str]]:
    """The likely meant value of each criterion that asks for a text, of those that its indexed field has, by path."""
    asked = [
        (each.path, value, path)
        for each in criteria
        for wanted in each.filters
        if isinstance(wanted, Eq | AnyOf) and _lists_words(known.get(path := asked_paths(wanted, known)[0]))
        for value in (wanted.value if isinstance(wanted, AnyOf) else [wanted.value])
        if isinstance(value, str)
    ]
    counts = (yield Words([(path, visible) for _, _, path in asked], _VALUES)) if asked else ()
    meant: dict[str, str] = {}
    for (path, value, _), found in zip(asked, counts, strict=True):
        folded = {fold_accents(each.casefold()): each for each in found.counts if isinstance(each, str)}
        near = likely(fold_accents(value.casefold()), [*folded])
        if near is not None and folded[near] != value:
            meant.setdefault(path, folded[near])
    return meant


def _lists_words(asks: frozenset[Ask] | None) -> bool:
    """True if an index lists the words that a field has; a field that answers everything is none of the payload."""
    return asks is not None and Ask.KEYWORD in asks and len(asks) < len(Ask)


def _impossible(criterion: Criterion, missing: set[str], known: Indexed, meant: Mapping[str, str]) -> list[str]:
    if absent := sorted(criterion.fields & missing):
        names = sorted(known)
        return [f"{NO_DOCUMENT}has the field `{field}` of {criterion.path}{suggest(field, names)}" for field in absent]
    types = [f": `{each.field}` is {other}" for each in criterion.filters if (other := other_type(each, known))]
    fields = ", ".join(f"`{each}`" for each in sorted({each.field for each in criterion.filters}))
    near = f"; did you mean {meant[criterion.path]!r}?" if criterion.path in meant else ""
    said = types or [f" ({fields}){near}" if fields else ""]
    return [f"{NO_DOCUMENT}passes {criterion.path}{each}" for each in said]


def suggest(name: str, known: Sequence[str]) -> str:
    """The known name that was likely meant, as the end of a sentence; empty if none was. A name within objects may be
    given by its end: `city` for `address.city`.
    """
    near = next((each for each in known if each.endswith(f".{name}")), None) or likely(name, known)
    return f"; did you mean `{near}`?" if near is not None else ""

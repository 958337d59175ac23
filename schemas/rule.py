"""Rules: what a query's words, source and time change about its answer. Each is a message of the topic `rules`.

The topic is compacted. A message's key is the JSON array `[namespace, id]`, its value one rule; without a value the
rule is removed. The namespace `*` stands for all. A namespace's own rule hides the one of `*` with the same id.
operators.query.rules says how rules work together.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

import orjson
from pydantic import Field, StringConstraints

from schemas.errors import DeadLetterClass, InputError
from schemas.event import json_object, validate
from schemas.fields import AnyId, Consistent, Name, Strict, Timestamp
from schemas.filters import DocumentFilters, FieldName, Number
from schemas.query import OrderBy

EVERYWHERE: Final = "*"
"""The namespace of rules for all namespaces."""

MAX_RULE_BYTES: Final = 65_536
MAX_WORDS: Final = 8
"""Words of a phrase at most: that many lookups are made for each word of a query."""

NamesReader = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Gives an object with the index's names of fields in place of those of documents' senders."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Several = Annotated[list[Words], Field(min_length=1, max_length=32)]


class Conditions(Strict, Consistent):
    """The conditions of a rule, all of which must hold; without any it works for every search of its namespace."""

    exact: Words | None = Field(default=None, description="The query's whole text, by its words.")
    contains: Words | None = Field(default=None, description="Words that stand side by side in the query's text.")
    sources: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    """Sources of the query, one of which it has; missing: any."""
    languages: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    """Languages of the query, by its field `lang`, one of which it has; `de` is `de-AT`, too; missing: any."""
    from_: Timestamp | None = Field(default=None, alias="from", description="First moment, by the query's clock.")
    until: Timestamp | None = Field(default=None, description="Moment at which it works no longer.")

    def contradictions(self) -> Iterator[str]:
        if self.exact is not None and self.contains is not None:
            yield "exact and contains: at most one may be given"
        if self.from_ is not None and self.until is not None and self.from_ >= self.until:
            yield "from must be before until"


class Synonyms(Strict, Consistent):
    """Words that stand for each other in the keyword leg: all of `words`, or those of `to` for those of `from`."""

    words: Annotated[list[Words], Field(min_length=2, max_length=32)] | None = None
    """Two ways: each of these stands for all others."""
    from_: _Several | None = Field(default=None, alias="from", description="One way: words of the query.")
    to: _Several | None = Field(default=None, description="One way: what is searched, too, in their place.")
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Weight of the synonym in the keyword leg, of that of the words of the query."""

    def contradictions(self) -> Iterator[str]:
        if (self.words is None) == (self.from_ is None) or (self.from_ is None) != (self.to is None):
            yield "words is expected, or from and to"


class Pin(Strict):
    """One document at a fixed position of the results, if it matches the query's filters and may be seen."""

    id: AnyId
    position: Annotated[int, Field(ge=1, le=200)] = Field(description="Position in the results of all pages, from 1.")


class Bury(Strict, Consistent):
    """Documents that go behind all others: these, or those that match all of the filters."""

    ids: Annotated[list[AnyId], Field(max_length=100)] = Field(default=[])
    filters: DocumentFilters = Field(default=[])

    def contradictions(self) -> Iterator[str]:
        if not self.ids and not self.filters:
            yield "ids or filters must be given"


class Boost(Strict, Consistent):
    """A change of the score by filters or by a number: score + weight * share * spread.

    `share` is 1 for a document that matches all `filters`, or else n / (n + half) for the number n > 0 in `field`, and
    0 for any other document. `spread` is the distance of the best score from the worst; 1 if there is none.
    """

    filters: DocumentFilters = Field(default=[])
    field: FieldName | None = Field(default=None, description="Payload field with the number.")
    half: Annotated[Number, Field(gt=0)] = Field(default=1.0, description="Number whose share is one half.")
    weight: Annotated[Number, Field(ge=-10, le=10)] = 0.5
    """Change by the whole share, as a part of the spread; below 0 the document loses."""

    def contradictions(self) -> Iterator[str]:
        if bool(self.filters) == (self.field is not None):
            yield "filters is expected, or field"


class Rewrite(Strict, Consistent):
    """Filters or an order in place of the words of the condition, which are taken away from the text."""

    filters: DocumentFilters = Field(default=[])
    order_by: OrderBy | None = Field(default=None, description="Order, unless the query has one.")

    def contradictions(self) -> Iterator[str]:
        if not self.filters and self.order_by is None:
            yield "filters or order_by must be given"


class Effects(Strict):
    """The effects of a rule: at least one is given."""

    synonyms: Synonyms | None = None
    pin: Annotated[list[Pin], Field(min_length=1, max_length=50)] | None = None
    bury: Bury | None = None
    boost: Boost | None = None
    rewrite: Rewrite | None = None


class Rule(Strict, Consistent):
    """One rule: the value of a message of the topic `rules`."""

    when: Conditions = Field(default=Conditions(), description="Conditions; missing: every search of the namespace.")
    then: Effects

    def contradictions(self) -> Iterator[str]:
        if all(effect is None for _, effect in self.then):
            yield "then: synonyms, pin, bury, boost or rewrite must be given"
        if self.then.rewrite is not None and self.when.exact is None and self.when.contains is None:
            yield "then.rewrite needs when.exact or when.contains: their words are taken away"


def rule_key(namespace: Any, id_: Any) -> bytes:
    """The key of a rule's message; one that is no pair of texts is no rule's."""
    return orjson.dumps([namespace, id_])


def read_rule_key(key: bytes | None) -> tuple[str, str]:
    """The namespace and the id of a rule. Raises InputError for any other key: compaction tells spellings apart."""
    try:
        match orjson.loads(key or b""):
            case [str(namespace), str(id_)] if namespace and id_ and rule_key(namespace, id_) == key:
                return namespace, id_
    except orjson.JSONDecodeError:
        pass
    raise InputError(DeadLetterClass.INVALID, 'key: namespace and id are expected, as ["acme","tv"]', "key")


def read_rule(value: bytes | None, read: NamesReader = dict) -> Rule:
    """The rule that a message's value is; `read` gives it with the index's names of fields. Raises InputError."""
    return validate(Rule, read(json_object(value, MAX_RULE_BYTES)))

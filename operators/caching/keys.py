"""Keys of cached answers, and the digests to which a cursor is bound.

- Every field of an event counts, those of later releases included, except the few that are named here.
- Injective: the hashed bytes determine every value and its type, so two keys are equal only if all their values are
  (None and "", "a" + "bc" and "ab" + "c", True and 1, 0.0 and -0.0 differ).
- Each kind of digest begins with its own word, so a key of one kind is never one of another.
- The same on every replica and machine: no hash seeds, no byte order of the machine.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final, Self

from schemas.query import QueryEvent

_BRIEF: Final = 16
"""Bytes of the digests that travel in cursors."""

_OWN: Final = frozenset({"schema_version", "query_id", "timeout_ms", "reply_to", "metadata", "cursor_policy"})
"""Fields of an event that its answer does not depend on; a page that a strict query is refused is cached for no other.
"""

_SEARCHED: Final = frozenset({"text", "vector"})
"""Fields that the keys take apart from the scope: answers to similar texts and vectors share one."""

_PAGE: Final = frozenset({"cursor", "now", "facets", "limit", "returned", "explain", "debug"})
"""Fields that may differ between the pages of one query."""

_APART: Final = {*_OWN, *_SEARCHED}

_FORM: Final = hashlib.sha256(f"2 {sorted(QueryEvent.model_fields.keys() - _APART - _PAGE)}".encode()).digest()[:2]
"""The first bytes of a binding: the form in which a release writes a query. The number counts changes of values."""

# JSON's escapes would make a pair of lone surrogates equal to the character that it spells in UTF-16.
_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Scope:
    """All that an answer depends on, except text and vector.

    `query` is the JSON of the event's fields that the pages of one query share, `page` that of the others.
    `config_hash` counts the rules that work, too, and `policy_hash` the firewall; `physical` is the Qdrant collection
    that is searched, `analyser` names that of the text's terms; `clock` is the bucket of the clock where a signal reads
    it.
    """

    query: str
    page: str
    recipe_hash: str
    config_hash: str
    policy_hash: str
    physical: str | None = None
    watermark: tuple[str, ...] | None = None
    analyser: str | None = None
    clock: int | None = None

    @classmethod
    def of(
        cls, event: QueryEvent, resolved: Mapping[str, Any], recipe_hash: str, config_hash: str, policy_hash: str
    ) -> Self:
        """The scope of an event, of which some fields were `resolved`: they count as what they stand for."""
        # A field without a value is left out, which is quicker. No value is written as nothing.
        given = {**event.model_dump(mode="json", exclude=_APART, exclude_none=True), **resolved}
        asked = {name: value for name, value in given.items() if value is not None}
        page = {name: asked.pop(name) for name in _PAGE & asked.keys()}
        return cls(_json(asked), _json(page), recipe_hash, config_hash, policy_hash)


_everything: Final[Callable[[Scope], tuple[Any, ...]]] = attrgetter(*(field.name for field in fields(Scope)))
_state: Final[Callable[[Scope], tuple[Any, ...]]] = attrgetter(
    "recipe_hash", "config_hash", "policy_hash", "physical", "watermark", "analyser"
)


def exact_key(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """The key of one answer: 32 bytes of SHA-256 over the scope, the text and the vector."""
    return _query("exact", _everything(scope), text, vector)


def scope_key(scope: Scope, vector: str) -> bytes:
    """The key under which queries of other words share answers: 32 bytes of SHA-256 over scope and kind of vector."""
    return _digest("scope", (_everything(scope), vector))


def binding(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """The query that a cursor continues: 16 bytes over all that its pages share, in the form of this release."""
    return (_FORM + _query("query", scope.query, text, vector))[:_BRIEF]


def is_readable(binding: bytes) -> bool:
    """True if a binding is of the form of this release, so that others tell of another query."""
    return binding.startswith(_FORM)


def state(scope: Scope) -> bytes:
    """The state that a cursor's pages share: 16 bytes over recipe, configuration, policy, index and analyser."""
    return _digest("state", _state(scope))[:_BRIEF]


def _query(kind: str, scope: object, text: str | None, vector: Sequence[float] | None) -> bytes:
    if vector is None:
        return _digest(kind, (scope, text, None))
    size = len(vector)
    return _digest(kind, (scope, text, size), struct.pack(f"<{size}d", *vector))


def _digest(kind: str, values: object, tail: bytes = b"") -> bytes:
    # A JSON array ends with its bracket, so the tail needs no separator.
    return hashlib.sha256(_json((kind, values)).encode("utf-8", "surrogatepass") + tail).digest()

"""Keys of cached answers, and the digests to which a cursor is bound.

Promises
--------
- Injective: the hashed bytes determine every value and its type, so two keys are equal only if all their values are
  (None and "", "a" + "bc" and "ab" + "c", True and 1, 0.0 and -0.0 differ).
- Each kind of digest begins with its own word, so a key of one kind is never one of another.
- The same on every replica and machine: no hash seeds, no byte order of the machine.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

_Values = tuple[Any, ...]

_BRIEF: Final = 16
"""Bytes of the digests that travel in cursors."""


@dataclass(frozen=True, slots=True)
class Scope:
    """All fields that can change an answer, except text and vector.

    `filters`, `group`, `overrides`, `understood` and `returned` are canonical JSON, and so is `recipe`, which is what
    the query says of it; `recipe_hash` is a hash of what the recipe does, `policy_hash` one of the policy and the
    firewall; `physical` is the Qdrant collection that is searched, `analyser` names the analyser of the text's terms;
    `now` is the event's own, in Unix seconds, `clock` the bucket of the clock where a signal reads it.
    """

    source: str | None
    destination: str
    collection: str | None
    profile: str
    namespace: str
    subject: str | None
    actor_type: str | None
    filters: str
    order_by: str | None
    group: str
    limit: int
    cursor: str | None
    recipe: str
    recipe_hash: str
    overrides: str
    rerank: bool
    min_relevance: float | None
    include_reflections: bool | None
    reflections_only: bool
    reflection_boost: float | None
    understood: str
    returned: str
    explain: bool
    debug: bool
    record: bool
    current_cycle: int | None
    now: float | None
    config_hash: str
    policy_hash: str
    physical: str | None = None
    watermark: tuple[str, ...] | None = None
    analyser: str | None = None
    clock: int | None = None


_EVERYTHING: Final = tuple(field.name for field in fields(Scope))
_STATE: Final = ("recipe_hash", "config_hash", "policy_hash", "physical", "watermark", "analyser")
_MOVING: Final = frozenset({"cursor", "clock", "now", "limit", "returned", "explain", "debug", *_STATE})
"""Fields that may differ between the pages of one query."""

_LASTING: Final = tuple(name for name in _EVERYTHING if name not in _MOVING)
"""Fields that the pages of one query share."""

_FORM: Final = hashlib.sha256(f"1 {_LASTING}".encode()).digest()[:2]
"""The first bytes of a binding: the form in which a release writes a query. The number counts changes of values."""

_everything: Final[Callable[[Scope], _Values]] = attrgetter(*_EVERYTHING)
_lasting: Final[Callable[[Scope], _Values]] = attrgetter(*_LASTING)
_state: Final[Callable[[Scope], _Values]] = attrgetter(*_STATE)

# JSON's escapes would make a pair of lone surrogates equal to the character that it spells in UTF-16.
_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def exact_key(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """The key of one answer: 32 bytes of SHA-256 over the scope, the text and the vector."""
    return _query("exact", _everything(scope), text, vector)


def scope_key(scope: Scope, vector: str) -> bytes:
    """The key under which queries of other words share answers: 32 bytes of SHA-256 over scope and kind of vector."""
    return _digest("scope", (_everything(scope), vector), b"")


def binding(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """The query that a cursor continues: 16 bytes over all that its pages share, in the form of this release."""
    return (_FORM + _query("query", _lasting(scope), text, vector))[:_BRIEF]


def is_readable(binding: bytes) -> bool:
    """True if a binding is of the form of this release, so that others tell of another query."""
    return binding.startswith(_FORM)


def state(scope: Scope) -> bytes:
    """The state that a cursor's pages share: 16 bytes over recipe, configuration, policy, index and analyser."""
    return _digest("state", _state(scope), b"")[:_BRIEF]


def _query(kind: str, values: _Values, text: str | None, vector: Sequence[float] | None) -> bytes:
    if vector is None:
        return _digest(kind, (values, text, None), b"")
    size = len(vector)
    return _digest(kind, (values, text, size), struct.pack(f"<{size}d", *vector))


def _digest(kind: str, values: _Values, tail: bytes) -> bytes:
    # A JSON array ends with its bracket, so the tail needs no separator.
    return hashlib.sha256(_json((kind, values)).encode("utf-8", "surrogatepass") + tail).digest()

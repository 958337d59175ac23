"""Keys and bindings: equal only where all that went in is equal, field by field and between the fields."""

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from functools import partial
from itertools import combinations, pairwise
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.caching.keys import Scope, binding, exact_key, scope_key, state
from schemas.query import QueryEvent

Query = tuple[Scope, str | None, Sequence[float] | None]
Key = Callable[[Scope, str | None, Sequence[float] | None], bytes]

FIELDS = tuple(field.name for field in fields(Scope))
INPUTS = (*FIELDS, "text", "vector")
TYPES = {**get_type_hints(Scope), "text": str | None, "vector": tuple[float, ...] | None}
STATE = {"recipe_hash", "config_hash", "policy_hash", "physical", "watermark", "analyser"}
MOVING = {*STATE, "page", "clock"}

TEXTS = (
    "",
    "a",
    "ab",
    "0",
    "null",
    '"',
    '","',
    "\\",
    "?",
    "\\ud83d",
    "\ud83d",
    "\ud83d\ude00",
    "\U0001f600",
    "é",
    "e\u0301",
    "\0",
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324, float("inf"))
DISTINCT: dict[object, tuple[Any, ...]] = {
    str: TEXTS,
    str | None: (None, *TEXTS),
    bool: (True, False, 1, 0),
    bool | None: (None, True, False, 1, 0),
    int: (0, 1, -1, True, 2**53, 2**53 + 1, 2**70),
    int | None: (None, 0, 1, -1, False, 2**53, 2**53 + 1),
    float | None: (None, *FLOATS, 0, 1),
    tuple[str, ...] | None: (None, (), ("",), ("", ""), ("ab",), ("a", "b"), ("a,b",), ('a","b',), ("b", "a")),
    tuple[float, ...] | None: (None, (), *((x,) for x in FLOATS), (0.0, 0.0), (1.0, 0.1), (0.1, 1.0)),
}
"""By type: values of which each must have a key of its own."""


def sample() -> Query:
    """One query, of the first value of each type."""
    return Scope(**{name: DISTINCT[TYPES[name]][0] for name in FIELDS}), None, None


def changed(query: Query, name: str, value: Any) -> Query:
    """The query with one input changed."""
    scope, text, vector = query
    if name == "text":
        return scope, value, vector
    if name == "vector":
        return scope, text, value
    return replace(scope, **{name: value}), text, vector


def only_scope(digest: Callable[[Scope], bytes]) -> Key:
    """A digest of the scope as one of the whole query."""
    return lambda scope, text, vector: digest(scope)


KINDS: dict[str, tuple[Key, set[str]]] = {
    "exact": (exact_key, set(INPUTS)),
    "scope": (only_scope(lambda scope: scope_key(scope, "embedded")), set(FIELDS)),
    "binding": (binding, set(INPUTS) - MOVING),
    "state": (only_scope(state), STATE),
}
"""Each digest, and what must change it."""


def blurred(key: Key) -> set[str]:
    """The inputs of which some two values have one key."""
    found = set()
    for name in INPUTS:
        keys = [key(*changed(sample(), name, value)) for value in DISTINCT[TYPES[name]]]
        if any(one == other for one, other in combinations(keys, 2)):
            found.add(name)
    return found


def moving(key: Key) -> set[str]:
    """The inputs of which some two values have two keys."""
    return {
        name for name in INPUTS if len({key(*changed(sample(), name, value)) for value in DISTINCT[TYPES[name]]}) > 1
    }


def without(key: Key, name: str) -> Key:
    """A key that leaves an input out."""
    kept = DISTINCT[TYPES[name]][0]
    return lambda *query: key(*changed(query, name, kept))


@pytest.mark.parametrize("kind", KINDS)
def test_each_input_counts_where_it_must(kind: str) -> None:
    """Any two values of a field make two digests of those that it belongs to, and one of the others."""
    key, counts = KINDS[kind]
    assert blurred(key) == set(INPUTS) - counts
    assert moving(key) == counts


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_leaves_an_input_out_is_found(kind: str) -> None:
    """Whichever it is, the same check reports it."""
    key, counts = KINDS[kind]
    for name in INPUTS:
        assert blurred(without(key, name)) == (set(INPUTS) - counts) | {name}
        assert moving(without(key, name)) == counts - {name}


def side_by_side(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """A poor key: the inputs' texts in a row."""
    values = [*(getattr(scope, name) for name in FIELDS), text, vector]
    return "".join(map(str, values)).encode("utf-8", "surrogatepass")


def by_value(scope: Scope, text: str | None, vector: Sequence[float] | None) -> bytes:
    """A poor key: True is 1."""
    return exact_key(replace(scope, clock=None if scope.clock is None else int(scope.clock)), text, vector)


def spread(key: Key, first: str, second: str) -> bool:
    """True if texts with the same letters and another border between them have one key."""
    one, other = (changed(changed(sample(), first, a), second, b) for a, b in (("a", "bc"), ("ab", "c")))
    return key(*one) == key(*other)


def test_texts_side_by_side_stay_apart() -> None:
    """A text that moves from the end of one field to the beginning of the next makes another key."""
    texts = [name for name in INPUTS if TYPES[name] in (str, str | None)]
    for key, counts in KINDS.values():
        assert not any(spread(key, *two) for two in pairwise(name for name in texts if name in counts))
    assert spread(side_by_side, "query", "page")


def test_a_key_that_takes_true_for_one_is_found() -> None:
    """The check of each input knows the types of the values."""
    assert blurred(by_value) == {"clock"}


def told(value: object) -> object:
    """A value with its type, floats by their bits, for `==` to compare."""
    if isinstance(value, tuple):
        return tuple(map(told, value))
    return type(value).__name__, value.hex() if isinstance(value, float) else value


TEXT = st.text(st.sampled_from('ab",[]\\\ud83d\ude00\U0001f600\0é') | st.characters(), max_size=4)
FLOAT = st.sampled_from(FLOATS) | st.floats(allow_nan=False)
ANY: dict[object, st.SearchStrategy[Any]] = {
    str: TEXT,
    str | None: st.none() | TEXT,
    bool: st.booleans(),
    bool | None: st.none() | st.booleans(),
    int: st.integers(),
    int | None: st.none() | st.integers(),
    float | None: st.none() | FLOAT,
    tuple[str, ...] | None: st.none() | st.lists(TEXT, max_size=3).map(tuple),
    tuple[float, ...] | None: st.none() | st.lists(FLOAT, max_size=4).map(tuple),
}
QUERIES: st.SearchStrategy[Query] = st.tuples(
    st.builds(Scope, **{name: ANY[TYPES[name]] for name in FIELDS}), ANY[TYPES["text"]], ANY[TYPES["vector"]]
)


@given(QUERIES, st.data())
def test_keys_are_equal_just_where_the_inputs_are(one: Query, data: st.DataObject) -> None:
    """Whatever a few inputs are changed to: a digest is the same if, and only if, all that counts for it is."""
    other = one
    for name in data.draw(st.lists(st.sampled_from(INPUTS), max_size=3)):
        other = changed(other, name, data.draw(ANY[TYPES[name]]))
    for key, counts in KINDS.values():
        same = all(told(value_of(one, name)) == told(value_of(other, name)) for name in counts)
        assert (key(*one) == key(*other)) == same


def value_of(query: Query, name: str) -> object:
    """One input of a query."""
    scope, text, vector = query
    return {"text": text, "vector": vector}[name] if name in ("text", "vector") else getattr(scope, name)


@settings(max_examples=30)
@given(QUERIES)
def test_digests_of_two_kinds_are_never_equal(query: Query) -> None:
    """Nor is one the beginning of another; keys have 32 bytes, what travels in cursors has 16."""
    digests = [key(*query) for key, _ in KINDS.values()]
    assert list(map(len, digests)) == [32, 32, 16, 16]
    assert len({digest[:16] for digest in digests}) == len(KINDS)


def test_digests_are_those_of_their_text() -> None:
    """They hang on nothing but the values: no hash seed, no byte order."""
    names: dict[str, Any] = {"recipe_hash": "r", "config_hash": "c", "policy_hash": "ü", "physical": "h"}
    scope = replace(sample()[0], watermark=("w", "x"), analyser="a", **names)
    spelled = '["state",["r","c","ü","h",["w","x"],"a"]]'
    assert state(scope) == hashlib.sha256(spelled.encode()).digest()[:16]

    def last(vector: Sequence[float]) -> bytes:
        values = ",".join(map(json_of, (getattr(scope, name) for name in FIELDS)))
        head = f'["exact",[[{values}],"t",{len(vector)}]]'
        return hashlib.sha256(head.encode() + struct.pack(f"<{len(vector)}d", *vector)).digest()

    assert exact_key(scope, "t", [0.5, -2.0]) == last([0.5, -2.0])


def json_of(value: object) -> str:
    """The JSON of a sample's plain value."""
    if isinstance(value, tuple):
        return f"[{','.join(map(json_of, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def test_values_count_not_their_classes() -> None:
    """A member of a text enumeration counts as its text, a vector of numpy as its numbers."""

    class Collection(StrEnum):
        DOCUMENTS = "documents"

    scope, *_ = sample()
    numbers = [0.25, -1.5]
    array: Any = np.array(numbers)
    member, plain = (replace(scope, physical=name) for name in (Collection.DOCUMENTS, "documents"))
    assert exact_key(member, "t", array) == exact_key(plain, "t", numbers)


def test_a_field_of_a_later_release_counts() -> None:
    """It is in every key of a query without being named there; one that does not say it has the key of before."""

    class Later(QueryEvent):
        tint: str | None = None

    asked: dict[str, Any] = {"query_id": "q", "text": "t"}
    now, plain, tinted = (
        Scope.of(event, {}, "", "", "") for event in (QueryEvent(**asked), Later(**asked), Later(**asked, tint="red"))
    )
    for digest in (partial(exact_key, text="t", vector=None), partial(binding, text="t", vector=None)):
        assert digest(now) == digest(plain) != digest(tinted)

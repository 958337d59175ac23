"""The agreement of a stand-in's answer with a server's: equal, but for what the tables here let differ."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

CLOSE: Final = 1e-5
"""Floats are of single precision, and summed in another order."""

MAY_DIFFER: Final[Mapping[str, str]] = {
    "time": "the machine's speed",
    "operation_id": "counted by each shard's log",
    "version": "the operation that last wrote a point",
    "segments_count": "the optimizer's",
    "default_segment_number": "the default follows the processors",
    "indexed_vectors_count": "the optimizer's",
    "optimizer_status": "the optimizer's",
    "update_queue": "the writes that wait",
    "usage": "the machine's load",
    "scoring": "servers score text since 1.20",
}
"""Members of answers, and what decides them."""

STATES: Final[Mapping[frozenset[str], str]] = {
    frozenset({"green", "yellow", "grey"}): "the optimizer's",
}
"""Words of a result's `status` that may stand for one another, and why."""

PARTIAL: Final = tuple(
    f"Wrong input: {words}" for words in ("Vector dimension error", "Conversion between", "Not existing vector name")
)
"""Beginnings of the refusals of a point; a server may have written those ahead of it, the stand-in writes none."""

MALFORMED: Final = (
    "Format error in JSON body",
    "Validation error in",
    "Deserialize error in query parameters",
    *PARTIAL,
)
"""Beginnings of the refusals of a body or parameter: a parser's words, its order of checks, and 400 or 422 with it."""

NARROWER: Final[Mapping[str, str]] = {
    "the engine has": "the engine has fewer queries, conditions and updates",
    "the engine runs no model": "the engine has one model",
    "there is no such path": "the stand-in has the paths that rankstream and other tools ask",
    "unexpected keyword argument": "a server ignores an option of an index that it doesn't know",
    "variant of untagged enum Condition": "a server takes an empty condition",
    "variant of untagged enum VectorInput": "a server takes greater floats, and ids of points as queries",
    "Max points count limit": "a server counts points now and then, and refuses later",
}
"""Words of the stand-in's refusals of what a server may take, and why it may."""

WIDER: Final[Mapping[str, str]] = {
    r'"query":\{"text":"[^"]*"\}': "servers score text since 1.20",
}
"""Patterns of bodies that the engine takes and a server refuses, and why."""

PLACE: Final = re.compile(r" at line \d+ column \d+$")
"""The place of an error in a body, which the stand-in doesn't always know."""

UNORDERED: Final = frozenset({".result.collections", ".result.aliases"})
"""Lists whose order is a hash map's."""

DESCRIBED: Final = (".result.config.", ".result.payload_schema.")
"""Places of settings, where a null says no more than a setting that isn't there."""

Difference = tuple[str, Any, Any]
"""The place in the answer, the stand-in's value and the server's."""


def differences(
    one: Any, other: Any, limits: Mapping[str, int] = MappingProxyType({}), place: str = ""
) -> Iterator[Difference]:
    """Each place in which two answers disagree; `limits`: the length at which a list of points may have been cut."""
    match one, other:
        case dict(), dict():
            # A payload's members may have any names.
            free = set() if ".payload." in f"{place}." else {*MAY_DIFFER}
            if one.get("data_type") == "text" and place.startswith(DESCRIBED):
                # A server's index of a text counts the empty ones, too, the engine's doesn't.
                free.add("points")
            for name in sorted((one.keys() | other.keys()).difference(free)):
                inner = f"{place}.{name}"
                absent = None if inner.startswith(DESCRIBED) else "(absent)"
                yield from differences(one.get(name, absent), other.get(name, absent), limits, inner)
        case list(), list() if len(one) == len(other):
            if place in UNORDERED:
                one, other = sorted(one, key=str), sorted(other, key=str)
            cut = len(one) >= limits.get(place, len(one) + 1)
            for number, pair in enumerate(zip(*_in_one_order(one, other, cut), strict=True)):
                yield from differences(*pair, limits, f"{place}[{number}]")
        case (int() | float(), int() | float()) if isinstance(one, float) or isinstance(other, float):
            if abs(one - other) > CLOSE * max(1.0, abs(one)):
                yield place, one, other
        case str(), str() if place == ".result.status" and any({one, other} <= words for words in STATES):
            return
        case str(), str() if place.endswith(".error"):
            if PLACE.sub("", one) != PLACE.sub("", other):
                yield place, one, other
        case _ if one != other or type(one) is not type(other):
            yield place, one, other


def _in_one_order(one: list[Any], other: list[Any], cut: bool) -> tuple[list[Any], list[Any]]:
    """Two lists of points, so that ties have one order. Where they are `cut`, the last tie may have lost others."""
    if not one or not all(isinstance(each, dict) and "id" in each for each in [*one, *other]):
        return one, other
    values = [[_value(each) for each in points] for points in (one, other)]
    if None in values[0] or not all(_close(*pair) for pair in zip(*values, strict=True)):
        return one, other
    ties = [0]
    for before, value in zip(values[0], values[0][1:], strict=False):
        ties.append(ties[-1] + (not _close(before, value)))
    one, other = (
        [each for _, each in sorted(zip(ties, points, strict=True), key=lambda pair: (pair[0], str(pair[1]["id"])))]
        for points in (one, other)
    )
    last = ties.index(ties[-1])
    if cut and {str(each["id"]) for each in one[last:]} != {str(each["id"]) for each in other[last:]}:
        return one[:last], other[:last]
    return one, other


def _value(point: Mapping[str, Any]) -> Any:
    """The value by which a list is ordered."""
    return point.get("score", point.get("order_value"))


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= CLOSE * max(1.0, abs(one))
    return bool(one == other)

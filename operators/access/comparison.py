"""Comparisons of values as Qdrant makes them, in conditions and in checks of payloads: numbers, times and texts."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from math import inf, nextafter
from operator import ge, gt, le, lt
from typing import Any, Final, TypeGuard, TypeVar

from schemas.fields import read_time
from schemas.filters import EXACT
from schemas.texts import nfc, nfd

Value = TypeVar("Value", str, str | bool | int, str | bool | int | float)

_INT64: Final = 2**63
_CHECKS: Final = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?")
"""RFC 3339, a date, or one with a time of day; Qdrant reads those without an offset in UTC."""


def spell_all(values: Sequence[Value]) -> Sequence[Value]:
    """The values, and the other forms of the texts among them."""
    forms: list[Any] = [*_spell(tuple(each for each in values if isinstance(each, str)))]
    return forms + [each for each in values if not isinstance(each, str)] if forms else values


# For the checks of many records by one filter; lists of values may be large, so few are kept.
@lru_cache(32)
def _spell(texts: tuple[str, ...]) -> tuple[Any, ...]:
    forms = (form for text in texts for form in (text, nfc(text), nfd(text)))
    cases = ((form, form.lower(), form.upper()) if _UUID.fullmatch(form) else (form,) for form in forms)
    return tuple(dict.fromkeys(chain.from_iterable(cases)))


def is_double(value: str | bool | int | float) -> TypeGuard[int | float]:
    """True for a number that is compared as a double."""
    return isinstance(value, float) or (type(value) is int and abs(value) < EXACT)


def as_doubles(bounds: Mapping[str, float]) -> tuple[Mapping[str, float], Sequence[range]]:
    """Bounds as Qdrant compares them, by doubles, and the integers next to them that it would not tell apart.

    Where a bound is an integer beyond ±2^53, the range begins or ends at the first double of which all integers that
    round to it are within.
    """
    if int not in map(type, bounds.values()):
        return bounds, ()
    doubles: dict[str, float] = {}
    edges: list[range] = []
    for name, bound in bounds.items():
        if type(bound) is not int:
            doubles[name] = bound
        elif name.startswith("g"):
            least = bound + (name == "gt")
            doubles["gte"] = nextafter(least - 1, inf)
            edges.append(range(least, min(int(doubles["gte"]), _INT64)))
        else:
            most = bound - (name == "lt")
            doubles["lte"] = nextafter(most + 1, -inf)
            edges.append(range(max(int(doubles["lte"]) + 1, -_INT64), most + 1))
    return doubles, edges


def holds(value: int, bounds: Mapping[str, float]) -> bool:
    """True if an integer is within bounds: exactly, where a bound is an integer that doubles do not tell apart."""
    return all(_CHECKS[name](value if type(bound) is int else float(value), bound) for name, bound in bounds.items())


def is_number(value: object) -> TypeGuard[int | float]:
    """True for a number that is no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equals(value: object, wanted: str | bool | int | float) -> bool:
    """True if a payload's value equals the wanted one: integers that doubles do not tell apart exactly."""
    if not is_double(wanted):
        return type(value) is type(wanted) and value == wanted
    return is_number(value) and float(value) == float(wanted)


def is_within(value: Any, bounds: Mapping[str, Any]) -> bool:
    """True if a value is within bounds."""
    return all(_CHECKS[name](value, bound) for name, bound in bounds.items())


def read_moment(value: object) -> datetime | None:
    """The moment of a string that Qdrant reads as a time; None of any other value."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    try:
        return read_time(value)
    except ValueError:
        return None

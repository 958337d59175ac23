"""The payload values that no stage hopes for: wrong types, numbers out of all bounds, stamps that are none."""

import math
from typing import Any

from hypothesis import strategies as st

from tests.operators.ranking.pools import DAY, NOW

NO_NUMBERS: tuple[Any, ...] = (None, "3", "", "high", True, False, [3.0], [], {"a": 1}, {}, math.nan)
"""The values that are no number."""

WILD_NUMBERS: tuple[Any, ...] = (1e308, -1e308, 5e-324, -0.0, 10**400, -(10**400), math.inf, -math.inf)
"""Numbers that no document means."""

NO_STAMPS: tuple[Any, ...] = (
    *(None, True, False, math.nan, math.inf, -math.inf, 1e308, -1e308, 10**400, [], {}, [NOW]),
    *("", "yesterday", "1700000000", "2023-11-14", "2023-11-14T22:13:20", "2023-13-01T00:00:00Z", "\ud800", "昨日"),
    # Their digits are of the years 1 to 9999, their moments aren't.
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
)
"""The values that are no time: garbage, naive times, and moments outside the years 1 to 9999."""

YEAR_1 = "0001-01-01T00:00:00Z"
FIELDS = ("importance", "salience", "memory_tier", "confidence", "access_count", "title", "text", "_content")
STAMPS = ("created_at", "updated_at", "accessed_at", "confirmed_at")


def named(value: object) -> str:
    """A value's name in a test's, cut short: some have 400 digits."""
    return ascii(value)[:24]


def ago(days: float) -> float:
    """The Unix second so many days before NOW."""
    return NOW - days * DAY


_values = st.sampled_from([*NO_NUMBERS, *WILD_NUMBERS, "semantic", "procedural", "episodic", "working", 0, 3, 0.5])
_stamps = st.sampled_from([*NO_STAMPS, YEAR_1, ago(0), ago(-400), ago(3.5), "2023-11-01T00:00:00+02:00"])

payloads = st.fixed_dictionaries({}, optional={**dict.fromkeys(FIELDS, _values), **dict.fromkeys(STAMPS, _stamps)})
"""Payloads with any of the fields that stages read, each sensible or odd."""

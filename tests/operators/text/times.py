"""The time of a text as most tests ask for it."""

from operators.text.dates import TemporalExpression
from operators.text.times import find_time


def temporal_expression(query: str, now: float) -> TemporalExpression | None:
    """The expression of the time that a text names, where a year by itself is none."""
    found = find_time(query, now)
    return found.expression if found is not None else None

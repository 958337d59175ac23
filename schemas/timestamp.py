"""Times on the wire: RFC 3339 with an offset, or Unix seconds; never without an offset."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

_YEAR_1: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_YEAR_10000: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp() + 86_400


def unix_seconds(value: object) -> float:
    """Convert an RFC 3339 string with an offset, or Unix seconds, to Unix seconds.

    Raises ValueError for a naive or unreadable time, and for one outside the years 1 to 9999.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("not an RFC 3339 time") from None
        if moment.tzinfo is None:
            raise ValueError("a time needs an offset, such as Z or +02:00")
        seconds = moment.timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise ValueError("a time is an RFC 3339 string or Unix seconds")
    # An offset can move a time out of the years that its digits name; NaN fails both comparisons.
    if not _YEAR_1 <= seconds < _YEAR_10000:
        raise ValueError("a time outside the years 1 to 9999")
    return float(seconds)


def rfc3339(seconds: float) -> str:
    """Format Unix seconds as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Timestamp = Annotated[float, BeforeValidator(unix_seconds, json_schema_input_type=str | float), Field()]
"""A field that accepts both forms and holds Unix seconds."""

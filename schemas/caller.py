"""The caller of a query event: what tells whom to answer, each field by the event's own rules, whatever the rest is."""

from typing import Any, Final

import orjson
from pydantic import ConfigDict, TypeAdapter

from schemas.query import Metadata, QueryId

_STRICT: Final = ConfigDict(strict=True)
_QUERY_ID: Final[TypeAdapter[str]] = TypeAdapter(QueryId, config=_STRICT)
_METADATA: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(Metadata, config=_STRICT)


def query_id(value: object) -> str | None:
    """The value, if it is a `query_id`."""
    try:
        return _QUERY_ID.validate_python(value)
    except ValueError:
        return None


def metadata(value: object) -> dict[str, Any] | None:
    """The value, if it is `metadata` that JSON carries unchanged."""
    try:
        valid = _METADATA.validate_python(value)
        # NaN is written as null; what is no JSON, as an integer of 65 bits, is a TypeError.
        return valid if orjson.loads(orjson.dumps(valid)) == valid else None
    except (ValueError, TypeError, RecursionError):
        return None
